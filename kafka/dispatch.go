package kafka

import (
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// maxPipelined bounds the requests of a connection that are under way at a time: the others stay in
// the socket.
const maxPipelined = 1024

// dispatch starts a request. An error ends the connection.
func (c *conn) dispatch(f *frame) error {
	if c.sasl != nil {
		if err := c.admit(f); err != nil {
			c.s.budget.give(f.charged)
			return err
		}
	}
	a := c.s.apis[f.key()]
	version := f.version()
	if a == nil || version < a.min || version > a.max {
		if Key(f.key()) != ApiVersions || a == nil {
			c.s.budget.give(f.charged)
			return errMalformed
		}
		return c.futureApiVersions(f, a)
	}
	req := kmsg.RequestForKey(f.key())
	req.SetVersion(version)
	clientID, body, err := f.header(req.IsFlexible())
	if err == nil {
		err = f.decode(c, a, req, body)
	}
	if err != nil {
		c.s.budget.give(f.charged)
		return errors.Join(errMalformed, err)
	}
	e := &execution{
		call: call{ctx: c.ctx, s: c.s, conn: c, broker: c.broker.id, view: c.broker.view, groups: c.broker.groups, transactions: c.broker.transactions, version: version, clientID: clientID, principal: c.principal(), clientHost: c.host},
		api:  a, req: req, reply: &reply{frame: f, recycle: a.key == Produce && c.s.cfg.Intercept == nil}, correlation: f.correlation(),
	}
	if a.start == nil {
		err = c.awaitPending(0)
	} else {
		err = c.awaitPending(maxPipelined - 1)
	}
	if err != nil {
		c.s.budget.give(f.charged)
		return err
	}
	c.enqueue(e.reply)
	return e.begin()
}

// awaitPending waits until at most n requests are under way; with 0, until their answers are
// written too.
func (c *conn) awaitPending(n int) error {
	for {
		c.mu.Lock()
		under := c.pending
		if n == 0 && c.draining {
			under = len(c.queue)
		}
		c.mu.Unlock()
		if under <= n {
			return nil
		}
		if err := c.await(); err != nil {
			return err
		}
	}
}

// await waits until a reply was completed or written.
func (c *conn) await() error {
	select {
	case <-c.progress:
		return nil
	case <-c.ctx.Done():
		return c.ctx.Err()
	}
}

// throttle has the requests that come after this one wait for d (Kafka: the channel is muted,
// KIP-219), or longer if they do already.
func (c *conn) throttle(d time.Duration) {
	until := time.Now().Add(d).UnixNano()
	for {
		before := c.muted.Load()
		if before >= until || c.muted.CompareAndSwap(before, until) {
			return
		}
	}
}

// awaitThrottle waits until the client may be served again, or the connection drains or ends.
func (c *conn) awaitThrottle() {
	until := c.muted.Load()
	if until == 0 {
		return
	}
	t := time.NewTimer(time.Until(time.Unix(0, until)))
	defer t.Stop()
	select {
	case <-t.C:
	case <-c.waiting.Done():
	}
}
