package kafka

import (
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata/internal/sasl"
	"github.com/stratalog/strata/kafka/internal/transport"
)

// maxPipelined bounds the requests of a connection that are under way at a time: the others stay in
// the socket.
const maxPipelined = 1024

// dispatch starts a request. An error ends the connection.
func (c *conn) dispatch(r *transport.Request) error {
	e, err := c.prepare(r)
	if err != nil {
		r.Drop()
		return err
	}
	r.Enqueue()
	if e == nil {
		c.futureApiVersions(r)
		return nil
	}
	if e.verdict == sasl.Refuse {
		e.refuse()
		return nil
	}
	return e.begin()
}

// prepare decodes a request, and waits until it may be served. An error ends the connection. nil is
// for an ApiVersions in a version that there is none of.
func (c *conn) prepare(r *transport.Request) (*execution, error) {
	verdict := sasl.Serve
	if c.sasl != nil {
		var err error
		if verdict, err = c.admit(r); err != nil {
			return nil, err
		}
	}
	a, version := c.s.apis[r.Key()], r.Version()
	if a == nil || version < a.min || version > a.max {
		if Key(r.Key()) != ApiVersions || a == nil {
			return nil, errMalformed
		}
		if _, _, err := r.Header(version > a.max); err != nil { // it must be whole, the body is not looked at
			return nil, err
		}
		return nil, c.transport.AwaitPending(0)
	}
	req := kmsg.RequestForKey(r.Key())
	req.SetVersion(version)
	clientID, body, err := r.Header(req.IsFlexible())
	if err == nil {
		err = c.decode(a, req, body)
	}
	if err != nil {
		return nil, errors.Join(errMalformed, err)
	}
	e := newExecution(c, r, a, req, clientID)
	e.verdict = verdict
	most := 0 // under way: one that others answer does not wait for those before it
	if a.start != nil {
		most = maxPipelined - 1
	}
	return e, c.transport.AwaitPending(most)
}

// decode parses a request's body. While it does, it holds as many bytes as the request can take
// in memory; of a budget of its own, since those that wait here have their bytes already.
func (c *conn) decode(a *api, req kmsg.Request, body []byte) error {
	if a.key == Produce {
		if err := checkProduce(body, req.GetVersion()); err != nil {
			return err
		}
		return req.ReadFrom(body)
	}
	more := (a.inflation - 1) * len(body)
	if err := c.s.decoding.Take(c.transport.Context(), more); err != nil {
		return err
	}
	defer c.s.decoding.Give(more)
	return req.ReadFrom(body)
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
	case <-c.transport.Waiting().Done():
	}
}
