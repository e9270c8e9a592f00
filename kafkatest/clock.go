package kafkatest

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// A clock runs a server in a testing/synctest bubble of its own, beside a test that is in none.
//
// A goroutine of the bubble, the gate, runs jobs from outside. It waits for them on a channel that
// was created outside. synctest does not count that as durably blocked, so the bubble's time stands
// still. Time moves while the gate sleeps, and then no job enters: either the time of the server
// moves or a caller uses it. Every tickInterval the gate sleeps for the real time that has passed,
// and in an Advance for its duration.
//
// A channel, timer or sync.Cond of a bubble must not be used outside: that ends the process. So
// enter runs a call of the test in the bubble, and leave runs the test's functions outside. A
// goroutine outside waits for channels created outside. A goroutine inside waits for a channel
// created inside, which the gate closes: time can move in between, so no goroutine waits for a gate
// that cannot wake.
type clock struct {
	t      *testing.T
	shell  *Server // the test's Server
	server *Server // the Server in the bubble

	jobs chan func()    // from outside to the gate, which runs them in order; they must not wait
	out  chan func()    // from inside to a goroutine outside, likewise
	over chan struct{}  // closed when the bubble has ended
	quit chan struct{}  // closed to end tick
	wg   sync.WaitGroup // goroutines outside that run as long as the bubble

	began    time.Time // real time when the bubble's time was the same
	bubble   string    // its name in stacks
	cleanups []func()  // of server
	failure  string    // failure that ended the bubble; read only after over is closed
	bridges  bridges   // the network between inside and outside
	visitors visitors

	away     atomic.Int32  // number of the test's functions outside that a goroutine inside waits for
	departed chan struct{} // created inside; has an element if one started since the last check
	asleep   atomic.Bool   // written by the gate: it runs no jobs

	advanced atomic.Int64 // nanoseconds by which the bubble's time is ahead of real time; written by the gate

	// used by the gate only
	moving   bool     // an Advance is running, even if the time stands still at the moment
	advances int      // number of running Advances
	held     []func() // jobs of the network that arrived during them
	stopped  bool     // the gate must end
}

const (
	// tickInterval is the period after which the server's time is set to real time.
	tickInterval = time.Millisecond
	// stuckAfter is the time of a gate's sleep after which a caller checks whether anything can
	// wake it.
	stuckAfter = 3 * time.Second
)

// newClocked is New for a Config with Clock.
func newClocked(t T, cfg Config) *Server {
	t.Helper()
	test, ok := t.(*testing.T)
	switch {
	case !ok:
		t.Fatalf("kafkatest: Config.Clock needs a *testing.T, as testing/synctest does: a %T is none", t)
	case inBubble():
		t.Fatalf("kafkatest: Config.Clock in a testing/synctest bubble, which has a clock: %s",
			"leave it out, set Pipe, and time.Sleep moves that clock")
	case test.Context().Err() != nil:
		t.Fatalf("kafkatest: Config.Clock while the cleanups of the test run: testing/synctest begins nothing then")
	}
	test.Context().Done() // creates the channel outside, for calls that use the context in the bubble
	s := &Server{t: t, cfg: cfg, wait: cmp.Or(cfg.WaitTimeout, defaultWait)}
	s.testEnds, _ = testDeadline(t)
	c := &clock{t: test, shell: s, jobs: make(chan func(), 128), out: make(chan func())}
	c.over, c.quit = make(chan struct{}), make(chan struct{})
	s.clock = c
	c.start()
	t.Cleanup(c.cleanup)
	cfg.Clock, cfg.Listen = false, nil
	if cfg.Intercept != nil {
		cfg.Intercept = outsider{c.outside, c.hold, cfg.Intercept}
	}
	c.enter(func(*Server, *visit) {
		c.server = open(carrier{c}, cfg, c)
	})
	s.authority = c.server.authority
	return s
}

// start creates the bubble, and returns when its gate is open.
func (c *clock) start() {
	c.began = time.Now()
	ready := make(chan struct{})
	c.wg.Go(func() {
		for {
			select {
			case f := <-c.out:
				f()
			case <-c.over:
				return
			}
		}
	})
	go func() {
		defer close(c.over)
		defer func() {
			if v := recover(); v != nil { // a deadlock that synctest has found
				c.failure = fmt.Sprintf("%v:\n\n%s", v, joinStacks(c.stacks()))
			}
		}()
		synctest.Test(c.t, func(*testing.T) { c.gate(ready) })
	}()
	select {
	case <-ready:
		c.wg.Go(c.tick)
	case <-c.over:
		c.wg.Wait()
		c.t.Fatalf("kafkatest: Config.Clock: no bubble: %s", c.failure)
	}
}

// gate runs jobs from outside until the server stops.
func (c *clock) gate(ready chan struct{}) {
	c.departed = make(chan struct{}, 1)
	c.bubble = bubbleOf(ownStack())
	time.Sleep(time.Until(c.began.Round(0))) // bubbles begin in the year 2000
	close(ready)
	for !c.stopped {
		(<-c.jobs)()
	}
}

// do runs f on the gate. f must not wait. It returns false if the bubble has ended.
func (c *clock) do(f func()) bool {
	select {
	case c.jobs <- f:
		return true
	case <-c.over:
		return false
	}
}

// tick moves the server's time with real time until quit is closed.
func (c *clock) tick() {
	ticker := time.NewTicker(tickInterval)
	defer ticker.Stop()
	ticked := make(chan struct{}, 1)
	for {
		select {
		case <-ticker.C:
		case <-c.quit:
			return
		}
		elapsed := time.Since(c.began)
		if !c.do(func() { c.follow(elapsed); ticked <- struct{}{} }) {
			return
		}
		select {
		case <-ticked:
		case <-c.quit:
			return
		case <-c.over:
			return
		}
	}
}

// at returns the bubble's time at the given real time since its start.
func (c *clock) at(elapsed time.Duration) time.Time {
	return c.began.Round(0).Add(elapsed + time.Duration(c.advanced.Load()))
}

// follow moves the bubble's time to at(elapsed). Run by the gate.
func (c *clock) follow(elapsed time.Duration) {
	if d := time.Until(c.at(elapsed)); d > 0 && !c.moving {
		c.asleep.Store(true)
		time.Sleep(d)
		c.asleep.Store(false)
	}
}

// cleanup ends the server and the bubble at the end of the test.
func (c *clock) cleanup() {
	c.t.Helper()
	defer c.end()
	c.enter(func(*Server, *visit) {
		for _, f := range slices.Backward(c.cleanups) {
			f()
		}
	})
}

// end closes the remaining connections of the server, and waits until the bubble has ended.
func (c *clock) end() {
	c.t.Helper()
	close(c.quit)
	c.bridges.closeAll()
	c.visitors.close()
	unused := make(chan struct{})
	go func() {
		defer close(unused)
		c.awaitListeners()
		c.bridges.running.Wait()
		c.visitors.inside.Wait() // the end of the server has ended their waits
	}()
	var jobs chan func()
	for seen := ""; ; {
		select {
		case <-unused:
			unused, jobs = nil, c.jobs
		case jobs <- func() { c.stopped = true }:
			jobs = nil
		case <-c.over:
			c.wg.Wait()
			if c.failure != "" {
				c.t.Fatalf("kafkatest: what Server.Inside has begun is left in the bubble of the server: %s", c.failure)
			}
			return
		case <-time.After(stuckAfter):
			left := joinStacks(c.stacks())
			if left == seen {
				c.t.Fatalf("kafkatest: the bubble of the server does not end, as this is left in it:\n\n%s", left)
			}
			seen = left
		}
	}
}

// Now returns the time of the brokers. With Config.Clock it is ahead of real time by the sum of all
// Advances, less at most some milliseconds while the brokers are not busy.
func (s *Server) Now() (now time.Time) {
	s.t.Helper()
	c := s.clock
	if c == nil {
		return time.Now()
	}
	err := c.visit(func(*Server, *visit) { now = time.Now() })
	if errors.Is(err, errOver) {
		return c.at(time.Since(c.began))
	} else if err != nil {
		s.t.Fatalf("kafkatest: %v", err)
	}
	return now
}
