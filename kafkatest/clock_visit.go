package kafkatest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stratalog/strata"
)

// Inside calls f where the server runs, with its Cluster, and returns when f does. With
// Config.Clock that is a testing/synctest bubble, whose channels, timers and contexts end the
// process if they are used outside of it: what f makes from the cluster, as a consumer, it has to
// close, and what it returns should be plain values. The other way round as well: a context made
// outside, as t.Context(), that f waits for or hands to the cluster ends the process when it is
// cancelled, even at the end of the test. ctx is for all of f, and ends after Config.WaitTimeout. f
// may fail the test, and use the Server, but not testing/synctest. Without Config.Clock it is an
// ordinary call. A nil f fails the test.
func (s *Server) Inside(f func(ctx context.Context, c *strata.Cluster)) {
	s.t.Helper()
	if f == nil {
		s.t.Fatalf("kafkatest: Inside: f is nil")
	}
	s.within(func(s *Server, _ *visit) {
		ctx, cancel := s.waitContext()
		defer cancel()
		f(ctx, s.Cluster())
	})
}

// within calls f with the server itself: in its bubble, if it has one of its own.
func (s *Server) within(f func(*Server, *visit)) {
	s.t.Helper()
	if s.clock == nil {
		f(s, nil)
		return
	}
	s.clock.enter(f)
}

// inBubble reports whether the caller is in a bubble: the times there have no monotonic part, with
// which Round(0) does away elsewhere.
func inBubble() bool {
	now := time.Now()
	return now == now.Round(0)
}

// A visit is a call from outside that runs in the bubble. Its channels are made outside.
type visit struct {
	c       *clock
	ask     chan func()   // functions for the caller to run
	gone    chan struct{} // closed when the caller is
	done    chan struct{}
	outcome outcome // read when done is closed
}

// An outcome is how a function has ended, if not by returning.
type outcome struct {
	fatal    string // what Fatalf was called with
	panicked any
	stack    string
	exited   bool // its goroutine has, as testing.T.FailNow has it do
}

// fatal is what the Fatalf of a server in a bubble panics with.
type fatal string

// abandoned is what ends a visit whose caller has gone.
type abandoned struct{}

// run runs f and notes how it ends.
func (o *outcome) run(f func()) {
	returned := false
	defer func() {
		switch v := recover().(type) {
		case nil:
			o.exited = !returned
		case fatal:
			o.fatal = string(v)
		case abandoned:
		default:
			o.panicked, o.stack = v, ownStack()
		}
	}()
	f()
	returned = true
}

// pass ends the caller's goroutine as f has ended its own.
func (o *outcome) pass(t *testing.T) {
	t.Helper()
	switch {
	case o.fatal != "":
		t.Fatalf("%s", o.fatal)
	case o.panicked != nil:
		panic(fmt.Sprintf("%v [in the bubble of a Server with Config.Clock]\n\n%s", o.panicked, o.stack))
	case o.exited && t.Skipped():
		t.SkipNow()
	case o.exited:
		t.FailNow()
	}
}

// errors of who cannot enter.
var (
	errOtherBubble = errors.New("a Server with Config.Clock is used in a testing/synctest bubble that is not its own")
	errClockOver   = errors.New("a Server with Config.Clock is used when its test is over")
)

// enter is visit for those who can fail the test.
func (c *clock) enter(f func(*Server, *visit)) {
	c.t.Helper()
	if err := c.visit(f); err != nil {
		c.t.Fatalf("kafkatest: %v", err)
	}
}

// visit runs f in the bubble, on a goroutine of its own, and returns when it has ended. Where f has
// failed the test, has panicked or exited, so does the caller.
func (c *clock) visit(f func(*Server, *visit)) error {
	c.t.Helper()
	if inBubble() { // Inside has called it
		if time.Now().Before(c.began.Round(0)) {
			return errOtherBubble
		}
		f(c.server, nil)
		return nil
	}
	v := &visit{c: c, ask: make(chan func()), gone: make(chan struct{}), done: make(chan struct{})}
	defer close(v.gone)
	err := c.wait(v.done, v.ask, func() {
		go func() {
			defer close(v.done)
			v.outcome.run(func() { f(c.server, v) })
		}()
	})
	if err == nil {
		v.outcome.pass(c.t)
	}
	return err
}

// wait has the gate run job, and runs what ask says until done is closed.
func (c *clock) wait(done <-chan struct{}, ask <-chan func(), job func()) error {
	jobs, seen := c.jobs, ""
	look := time.NewTicker(stuckAfter)
	defer look.Stop()
	for {
		select {
		case jobs <- job:
			jobs = nil
		case f := <-ask:
			f()
		case <-done:
			return nil
		case <-c.over:
			select {
			case <-done: // it was the last call
				return nil
			default:
				return errClockOver
			}
		case <-look.C:
			stuck := c.stuck()
			if stuck != "" && stuck == seen {
				return fmt.Errorf("the time of the server stands still, and nothing gets to it, as something in it waits for what is outside:\n\n%s", stuck)
			}
			seen = stuck
		}
	}
}

// context returns a context of the bubble that ends when one from outside does, with its error; ctx
// itself if nobody has entered.
func (v *visit) context(ctx context.Context) (context.Context, context.CancelFunc) {
	if v == nil {
		return ctx, func() {}
	}
	w := &wait{done: make(chan struct{})}
	var stop func() bool // outside
	v.c.out <- func() {
		stop = context.AfterFunc(ctx, func() { v.c.do(func() { w.end(ctx.Err()) }) })
	}
	return w, func() {
		w.end(context.Canceled)
		v.c.out <- func() { stop() }
	}
}

// back runs f on the goroutine of who has entered, or here if nobody has.
func (v *visit) back(f func()) {
	if v == nil {
		f()
		return
	}
	returned := v.c.leave(f, func(run func()) bool {
		select {
		case v.ask <- run:
			return true
		case <-v.gone:
			return false
		}
	})
	if !returned {
		panic(abandoned{})
	}
}

// outside runs f on a goroutine outside, and waits for it. f may wait, and use the Server. If f
// ends its goroutine, as one that fails the test does, what it was to find is left out.
func (c *clock) outside(f func()) {
	c.leave(f, func(run func()) bool {
		c.out <- func() { go run() } // the server, whose end is waited for, waits for it
		return true
	})
}

// leave has start run f outside, waits until it is over, and reports whether it has returned.
func (c *clock) leave(f func(), start func(run func()) bool) bool {
	returned := make(chan bool, 1) // of the bubble
	c.away.Add(1)
	select {
	case c.departed <- struct{}{}:
	default:
	}
	started := start(func() {
		ok := false
		defer func() {
			c.do(func() {
				c.away.Add(-1)
				returned <- ok
			})
		}()
		f()
		ok = true
	})
	if !started {
		c.away.Add(-1)
		return false
	}
	return <-returned
}

// A carrier is the T of the server in the bubble: what fails there fails the call of the test's
// that has entered.
type carrier struct{ c *clock }

func (carrier) Helper()                             {}
func (p carrier) Logf(format string, args ...any)   { p.c.t.Logf(format, args...) }
func (p carrier) Cleanup(f func())                  { p.c.cleanups = append(p.c.cleanups, f) }
func (p carrier) Fatalf(format string, args ...any) { panic(fatal(fmt.Sprintf(format, args...))) }

// waitContext returns the context of one wait in the bubble, which ends by real time: an Advance
// beside it does not end it.
func (c *clock) waitContext() (context.Context, context.CancelFunc) {
	w := &wait{done: make(chan struct{})}
	var timer *time.Timer // outside
	c.out <- func() {
		ends := time.Now().Add(c.shell.wait)
		if !c.shell.testEnds.IsZero() && c.shell.testEnds.Before(ends) {
			ends = c.shell.testEnds
		}
		timer = time.AfterFunc(time.Until(ends), func() { c.do(func() { w.end(context.DeadlineExceeded) }) })
	}
	return w, func() {
		w.end(context.Canceled)
		c.out <- func() { timer.Stop() }
	}
}

// A wait is a context of the bubble that is ended from outside.
type wait struct {
	done chan struct{}

	mu  sync.Mutex // guards the field below
	err error
}

func (w *wait) end(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err == nil {
		w.err = err
		close(w.done)
	}
}

func (*wait) Deadline() (time.Time, bool) { return time.Time{}, false }
func (w *wait) Done() <-chan struct{}     { return w.done }
func (*wait) Value(any) any               { return nil }

func (w *wait) Err() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}
