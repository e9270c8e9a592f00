package kafka

import (
	"encoding/binary"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata/kafka/internal/transport"
)

// execution is one request in progress: it is intercepted, served and answered.
type execution struct {
	call
	api     *api
	req     kmsg.Request
	request *transport.Request // as it was read

	exchange *Exchange // nil without an interceptor
	action   Action
	ended    atomic.Bool // finish was called

	metadataBytes int // approximate size of an encoded response to Metadata; 0 for other APIs

	work   int // bytes of Server.decoding, see decode and awaitWork
	workBy *transport.Owner
}

func newExecution(c *conn, r *transport.Request, a *api, req kmsg.Request, clientID string) *execution {
	return &execution{
		call: call{
			ctx: c.transport.Context(), s: c.s, conn: c, broker: c.broker.id, view: c.broker.view, groups: c.broker.groups,
			transactions: c.broker.transactions, version: req.GetVersion(), clientID: clientID, principal: c.principal(), clientHost: c.host,
		},
		api: a, req: req, request: r,
	}
}

// begin starts serving. An error ends the connection.
func (e *execution) begin() error {
	e.meter()
	if i := e.s.cfg.Intercept; i != nil {
		e.exchange = &Exchange{
			Broker: e.broker, Conn: e.conn.id, ClientID: e.clientID, Key: int16(e.api.key), Version: e.version,
			Correlation: e.request.Correlation(), Request: e.req, Received: time.Now(),
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
			e.finish(nil, transport.Caller)
			return nil
		case a.Respond != nil:
			e.finish(a.Respond(e.req), transport.Caller)
			return nil
		case a.Serve != nil:
			e.req = a.Serve
		}
		e.discards = e.action.DiscardRecords
	}
	if err := e.awaitAnswerRoom(); err != nil {
		e.fail()
		return err
	}
	if e.authorize() {
		e.serve()
	}
	return nil
}

// holdUp waits for the delay and the holds of the action.
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
				e.served(resp)
			}
		})
		if answered || !served {
			return
		}
		fallthrough
	default:
		e.pause()
		e.ctx = c.transport.Waiting()
		c.serveWaiting(e)
	}
}

// serveWaiting serves a request that may wait on another goroutine, so that later requests are
// read in the meantime. The connection keeps that goroutine. A new one for each fetch at the end
// of a log would grow its stack each time. Only one such request is in progress (see dispatch):
// the goroutine takes it when the previous one has been answered.
func (c *conn) serveWaiting(e *execution) {
	if c.waits == nil {
		c.waits = make(chan *execution, 1)
		c.handlers.Go(func() {
			for e := range c.waits {
				e.guard(func() { e.served(e.api.serve(&e.call, e.req)) })
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

// fail closes the connection instead of answering.
func (e *execution) fail() {
	e.closing = true
	e.finish(nil, transport.Caller)
}

// served sends the response of a handler. Without a response, for example when the server is
// closing, it closes the connection. Otherwise the client would match the next response with this
// request.
func (e *execution) served(resp kmsg.Response) {
	if resp == nil {
		e.fail()
		return
	}
	e.finish(resp, transport.Caller)
}

// finish answers the request. A second call has no effect.
func (e *execution) finish(resp kmsg.Response, by transport.Writer) {
	if !e.ended.CompareAndSwap(false, true) {
		return // the handler panicked after its response
	}
	answered := false
	defer func() {
		if !answered { // an interceptor panics
			e.giveWork()
			e.request.Answer(transport.Answer{Charged: e.charged, End: transport.EndBefore}, by)
		}
	}()
	if resp != nil && e.after != nil {
		e.after(resp)
	}
	e.closing = e.closing || e.refused
	if e.quotas != nil && !e.closing {
		e.throttle(resp, by)
	}
	e.closing = e.closing || e.action.CloseAfter
	answer := e.answer()
	answer.Recycle = e.api.key == Produce && e.exchange == nil && !e.retained
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
		if e.action.DropReply || answer.End == transport.EndBefore {
			resp = nil
		}
	}
	if resp != nil {
		answer.Pieces, answer.Fetched = framed(e.request.Correlation(), resp, e.metadataBytes), e.fetched
		e.noteAnswer(&answer)
	}
	e.giveWork()
	if e.exchange != nil {
		e.exchange.Response, e.exchange.Answered = resp, time.Now()
		e.s.cfg.Intercept.After(e.exchange)
	}
	answered = true
	e.request.Answer(answer, by)
}

// outcome is the result of a request besides its response. Guards and handlers set it.
type outcome struct {
	charged  int    // bytes of the server's budget held by the response
	built    int    // bytes of the response passed to room so far
	fetched  []byte // buffer of the server with records of the response; nil if there is none
	retained bool   // the request's bytes are still in use after the answer
	last     bool   // the connection is closed after the answer
	closing  bool   // the connection is closed instead of an answer
	refused  bool   // as closing, but after the rest is served: a guard rejected an unanswerable part
}

// answer returns the part of the outcome that the connection needs.
func (o *outcome) answer() transport.Answer {
	a := transport.Answer{Charged: o.charged}
	switch {
	case o.closing:
		a.End = transport.EndBefore
	case o.last:
		a.End = transport.EndAfter
	}
	return a
}

// framed encodes a response into pieces, to be written in order. size is its approximate size in
// bytes; 0 if unknown.
func framed(correlation int32, resp kmsg.Response, size int) [][]byte {
	out := transport.TakeBuffer(max(4<<10, size))
	switch {
	case out != nil:
	case size > 4<<10:
		out = transport.NewBuffer(size)[:0]
	default:
		out = make([]byte, 0, 512)
	}
	out = append(out, 0, 0, 0, 0)
	out = binary.BigEndian.AppendUint32(out, uint32(correlation))
	if resp.IsFlexible() && Key(resp.Key()) != ApiVersions {
		out = append(out, 0)
	}
	var pieces [][]byte
	if fetch, ok := resp.(*kmsg.FetchResponse); ok {
		pieces = appendFetch(out, fetch)
	} else {
		pieces = [][]byte{resp.AppendTo(out)}
	}
	length := 0
	for _, p := range pieces {
		length += len(p)
	}
	binary.BigEndian.PutUint32(pieces[0], uint32(length-4))
	return pieces
}
