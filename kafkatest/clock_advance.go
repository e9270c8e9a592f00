package kafkatest

import (
	"errors"
	"fmt"
	"testing/synctest"
	"time"
)

const (
	// firstStep is by how much an Advance moves the time before it lets in who waits at the gate.
	firstStep = time.Minute
	// shortStep and longStep are how much real time the steps after it shall take.
	shortStep, longStep = 5 * time.Millisecond, 20 * time.Millisecond
	// awayGrace is how long Advance waits for a function of the test's that the broker calls.
	awayGrace = 100 * time.Millisecond
	// lastYear is the last one that a clock is moved to; some 60 years later its time overflows.
	lastYear = 2200
)

// Advance moves the time of a server with Config.Clock by d, at once, and returns when the brokers
// have done what became due, each thing at its time. It ends the sessions of all members that are
// to be heard of within d: clients live in real time, so they cannot beat meanwhile. Who is to stay
// in a group is given the time for it by several calls, with WaitRequests in between.
//
// Other goroutines of the test can use the Server meanwhile, and wait; what clients send gets in
// when Advance is over. Side by side Advances add up. At the end of the test one that is under way
// returns early, and later ones do nothing, so that whoever moves the time in a loop need not know
// when that is.
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
	if inBubble() {
		c.outside(func() {
			c.away.Add(-1) // as it waits for the time, the time must not wait for it
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

// admit ends an Advance for the network, and lets in what has come meanwhile. Run by the gate.
func (c *clock) admit() {
	c.advances--
	held := c.held
	c.held = nil
	for _, f := range held {
		f()
	}
}

// carry is do for what the network brings in: it waits until no Advance is under way, or one of
// several is over. There is little of it, as each connection waits for what it has sent.
func (c *clock) carry(f func()) bool {
	return c.do(func() {
		if c.advances > 0 {
			c.held = append(c.held, f)
			return
		}
		f()
	})
}

// move moves the bubble's time by d. Run by the gate. While a function of the test's is away that
// the server waits for, the time stands still.
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
		select { // both are of the bubble
		case <-timer.C:
			passed = true
		case <-c.departed:
			c.asleep.Store(false)
			c.await()
		}
	}
	c.asleep.Store(false)
}

// arrive waits until all is done that is due when the time has been moved. Run by the gate.
func (c *clock) arrive() {
	defer func(before bool) { c.moving = before }(c.moving)
	c.moving = true
	c.settle()
	if c.away.Load() > 0 {
		c.await()
		c.settle()
	}
}

// settle waits until all that is due now is done.
func (c *clock) settle() {
	c.asleep.Store(true)
	synctest.Wait()
	c.asleep.Store(false)
}

// await keeps the gate open until all functions of the test's are back. It gives up after
// awayGrace, for one that itself waits.
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
