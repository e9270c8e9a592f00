package kafka

import (
	"fmt"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata/kafka/internal/transport"
)

const (
	// buildFactor is the memory of a response before it is encoded, in bytes per encoded byte.
	buildFactor = 3
	// smallAnswer is the largest size of responses, in bytes, for which no room is taken
	// before they are built.
	smallAnswer = 4 << 10
	// mostAnswerRoom bounds the bytes that are taken before a response is built.
	mostAnswerRoom = 4 << 20
	// smallWork is the largest work of a request, in bytes, for which awaitWork takes nothing.
	smallWork = 64 << 10
	// workWeight is the factor by which awaitWork multiplies the work of a request. The product is
	// at most a processor's share of the budget.
	workWeight = 16
	// answerMemory is the shortest time for which the size of a response is considered; the
	// longest is twice that.
	answerMemory = time.Minute
)

// answerSizes tracks the largest recent responses of one API. That much memory is taken from the
// server's budget before the next response is built. The zero answerSizes has no sizes. It is safe
// for concurrent use.
type answerSizes struct {
	now, before atomic.Int64 // largest in bytes, in this period and in the one before; 0: none
	began       atomic.Int64 // start of this period, in ns since the Unix epoch
}

// note records a response of size bytes.
func (a *answerSizes) note(size int) {
	if int64(size) > a.now.Load() { // another goroutine may overwrite it; large sizes recur
		a.now.Store(int64(size))
	}
}

// largest returns the size of the largest recent response, in bytes.
func (a *answerSizes) largest(now time.Time) int {
	began := a.began.Load()
	if now.UnixNano()-began > int64(answerMemory) && a.began.CompareAndSwap(began, now.UnixNano()) {
		a.before.Store(a.now.Swap(0))
	}
	return int(max(a.now.Load(), a.before.Load()))
}

// ownMemory reports whether the handler of an API takes the memory of its responses itself.
func ownMemory(k Key) bool { return k == Produce || k == Fetch || k == ShareFetch }

// awaitAnswerRoom waits until there is memory for the response. Its size is known for Metadata,
// and estimated from earlier responses for other APIs. So responses to clients that read nothing
// are not built until memory is released. The memory belongs to the response. An error means that
// the connection has ended or drains.
func (e *execution) awaitAnswerRoom() error {
	key := int(e.api.key)
	if ownMemory(e.api.key) || key >= len(e.s.answers) {
		return nil
	}
	size := 0
	if req, ok := e.req.(*kmsg.MetadataRequest); ok {
		answer, work := e.metadataSize(req)
		if err := e.awaitWork(work); err != nil {
			return err
		}
		size, e.metadataBytes = answer, answer
	} else if sizes := &e.s.answers[key]; sizes.now.Load()|sizes.before.Load() != 0 {
		size = sizes.largest(time.Now())
	}
	n := min(buildFactor*size, mostAnswerRoom)
	if n <= smallAnswer {
		return nil
	}
	if err := e.conn.transport.Take(e.conn.transport.Waiting(), n); err != nil {
		return err
	}
	e.charged += n
	return nil
}

// awaitWork waits for n bytes of Server.decoding if a small request needs that much memory for its
// response. It takes more than n, so that about as many such requests are served at once as there
// are processors. A hundred at once would all be slow, and other clients would wait for a
// processor.
func (e *execution) awaitWork(n int) error {
	if n <= smallWork || e.work > smallWork {
		return nil
	}
	budget := e.s.decoding
	share := budget.Size() * 7 / 8 / runtime.GOMAXPROCS(0) // an eighth is left for small requests
	n = min(e.work+max(n, min(n*workWeight, share)), budget.Size())
	e.giveWork() // requests that hold bytes must not wait for each other
	if err := e.conn.transport.TakeWork(budget, n, e.workBy); err != nil {
		return err
	}
	e.work = n
	return nil
}

// noteAnswer reduces the memory of a response to its size after it is encoded.
func (e *execution) noteAnswer(a *transport.Answer) {
	key := int(e.api.key)
	if ownMemory(e.api.key) || key >= len(e.s.answers) {
		return
	}
	size := 0
	for _, p := range a.Pieces {
		size += len(p)
	}
	if size > smallAnswer/buildFactor {
		e.s.answers[key].note(size)
	}
	if a.Charged > size {
		e.conn.transport.Give(a.Charged - size)
		a.Charged = size
	}
}

// roomStep is the number of bytes that a handler takes at a time for its response.
const roomStep = 1 << 20

// room takes memory for n more bytes of a response before they are built. It waits until there is
// memory, or the connection ends or drains. It returns a *protocolError if the response would be
// larger than a quarter of Limits.InFlightBytes; the part built so far can be sent.
func (c *call) room(n int) error {
	if most := c.s.limits.InFlightBytes / 4; c.built+n > most {
		return refuse(InvalidRequest, fmt.Sprintf("The answer would be larger than %d bytes: ask for less in one request", most))
	}
	c.built += n
	for c.charged < buildFactor*c.built-roomStep {
		if err := c.conn.transport.Take(c.conn.transport.Waiting(), roomStep); err != nil {
			return err
		}
		c.charged += roomStep
	}
	return nil
}
