// Package synctest is testing/synctest with a bound on virtual time, for the tests of this module.
//
// If a test waits for a condition that is never met, a bubble of testing/synctest does not end: its
// clock jumps from timer to timer, until go test's own timeout ends the test binary. Here the test
// panics after MaxVirtual, with the stacks of its bubble.
package synctest

import (
	"bytes"
	"fmt"
	"regexp"
	"runtime"
	"testing"
	"testing/synctest"
	"time"
)

// MaxVirtual bounds the time of a bubble of Test, by its own clock.
const MaxVirtual = 1000 * time.Hour

// Test runs f in a new bubble, as testing/synctest.Test does. It panics if the test and its cleanups
// have not ended after MaxVirtual.
func Test(t *testing.T, f func(*testing.T)) {
	t.Helper()
	TestFor(t, MaxVirtual, f)
}

// TestFor is Test with limit in place of MaxVirtual.
func TestFor(t *testing.T, limit time.Duration, f func(*testing.T)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		expired := time.AfterFunc(limit, func() {
			panic(fmt.Sprintf("%s has not ended after %s of virtual time\n\n%s", t.Name(), limit, stacks()))
		})
		t.Cleanup(func() { expired.Stop() }) // registered first, runs last: it bounds the cleanups too
		f(t)
	})
}

// Wait blocks until every other goroutine of the bubble is durably blocked, as
// testing/synctest.Wait does.
func Wait() { synctest.Wait() }

var bubble = regexp.MustCompile(`synctest bubble \d+`)

// stacks returns the stacks of the goroutines in the caller's bubble.
func stacks() []byte {
	buf := make([]byte, 4<<20)
	all := bytes.Split(buf[:runtime.Stack(buf, true)], []byte("\n\n"))
	own := append(bubble.Find(all[0]), ']') // the caller's stack comes first
	var found [][]byte
	for _, stack := range all[1:] {
		if head, _, _ := bytes.Cut(stack, []byte("\n")); bytes.Contains(head, own) {
			found = append(found, stack)
		}
	}
	return bytes.Join(found, []byte("\n\n"))
}
