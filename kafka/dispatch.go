package kafka

import (
	"context"
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata/internal/sasl"
	"github.com/stratalog/strata/kafka/internal/transport"
)

// maxPipelined bounds the requests of a connection in progress. Later ones stay in the socket.
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

// prepare decodes a request, and waits until it may be served. An error ends the connection. It
// returns nil for an ApiVersions request of an unknown version.
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
		// The header must be complete; the body is not read.
		if _, _, err := r.Header(version > a.max); err != nil {
			return nil, err
		}
		return nil, c.transport.AwaitPending(0)
	}
	e, err := c.read(r, a)
	if err != nil {
		return nil, err
	}
	if a.start == nil && e.work > 0 && c.transport.Pending() > 0 {
		// The request waits for earlier ones, and is not kept decoded meanwhile. The first
		// decoding only detects malformed requests early.
		e.giveWork()
		if err := c.transport.AwaitPending(0); err != nil {
			return nil, err
		}
		if e, err = c.read(r, a); err != nil {
			return nil, err
		}
	}
	e.verdict = verdict
	most := 0 // earlier requests in progress; only pipelined requests allow any
	if a.start != nil {
		most = maxPipelined - 1
	}
	if err := c.transport.AwaitPending(most); err != nil {
		e.giveWork()
		return nil, err
	}
	return e, nil
}

// read decodes a request. The result may hold bytes of Server.decoding, see decode.
func (c *conn) read(r *transport.Request, a *api) (*execution, error) {
	req := kmsg.RequestForKey(r.Key())
	req.SetVersion(r.Version())
	clientID, body, err := r.Header(req.IsFlexible())
	work := 0
	if err == nil {
		work, err = c.decode(a, req, body)
	}
	if errors.Is(err, context.Canceled) { // while it waited for bytes of Server.decoding
		return nil, err
	}
	if err != nil {
		return nil, errors.Join(errMalformed, err)
	}
	e := newExecution(c, r, a, req, clientID)
	e.work, e.workBy = work, c.workOwner()
	return e, nil
}

// decode parses a request's body. First it waits for as many bytes of Server.decoding as the
// decoded request and its response can take. It returns how many of them the request holds until
// its response is encoded. The result is 0 for Produce, which checkProduce bounds, and for
// requests that may wait long (see parks).
//
// Server.decoding is separate from the budget of received bytes, because requests that wait here
// already hold bytes of that. It lets few large requests be served at a time: a hundred at once
// would all be slow, and take a hundred times the memory.
func (c *conn) decode(a *api, req kmsg.Request, body []byte) (work int, err error) {
	if a.key == Produce {
		if err := checkProduce(body, req.GetVersion()); err != nil {
			return 0, err
		}
		return 0, req.ReadFrom(body)
	}
	work = min(a.work*len(body), c.s.decoding.Size())
	by := c.workOwner()
	if err := c.transport.TakeWork(c.s.decoding, work, by); err != nil {
		return 0, err
	}
	err = req.ReadFrom(body)
	if err != nil || parks(a.key) {
		c.s.decoding.Give(work, by)
		work = 0
	}
	if err == nil {
		dropRepeated(req)
	}
	return work, err
}

// throttle mutes the connection for d: later requests wait (KIP-219). A mute that ends later
// stays.
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
