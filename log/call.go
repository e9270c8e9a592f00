package log

import (
	"context"
	"fmt"
	"slices"

	"github.com/stratalog/strata/internal/segment"
	"github.com/stratalog/strata/record"
)

// maxPooledBytes is the largest builder that is kept for another call: one huge batch must not pin
// memory for ever.
const maxPooledBytes = 1 << 20

// A call has the memory of one blocking append. Calls are pooled per directory and not globally: a
// channel made in one synctest bubble must not be used in another.
type call struct {
	a       Append
	builder record.Builder
	done    chan struct{} // capacity 1
	foreign bool          // the batch is not the builder's: it must not be kept
	patient bool          // it waits to the end: its goroutine may sync
	inline  bool          // its own goroutine leads the round: no goroutine has to be woken
	round   round         // of its own, which it may have led
	ended   bool          // complete was called while inline was set
}

func (d *Directory) call() *call {
	if c := d.spare.Swap(nil); c != nil {
		return c
	}
	return d.pooledCall()
}

func (d *Directory) pooledCall() *call {
	if c, ok := d.calls.Get().(*call); ok {
		return c
	}
	c := &call{done: make(chan struct{}, 1)}
	c.a.call = c
	return c
}

func (c *call) complete() {
	if c.inline {
		c.ended = true
		return
	}
	c.done <- struct{}{}
}

func (d *Directory) putCall(c *call) {
	if c.builder.Size() > maxPooledBytes {
		return
	}
	if c.foreign {
		c.a.Info, c.a.Batch, c.foreign = record.Batch{}, nil, false
		clear(c.round.bufs[:cap(c.round.bufs)])
	}
	if !d.spare.CompareAndSwap(nil, c) {
		d.calls.Put(c)
	}
}

// Append appends the records as one batch and returns the offset of the first. It waits until they
// are as durable as the sync policy promises. Records without a timestamp get the present time.
// Topic, Partition and Offset are ignored. Keys, values and headers are borrowed.
//
// If ctx ends, Append stops waiting, but the append continues: the records may be in the log later.
// Other errors: ErrRecordTooLarge, ErrClosed, and the error of a failed write, after which none of
// the records is in the log.
//
// A failed sync breaks the log: the appends that waited for it and all later ones return its error.
// Records of the former were written, and may be there when the log is opened again. Records of the
// latter are not.
func (l *Log) Append(ctx context.Context, rs ...record.Record) (first int64, err error) {
	if len(rs) == 0 {
		return 0, fmt.Errorf("%w: no records", ErrInvalidBatch)
	}
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	c := l.dir.call()
	c.builder.Reset(0)
	if n := c.builder.AppendAll(l.dir.clock.now(), rs); n < len(rs) {
		l.dir.putCall(c)
		return 0, fmt.Errorf("%w: %d records in one batch", ErrRecordTooLarge, len(rs))
	}
	p := c.builder.Bytes()
	first, done, err := l.appendUncontended(p, int64(len(rs)), segment.BatchInfo{Size: len(p), MaxTimestamp: c.builder.MaxTimestamp()})
	if done {
		l.dir.putCall(c)
		return first, err
	}
	c.a.own, c.a.Info = true, record.Batch{}
	return l.await(ctx, c, p)
}

// AppendBatch appends an encoded batch. The base offset and the leader epoch are set in a copy;
// batch is borrowed for the call. It verifies the batch's CRC, and returns an error matching
// ErrCorrupt if it is wrong. It does not decode the records. Otherwise it is Append.
func (l *Log) AppendBatch(ctx context.Context, batch []byte) (first int64, err error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	b, n, err := record.Parse(batch)
	if err != nil {
		return 0, fmt.Errorf("%w: %w", ErrInvalidBatch, err)
	}
	if n != len(batch) {
		return 0, fmt.Errorf("%w: %d bytes, the batch has %d", ErrInvalidBatch, len(batch), n)
	}
	c := l.dir.call()
	c.a.Info, c.a.own, c.foreign = *b, false, true
	if ctx.Done() != nil { // the append may outlive the call
		batch, c.a.own = slices.Clone(batch), true
	}
	return l.await(ctx, c, batch)
}

// await submits c's append and waits for it.
func (l *Log) await(ctx context.Context, c *call, batch []byte) (int64, error) {
	a := &c.a
	a.Batch, a.LeaderEpoch = batch, -1
	c.patient, c.ended = ctx.Done() == nil, false
	l.Submit(a)
	if c.inline && c.ended { // by ourselves
		c.inline = false
	} else if ctx.Done() == nil {
		<-c.done
	} else {
		select {
		case <-c.done:
		case <-ctx.Done():
			// The append continues and uses c, which is not put back into the pool.
			return 0, fmt.Errorf("append to %s: the wait ended, the append continues: %w", l.path, ctx.Err())
		}
	}
	first, err := a.BaseOffset, a.Err
	l.dir.putCall(c)
	return first, err
}
