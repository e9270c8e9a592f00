package kafkatest

import (
	"fmt"
	"os"
	"runtime"
	"sync"
	"testing"

	"github.com/stratalog/strata/internal/leaktest"
)

func TestMain(m *testing.M) {
	if where := os.Getenv(leavesBehind); where != "" {
		leaveBehind(where)
		return
	}
	leaktest.Main(m)
}

// A fakeT is a T that is not a test. It records the calls of its methods.
type fakeT struct {
	mu       sync.Mutex
	cleanups []func()
	fatal    string
	log      []string
}

func (f *fakeT) Helper() {}

func (f *fakeT) Cleanup(fn func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.cleanups = append(f.cleanups, fn)
}

func (f *fakeT) Logf(format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.log = append(f.log, fmt.Sprintf(format, args...))
}

func (f *fakeT) Fatalf(format string, args ...any) {
	f.mu.Lock()
	f.fatal = fmt.Sprintf(format, args...)
	f.mu.Unlock()
	runtime.Goexit()
}

// run runs fn and then the cleanups, as in a test. It returns the text of Fatalf.
func (f *fakeT) run(fn func()) string {
	step := func(fn func()) {
		done := make(chan struct{})
		go func() {
			defer close(done)
			fn()
		}()
		<-done
	}
	step(fn)
	for i := len(f.cleanups) - 1; i >= 0; i-- {
		step(f.cleanups[i])
	}
	return f.fatal
}
