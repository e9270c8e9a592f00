package producer

import (
	"context"
	"sync"
	"time"

	"github.com/stratalog/strata/record"
)

// An Ack is the outcome of one record.
type Ack struct {
	Partition int32     // -1 if none was chosen
	Offset    int64     // -1 if the record failed, or with AcksNone
	Timestamp time.Time // timestamp of the record in the log
	Err       error     // nil if written as Config.Acks requires
}

// Send sends rs and waits for their outcomes. It returns one Ack per record, in the order of rs.
// The error is the first one in that order.
//
// Records of one partition keep the order of rs and share batches. For an idle partition the
// calling goroutine itself writes the record. If ctx ends first, its error is returned, also in the
// Acks of records without an outcome; accepted records are still sent. The bytes of rs are borrowed
// until they are accepted, at the latest until Send returns. With a TransactionalID every record
// fails with ErrNoTransaction.
func (p *Producer) Send(ctx context.Context, rs ...record.Record) ([]Ack, error) {
	if p.txn != nil {
		return p.sendRefused(len(rs), ErrNoTransaction)
	}
	c, _ := p.calls.Get().(*sendCall)
	if c == nil {
		c = &sendCall{ready: make(chan struct{}, 1)}
	}
	c.acks, c.left, c.err = make([]Ack, len(rs)), len(rs), nil
	for i := range rs {
		c.acks[i] = Ack{Partition: -1, Offset: -1}
		pt, err := p.accept(ctx, &rs[i], recipient{call: c, index: int32(i)})
		if err != nil {
			p.stats.refused.Add(1)
			c.setAck(i, Ack{Partition: -1, Offset: -1, Err: err})
		} else if pt != nil {
			c.held = append(c.held, pt)
		}
	}
	c.sendHeld()
	if !c.wait(ctx) {
		return c.abandon(ctx.Err())
	}
	acks, err := c.acks, c.err
	c.acks, c.err = nil, nil
	p.calls.Put(c)
	return acks, err
}

// sendRefused returns the same error for n records.
func (p *Producer) sendRefused(n int, err error) ([]Ack, error) {
	p.stats.refused.Add(int64(n))
	acks := make([]Ack, n)
	for i := range acks {
		acks[i] = Ack{Partition: -1, Offset: -1, Err: err}
	}
	if n == 0 {
		return acks, nil
	}
	return acks, err
}

// sendCall is one active Send.
type sendCall struct {
	held  []*partitionQueue // partitions that this call has to drain; its goroutine's only
	ready chan struct{}     // one token when left becomes 0 and a goroutine waits

	mu      sync.Mutex // guards the fields below
	acks    []Ack
	err     error // error of the first failed record, in the order of the records
	failed  int   // index of that record
	left    int   // records not settled
	waiting bool
	gone    bool // no goroutine waits any more: the caller of Send owns acks
}

// sendHeld drains the partitions that the call has deferred. c may be nil.
func (c *sendCall) sendHeld() {
	if c == nil {
		return
	}
	for i, pt := range c.held {
		c.held[i] = nil
		pt.drainSome()
	}
	c.held = c.held[:0]
}

// setAck stores the outcome of record i.
func (c *sendCall) setAck(i int, a Ack) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.gone {
		return
	}
	c.acks[i] = a
	if a.Err != nil && (c.err == nil || i < c.failed) {
		c.err, c.failed = a.Err, i
	}
	c.left--
	if c.left == 0 && c.waiting {
		c.waiting = false
		c.ready <- struct{}{} // never blocks: one token per wait
	}
}

// wait returns true when all records have their acknowledgement, false when ctx ends first.
func (c *sendCall) wait(ctx context.Context) bool {
	c.mu.Lock()
	c.waiting = c.left > 0
	waiting := c.waiting
	c.mu.Unlock()
	if !waiting {
		return true
	}
	select {
	case <-c.ready:
		return true
	case <-ctx.Done():
		return false
	}
}

// abandon returns the outcomes so far; later ones are dropped.
func (c *sendCall) abandon(cause error) ([]Ack, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.gone = true
	if c.left == 0 {
		return c.acks, c.err
	}
	for i := range c.acks {
		if a := &c.acks[i]; a.Offset < 0 && a.Err == nil && a.Timestamp.IsZero() {
			a.Err = cause
		}
	}
	return c.acks, cause
}
