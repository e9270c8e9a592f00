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

// Every goroutine inherits the profiler labels of the goroutine that starts it. A server is started
// under its own label, so that its leaked goroutines can be distinguished from other servers' in
// the same process.
const (
	leakLabel  = "kafkatest"
	leakGrace  = time.Second // for goroutines that are about to end
	leakChecks = 100
)

var servers atomic.Int64 // numbers the servers of this process

// newLabel returns the value of a new label.
func newLabel() string { return strconv.FormatInt(servers.Add(1), 10) }

// relabelled runs f under a label from newLabel. It uses another goroutine, because the caller's
// labels could not be restored.
func relabelled(label string, f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		pprof.Do(context.Background(), pprof.Labels(leakLabel, label), func(context.Context) { f() })
	}()
	<-done
}

// unlabelled runs f, a function of the test, on a goroutine of the server, without the server's
// label: goroutines that f starts belong to the test.
func unlabelled(label string, f func()) {
	ctx := context.Background()
	pprof.SetGoroutineLabels(ctx)
	defer pprof.SetGoroutineLabels(pprof.WithLabels(ctx, pprof.Labels(leakLabel, label)))
	f()
}

// leaked returns the stacks of goroutines with a label, except the caller's. It gives them some
// time to end.
func leaked(label string) []string {
	for range leakChecks {
		if alone() || len(labelledStacks(label)) == 0 {
			return nil
		}
		// lets other goroutines run; in a synctest bubble the time moves when all of them wait
		time.Sleep(leakGrace / leakChecks)
	}
	return labelledStacks(label)
}

// alone reports whether there are no goroutines except the caller and the main one, which no server
// has started. This is so at the end of a test that is no subtest, does not run in parallel and has
// closed its clients. It saves the check of the labels, which stops the world and takes half as
// long as all the rest.
func alone() bool {
	for range endingYields {
		if n := runtime.NumGoroutine(); n == 1 || n == 2 && !isMain() {
			return true
		}
		runtime.Gosched()
	}
	return false
}

// endingYields is the number of times that alone yields to other goroutines, which may be about to
// end.
const endingYields = 20

// isMain reports whether the caller runs on the main goroutine, as it may in a program without a
// test. It also returns true if the stack is too deep to know.
func isMain() bool {
	var calls [100]uintptr
	n := runtime.Callers(0, calls[:])
	for _, c := range calls[max(n-2, 0):n] { // runtime.main and runtime.goexit come last
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
