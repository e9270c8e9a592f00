// Package leaktest fails a test binary that leaves goroutines behind.
package leaktest

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"
)

// Main runs the tests of m and exits. The status is 1 if a goroutine other than the runtime's and
// the test framework's is still alive. Goroutines that are about to end get up to a second.
func Main(m *testing.M) {
	code := m.Run()
	if left := leaked(time.Second); code == 0 && len(left) > 0 {
		fmt.Fprintf(os.Stderr, "leaktest: %d goroutines left behind:\n\n%s\n", len(left), strings.Join(left, "\n\n"))
		code = 1
	}
	os.Exit(code)
}

// leaked returns the stacks of leaked goroutines. It waits up to grace for them to end.
func leaked(grace time.Duration) []string {
	for deadline := time.Now().Add(grace); ; runtime.Gosched() {
		left := alive()
		if len(left) == 0 || time.Now().After(deadline) {
			return left
		}
	}
}

func alive() []string {
	buf := make([]byte, 1<<20)
	buf = buf[:runtime.Stack(buf, true)]
	var left []string
	for _, g := range strings.Split(string(buf), "\n\n") {
		if !expected(g) {
			left = append(left, g)
		}
	}
	return left
}

// expected reports whether a stack belongs to the framework: the goroutine that runs
// Main, the fuzzing engine, signal handling.
func expected(stack string) bool {
	for _, s := range []string{"internal/leaktest.Main", "testing.(*M)", "testing.runFuzz", "os/signal.", "runtime.ReadTrace", "runtime/pprof."} {
		if strings.Contains(stack, s) {
			return true
		}
	}
	return false
}
