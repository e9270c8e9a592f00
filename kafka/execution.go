package kafka

import (
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// execution is one request on its way through the server: intercepted, served, answered.
type execution struct {
	call
	api         *api
	req         kmsg.Request
	reply       *reply
	correlation int32

	exchange *Exchange // nil: nobody intercepts
	action   Action
	ended    atomic.Bool // finish was called
}

// begin starts serving. An error ends the connection.
func (e *execution) begin() error {
	e.meter()
	if i := e.s.cfg.Intercept; i != nil {
		e.exchange = &Exchange{
			Broker: e.broker, Conn: e.conn.id, ClientID: e.clientID, Key: int16(e.api.key), Version: e.version,
			Correlation: e.correlation, Request: e.req, Received: time.Now(),
		}
		e.action = i.Before(e.exchange)
		if err := e.holdUp(); err != nil {
			e.fail()
			return err
		}
		switch a := e.action; {
		case a.CloseBefore:
			e.fail()
			return nil
		case a.DropRequest:
			e.finish(nil, callerWrites)
			return nil
		case a.Respond != nil:
			e.finish(a.Respond(e.req), callerWrites)
			return nil
		case a.Serve != nil:
			e.req = a.Serve
		}
		e.discards = e.action.DiscardRecords
	}
	if e.authorize() {
		e.serve()
	}
	return nil
}

// holdUp waits as the action says.
func (e *execution) holdUp() error {
	if e.action.Delay > 0 {
		t := time.NewTimer(e.action.Delay)
		defer t.Stop()
		select {
		case <-t.C:
		case <-e.ctx.Done():
			return e.ctx.Err()
		}
	}
	for _, hold := range e.action.Holds {
		select {
		case <-hold:
		case <-e.ctx.Done():
			return e.ctx.Err()
		}
	}
	return nil
}

func (e *execution) serve() {
	c := e.conn
	switch a := e.api; {
	case a.start != nil:
		e.guard(func() {
			a.start(&e.call, e.req, e.finish)
		})
		e.pause()
	case a.try != nil || !a.waits:
		answered := false
		served := e.guard(func() {
			var resp kmsg.Response
			if a.try == nil {
				resp, answered = a.serve(&e.call, e.req), true
			} else {
				resp, answered = a.try(&e.call, e.req)
			}
			if answered {
				e.finish(resp, callerWrites)
			}
		})
		if answered || !served {
			return
		}
		fallthrough
	default:
		e.pause()
		e.ctx = c.waiting
		c.serveWaiting(e)
	}
}

// serveWaiting serves a request that may wait, on a goroutine of its own, so that requests behind
// it are read meanwhile. The connection keeps that goroutine: a new one for each fetch of a reader
// at the end of a log would grow its stack each time. There is one such request at a time (see
// dispatch): it is taken as soon as the one before has been answered.
func (c *conn) serveWaiting(e *execution) {
	if c.waits == nil {
		c.waits = make(chan *execution, 1)
		c.handlers.Go(func() {
			for e := range c.waits {
				e.guard(func() { e.finish(e.api.serve(&e.call, e.req), callerWrites) })
			}
		})
	}
	c.waits <- e
}

// guard calls fn. If it panics the request fails, and guard returns false.
func (e *execution) guard(fn func()) (ok bool) {
	defer func() {
		if p := recover(); p != nil {
			e.conn.logPanic(p)
			e.fail()
			ok = false
		}
	}()
	fn()
	return true
}

// fail closes the connection instead of an answer.
func (e *execution) fail() {
	e.closing = true
	e.finish(nil, callerWrites)
}

// finish answers the request.
func (e *execution) finish(resp kmsg.Response, by writes) {
	if !e.ended.CompareAndSwap(false, true) {
		return // it panicked after its answer
	}
	if resp != nil && e.after != nil {
		e.after(resp)
	}
	e.closing = e.closing || e.closesAfter
	if e.quotas != nil && !e.closing {
		e.throttle(resp, by)
	}
	e.reply.close = e.closing || e.action.CloseAfter
	e.reply.last = e.last
	if resp != nil && e.exchange != nil {
		if e.action.Edit != nil {
			e.action.Edit(e.req, resp)
		}
		if ms := e.action.ThrottleMs; ms > 0 {
			if t, ok := resp.(kmsg.SetThrottleResponse); ok {
				t.SetThrottle(ms)
			}
			e.conn.throttle(time.Duration(ms) * time.Millisecond)
		}
		if e.action.DropReply || e.reply.close {
			resp = nil
		}
	}
	if resp != nil {
		e.reply.out = framed(e.correlation, resp)
		e.reply.charged, e.reply.fetched = e.charged, e.fetched
	} else {
		e.s.budget.give(e.charged)
	}
	if e.exchange != nil {
		e.exchange.Response, e.exchange.Answered = resp, time.Now()
		e.s.cfg.Intercept.After(e.exchange)
	}
	e.reply.recycle = e.reply.recycle && !e.retained
	e.conn.complete(e.reply, by)
}
