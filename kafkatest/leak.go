package kafkatest

import (
	"bytes"
	"context"
	"runtime"
	"runtime/pprof"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// Every goroutine inherits the profiler labels of the one that starts it. A server is
// started under a label of its own, so that those it leaves behind can be told from those
// of other servers in the same process.
const (
	leakLabel  = "kafkatest"
	leakGrace  = time.Second // for goroutines that are on their way out
	leakChecks = 100
)

var servers atomic.Int64 // numbers the servers of this process

// newLabel returns the value of a new label.
func newLabel() string { return strconv.FormatInt(servers.Add(1), 10) }

// relabelled runs f under a label that newLabel has made, on a goroutine of its own, as
// the caller's labels cannot be put back.
func relabelled(label string, f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		pprof.Do(context.Background(), pprof.Labels(leakLabel, label), func(context.Context) { f() })
	}()
	<-done
}

// unlabelled runs f, a function of the test, on a goroutine of the server, without the server's
// label: what f starts is the test's.
func unlabelled(label string, f func()) {
	ctx := context.Background()
	pprof.SetGoroutineLabels(ctx)
	defer pprof.SetGoroutineLabels(pprof.WithLabels(ctx, pprof.Labels(leakLabel, label)))
	f()
}

// leaked returns the stacks of goroutines with a label, other than the
// caller, after giving them some time to end.
func leaked(label string) []string {
	for range leakChecks {
		if alone() || len(labelledStacks(label)) == 0 {
			return nil
		}
		// lets others run, also in a synctest bubble, whose time moves when they are all stuck
		time.Sleep(leakGrace / leakChecks)
	}
	return labelledStacks(label)
}

// alone reports whether there are no goroutines but the main one, which no server has started, and
// the caller: as at the end of a test that is no subtest, does not run beside others and has closed
// its clients. To look at the labels the world is stopped, which takes half as long as all the
// rest.
func alone() bool {
	for range endingYields {
		if n := runtime.NumGoroutine(); n == 1 || n == 2 && !isMain() {
			return true
		}
		runtime.Gosched()
	}
	return false
}

// endingYields is how often others run before it counts that they are there: some are just ending.
const endingYields = 20

// isMain reports whether the caller runs on the goroutine that the program has begun with, as it
// may where there is no test, or cannot be told not to.
func isMain() bool {
	var calls [100]uintptr
	n := runtime.Callers(0, calls[:])
	for _, c := range calls[max(n-2, 0):n] { // the first call, which the runtime makes, and its own return
		if f := runtime.FuncForPC(c - 1); f == nil || f.Name() == "runtime.main" {
			return true
		}
	}
	return n == len(calls)
}

func labelledStacks(label string) []string {
	var profile bytes.Buffer
	if err := pprof.Lookup("goroutine").WriteTo(&profile, 1); err != nil {
		return nil
	}
	mark := "# labels: {\"" + leakLabel + "\":\"" + label + "\"}"
	var stacks []string
	for _, stack := range strings.Split(profile.String(), "\n\n") {
		if strings.Contains(stack, mark) {
			stacks = append(stacks, stack)
		}
	}
	return stacks
}
