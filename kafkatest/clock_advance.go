package kafkatest

import (
	"errors"
	"fmt"
	"testing/synctest"
	"time"
)

const (
	// firstStep is the first move of the time in an Advance, before waiting callers may enter.
	firstStep = time.Minute
	// shortStep and longStep bound the real time that later steps should take.
	shortStep, longStep = 5 * time.Millisecond, 20 * time.Millisecond
	// awayGrace bounds Advance's wait for a function of the test that the broker calls.
	awayGrace = 100 * time.Millisecond
	// lastYear is the last year that a clock can be moved to. Some 60 years later its time
	// overflows.
	lastYear = 2200
)

// Advance moves the time of a server with Config.Clock forward by d, at once. It returns when the
// brokers have done all work that became due, in the order of its times. It ends the sessions of
// all members whose session timeout is within d: clients run in real time, so they send no
// heartbeats during an Advance. To keep a member in its group, advance in several steps that are
// shorter than its session timeout, with WaitRequests in between.
//
// Other goroutines of the test can use the Server during an Advance, and wait. Requests of clients
// arrive when it ends. Concurrent Advances add up. At the end of the test a running Advance returns
// early and later ones do nothing, so a goroutine may advance the time in a loop until then.
//
// Advance fails the test if it takes longer than Config.WaitTimeout, without Config.Clock, if d is
// negative, or if the year would be after 2200.
func (s *Server) Advance(d time.Duration) {
	s.t.Helper()
	c := s.clock
	switch {
	case c == nil:
		s.t.Fatalf("kafkatest: Advance: Config.Clock is not set (in a testing/synctest bubble time.Sleep moves the clock)")
	case d < 0:
		s.t.Fatalf("kafkatest: Advance: %v is negative", d)
	case s.Now().Add(d).Year() > lastYear:
		s.t.Fatalf("kafkatest: Advance: after %v it is later than the year %d", d, lastYear)
	}
	var err error
	end := c.server.in.happened.call(s.Now(), fmt.Sprintf("Advance(%v)", d))
	defer func() { end(s.Now(), err != nil) }()
	if inBubble() {
		c.outside(func() {
			c.away.Add(-1) // this function waits for the time, so the time must not wait for it
			defer c.away.Add(1)
			err = c.advance(d)
		})
	} else {
		err = c.advance(d)
	}
	if err != nil && !errors.Is(err, errOver) {
		s.t.Fatalf("kafkatest: Advance: %v", err)
	}
}

// advance moves the bubble's time by d, step by step: in between the gate is open for all but the
// network. Called outside.
func (c *clock) advance(d time.Duration) error {
	if !c.visitors.enter() {
		return errOver
	}
	defer c.visitors.inside.Done()
	ctx, cancel := c.shell.waitContext()
	defer cancel()
	c.do(func() { c.advances++ })
	defer c.do(c.admit)
	began, moved, step := time.Now(), time.Duration(0), firstStep
	for {
		step = min(step, d-moved)
		last := moved+step == d
		stepped, done := time.Now(), make(chan struct{})
		err := c.wait(ctx, done, nil, func() {
			c.move(step)
			if last {
				c.arrive()
			}
			close(done)
		})
		if errors.Is(err, errLate) {
			return fmt.Errorf("%v of real time are over (Config.WaitTimeout), and the clock has been moved by %v of %v",
				time.Since(began).Round(time.Millisecond), moved, d)
		}
		if err != nil || last || c.visitors.areOver() {
			return err
		}
		moved += step
		if took := time.Since(stepped); took < shortStep {
			step *= 2
		} else if took > longStep {
			step = max(step/2, tickInterval)
		}
	}
}

// admit ends an Advance for the network, and runs the jobs held during it. Run by the gate.
func (c *clock) admit() {
	c.advances--
	held := c.held
	c.held = nil
	for _, f := range held {
		f()
	}
}

// carry is do for jobs of the network: it waits until no Advance is running, or one of several
// ends. There are few such jobs, because each connection waits for its previous one.
func (c *clock) carry(f func()) bool {
	return c.do(func() {
		if c.advances > 0 {
			c.held = append(c.held, f)
			return
		}
		f()
	})
}

// move moves the bubble's time by d. Run by the gate. While the server waits for a function of the
// test outside, the time stands still.
func (c *clock) move(d time.Duration) {
	defer func(before bool) { c.moving = before }(c.moving)
	c.moving = true
	c.advanced.Add(int64(d))
	if d == 0 {
		return
	}
	timer := time.NewTimer(d)
	for passed := false; !passed; {
		c.asleep.Store(true)
		select { // both channels are of the bubble
		case <-timer.C:
			passed = true
		case <-c.departed:
			c.asleep.Store(false)
			c.await()
		}
	}
	c.asleep.Store(false)
}

// arrive waits until all work is done that became due by the move. Run by the gate.
func (c *clock) arrive() {
	defer func(before bool) { c.moving = before }(c.moving)
	c.moving = true
	c.settle()
	if c.away.Load() > 0 {
		c.await()
		c.settle()
	}
}

// settle waits until all work that is due now is done.
func (c *clock) settle() {
	c.asleep.Store(true)
	synctest.Wait()
	c.asleep.Store(false)
}

// await keeps the gate open until all functions of the test outside have returned. It gives up
// after awayGrace, because such a function may itself wait for the server.
func (c *clock) await() {
	if c.away.Load() == 0 {
		return
	}
	late := false
	c.out <- func() {
		time.AfterFunc(awayGrace, func() { c.do(func() { late = true }) })
	}
	for c.away.Load() > 0 && !late {
		(<-c.jobs)()
	}
}
