package kafkatest

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stratalog/strata"
)

// Inside calls f with the server's Cluster, in the bubble of the server if it has one, and returns
// when f does. The context of f has the values of ctx. It ends when ctx does, or after
// Config.WaitTimeout. f must use it for all its waits.
//
//	s.Inside(t.Context(), func(ctx context.Context, c *strata.Cluster) {
//		err := c.DeleteTopic(ctx, "orders")
//		...
//	})
//
// With Config.Clock the server runs in a testing/synctest bubble:
//
//   - A channel, timer, context or consumer that f creates must not be used outside: that ends the
//     process. f must close everything it creates from the cluster, and should return plain values.
//   - While f waits for a channel or timer from outside, the time of the server stands still.
//   - f must not wait for a context from outside, nor pass one to the cluster, except its own ctx
//     and the context of the test that created the server. Cancelling such a context ends the
//     process. The t.Context() of another test is cancelled at the end of that test.
//
// f may fail the test and use the Server, but not testing/synctest. Without Config.Clock Inside is
// an ordinary call. It fails the test if ctx or f is nil.
func (s *Server) Inside(ctx context.Context, f func(ctx context.Context, c *strata.Cluster)) {
	s.t.Helper()
	if ctx == nil || f == nil {
		s.t.Fatalf("kafkatest: Inside: ctx or f is nil")
	}
	ctx.Done() // creates its channel here: a channel of the bubble could not be closed outside
	s.within("Inside", func(s *Server, v *visit) {
		inner, end := v.context(ctx)
		defer end()
		bounded, cancel := s.boundedContext(inner)
		defer cancel()
		f(bounded, s.Cluster())
	})
}

// within calls f with the server of the brokers, in its bubble if it has its own. It fails the test
// if the server has ended. what names the call of the test.
func (s *Server) within(what string, f func(*Server, *visit)) {
	s.t.Helper()
	f = recorded(what, f)
	if s.clock != nil {
		s.clock.enter(f)
		return
	}
	if s.in.ended() {
		s.t.Fatalf("kafkatest: %v", errOver)
	}
	f(s, nil)
}

// look is within for an f that also works after the server has ended. Then f runs outside, and must
// not wait for a channel of the server.
func (s *Server) look(what string, f func(*Server, *visit)) {
	s.t.Helper()
	f = recorded(what, f)
	if s.clock == nil {
		f(s, nil)
		return
	}
	s.clock.look(f)
}

// recorded returns f, which records its call until the server has ended.
func recorded(what string, f func(*Server, *visit)) func(*Server, *visit) {
	return func(s *Server, v *visit) {
		if over := s.in.ended(); over {
			f(s, v)
			return
		}
		end, failed := s.in.happened.call(time.Now(), what), true
		defer func() { end(time.Now(), failed) }()
		f(s, v)
		failed = false
	}
}

// itself returns the server of the brokers: with Config.Clock the one in the bubble. Its fields
// that a mutex guards can be read without entering the bubble, even during an Advance and after the
// server has ended.
func (s *Server) itself() *Server {
	if s.clock == nil {
		return s
	}
	return s.clock.server
}

// inBubble reports whether the caller is in a bubble. Times in a bubble have no monotonic part, so
// Round(0) does not change them.
func inBubble() bool {
	now := time.Now()
	return now == now.Round(0)
}

// A visit is a call from outside that runs in the bubble. Its channels are made outside.
type visit struct {
	c       *clock
	ask     chan func()   // functions for the caller to run
	gone    chan struct{} // closed when the caller has returned
	done    chan struct{} // closed when the call has ended
	outcome outcome       // read only after done is closed
}

// An outcome records how a function ended. It is zero if the function returned.
type outcome struct {
	fatal    string // message of Fatalf
	panicked any
	stack    string
	exited   bool // it ended its goroutine, as FailNow and SkipNow of a testing.T do
}

// fatal is the panic value of Fatalf for a server in a bubble.
type fatal string

// abandoned is the panic value that ends a visit whose caller has returned.
type abandoned struct{}

// run runs f and records how it ends.
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

// pass fails the test, panics or ends the caller's goroutine, as f did.
func (o *outcome) pass(t *testing.T) {
	t.Helper()
	switch {
	case o.fatal != "":
		t.Fatalf("%s", o.fatal)
	case o.panicked != nil:
		panic(fmt.Sprintf("%v [in the bubble of a Server with Config.Clock]\n\n%s", o.panicked, o.stack))
	case o.exited: // FailNow or SkipNow has already changed the state of its test
		runtime.Goexit()
	}
}

// Errors of calls that cannot enter the bubble.
var (
	errOtherBubble = errors.New("a Server with Config.Clock is used in a testing/synctest bubble that is not its own")
	errOver        = errors.New("the test of this Server has ended")
	errLate        = errors.New("it takes too long")
)

// enter is visit for calls that can fail the test.
func (c *clock) enter(f func(*Server, *visit)) {
	c.t.Helper()
	if err := c.visit(f); err != nil {
		c.t.Fatalf("kafkatest: %v", err)
	}
}

// look implements Server.look.
func (c *clock) look(f func(*Server, *visit)) {
	c.t.Helper()
	err := c.visit(f)
	if errors.Is(err, errOver) {
		f(c.server, nil)
	} else if err != nil {
		c.t.Fatalf("kafkatest: %v", err)
	}
}

// visit runs f in the bubble, on its own goroutine, and returns when it has ended. If f fails the
// test, panics or exits, so does the caller. If the server has ended, it returns errOver without
// running f.
func (c *clock) visit(f func(*Server, *visit)) error {
	c.t.Helper()
	if inBubble() { // called by a function of Inside
		if time.Now().Before(c.began.Round(0)) {
			return errOtherBubble
		}
		f(c.server, nil)
		return nil
	}
	if !c.visitors.enter() {
		return errOver
	}
	defer c.visitors.inside.Done()
	v := &visit{c: c, ask: make(chan func()), gone: make(chan struct{}), done: make(chan struct{})}
	defer close(v.gone)
	err := c.wait(context.Background(), v.done, v.ask, func() {
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

// visitors are the callers from outside that are in the bubble. The bubble ends when all have left.
type visitors struct {
	inside sync.WaitGroup

	mu     sync.Mutex // guards the field below
	closed bool
}

// enter counts a visitor, which leaves with inside.Done. It returns false if no visitor may enter
// any more.
func (vs *visitors) enter() bool {
	vs.mu.Lock()
	defer vs.mu.Unlock()
	if !vs.closed {
		vs.inside.Add(1)
	}
	return !vs.closed
}

// areOver reports whether visitors must leave.
func (vs *visitors) areOver() bool {
	vs.mu.Lock()
	defer vs.mu.Unlock()
	return vs.closed
}

func (vs *visitors) close() {
	vs.mu.Lock()
	defer vs.mu.Unlock()
	vs.closed = true
}

// wait runs job on the gate, and runs functions from the channel ask until done is closed. It
// returns errLate if ctx ends first.
func (c *clock) wait(ctx context.Context, done <-chan struct{}, ask <-chan func(), job func()) error {
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
		case <-ctx.Done():
			return errLate
		case <-c.over:
			select {
			case <-done: // it was the last call
				return nil
			default:
				return errOver
			}
		case <-look.C:
			stuck := c.stuck()
			if stuck != "" && stuck == seen {
				return fmt.Errorf("the time of the server stands still: a goroutine in its bubble waits for something outside, for example for a context other than the one that Inside passed to its function:\n\n%s", stuck)
			}
			seen = stuck
		}
	}
}

// context returns a context of the bubble that ends when ctx, from outside, ends, and with its
// error. For a nil visit it returns ctx itself.
func (v *visit) context(ctx context.Context) (context.Context, context.CancelFunc) {
	if v == nil {
		return ctx, func() {}
	}
	w := &wait{values: ctx, done: make(chan struct{})}
	if err := ctx.Err(); err != nil {
		w.end(err)
		return w, func() {}
	}
	var stop func() bool // outside
	v.c.out <- func() {
		stop = context.AfterFunc(ctx, func() { v.c.do(func() { w.end(ctx.Err()) }) })
	}
	return w, func() {
		w.end(context.Canceled)
		v.c.out <- func() { stop() }
	}
}

// back runs f on the goroutine of the visitor's caller, or here if there is no visitor.
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

// outside runs f on a goroutine outside, and waits for it. f may wait and use the Server. If f ends
// its goroutine, as by failing the test, outside returns without a result of f.
func (c *clock) outside(f func()) {
	c.leave(f, func(run func()) bool {
		// No wait group: the server waits for run, and the test for the server.
		c.out <- func() { go run() }
		return true
	})
}

// leave runs f outside with start, waits until it ends, and reports whether it has returned.
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

// A carrier is the T of the server in the bubble. A failure there fails the call of the test that
// has entered the bubble.
type carrier struct{ c *clock }

func (carrier) Helper()                             {}
func (p carrier) Logf(format string, args ...any)   { p.c.t.Logf(format, args...) }
func (p carrier) Name() string                      { return p.c.t.Name() }
func (p carrier) Failed() bool                      { return p.c.t.Failed() }
func (p carrier) ArtifactDir() string               { return p.c.t.ArtifactDir() }
func (p carrier) Cleanup(f func())                  { p.c.cleanups = append(p.c.cleanups, f) }
func (p carrier) Fatalf(format string, args ...any) { panic(fatal(fmt.Sprintf(format, args...))) }

// boundedContext returns the context of one wait in the bubble. It ends when parent, a context of
// the bubble, ends, or after Config.WaitTimeout in real time: a concurrent Advance does not end it.
func (c *clock) boundedContext(parent context.Context) (context.Context, context.CancelFunc) {
	w := &wait{values: parent, done: make(chan struct{})}
	if err := parent.Err(); err != nil {
		w.end(err)
		return w, func() {}
	}
	forget := context.AfterFunc(parent, func() { w.end(parent.Err()) })
	var timer *time.Timer // outside
	c.out <- func() {
		ends := time.Now().Add(c.shell.wait)
		if !c.shell.testEnds.IsZero() && c.shell.testEnds.Before(ends) {
			ends = c.shell.testEnds
		}
		timer = time.AfterFunc(time.Until(ends), func() { c.do(func() { w.end(context.DeadlineExceeded) }) })
	}
	return w, func() {
		forget()
		w.end(context.Canceled)
		c.out <- func() { timer.Stop() }
	}
}

// A wait is a context of the bubble that is ended from outside.
type wait struct {
	values context.Context
	done   chan struct{}

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
func (w *wait) Value(key any) any         { return w.values.Value(key) }

func (w *wait) Err() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}
