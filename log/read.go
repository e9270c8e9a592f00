package log

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"math"
	"runtime"
	"sort"

	"github.com/stratalog/strata/internal/watermark"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/segment"
)

// readBytes is the step of iterators.
const readBytes = 256 << 10

// maxReadBytes is where the step of iterators stops growing with the size of batches.
const maxReadBytes = 8 << 20

// maxChunkBytes is the most memory that a kept record of Records or Follow keeps, unless its batch
// is larger; before manyBytes were read, it is less.
const (
	maxChunkBytes   = 3 << 20
	earlyChunkBytes = 2 << 20
)

// manyBytes is what somebody has read who can be expected to read much more.
const manyBytes = 32 << 20

// Read appends whole batches to dst: from the one that holds offset from, about max bytes but at
// least one. At the end it returns dst.
//
// The first batch may begin below from: batches are never split, the reader skips the leading
// records (as Kafka's fetch does). The result is dst or a larger copy, owned by the caller. What is
// read for the first time since Open is checked against its CRC. Read never waits.
//
// Under SyncOnAck records are read once they are on stable storage: what was read never disappears
// again.
//
// It returns ErrOffsetOutOfRange if from is not in [StartOffset, EndOffset], a *CorruptError for
// damage, ErrClosed.
func (l *Log) Read(dst []byte, from int64, max int) ([]byte, error) {
	return l.read(dst, from, max, l.readable())
}

// ReadUpTo is Read for records below offset upTo only, but those that are not durable yet included:
// its caller knows what may be seen. upTo must not lie inside a batch.
func (l *Log) ReadUpTo(dst []byte, from int64, max int, upTo int64) ([]byte, error) {
	return l.read(dst, from, max, upTo)
}

// read appends whole batches to dst that hold records of [from, upTo).
func (l *Log) read(dst []byte, from int64, max int, upTo int64) ([]byte, error) {
	if l.closing.Load() {
		return dst, ErrClosed
	}
	start, end := l.segments.start.Load(), l.segments.end.Load()
	if from < start || from > end {
		return dst, fmt.Errorf("%w: %d, the log has [%d, %d]", ErrOffsetOutOfRange, from, start, end)
	}
	if from >= upTo {
		l.tail.keep()
		return dst, nil
	}
	if out, ok := l.tail.read(dst, from, max, min(upTo, end)); ok {
		l.tail.keep()
		return out, nil
	}
	n := len(dst)
	out, err := l.readSegments(dst, from, max)
	if err == nil { // always: more may have been written since end was read
		out = cutAt(out, n, upTo)
	}
	if err == nil && len(out)-n < max {
		l.tail.keep() // the end, most likely, or a segment's
	}
	if err = l.vouch(from, err); err != nil {
		return dst, err
	}
	return out, nil
}

// cutAt drops the batches of p[n:] from the first one on that begins at or above upTo.
func cutAt(p []byte, n int, upTo int64) []byte {
	for n < len(p) {
		base, _, size := batchExtent(p[n:])
		if base >= upTo {
			return p[:n]
		}
		n += size
	}
	return p
}

// batchExtent reads what is needed of the header of a batch that was verified.
func batchExtent(p []byte) (base, next int64, size int) {
	be := binary.BigEndian
	base = int64(be.Uint64(p))
	return base, base + int64(be.Uint32(p[23:])) + 1, int(be.Uint32(p[8:])) + record.LogOverhead
}

// readSegments reads from the segment that holds offset from, or the next one that has anything
// above it.
func (l *Log) readSegments(dst []byte, from int64, max int) ([]byte, error) {
	for {
		list := l.list()
		i := floor(list, from)
		if i < 0 {
			return dst, fmt.Errorf("%w: %d", ErrOffsetOutOfRange, from)
		}
		for ; i < len(list); i++ {
			s := list[i]
			if !s.Acquire() {
				break // removed meanwhile: look at the new list
			}
			n := len(dst)
			out, err := s.ReadAt(dst, from, max, -1)
			if relErr := s.Release(); err == nil {
				err = relErr
			}
			if err != nil {
				return dst, fmt.Errorf("read %s: %w", l.path, err)
			}
			if len(out) > n {
				return out, nil
			}
		}
		if i >= len(list) {
			return dst, nil
		}
		if start := l.segments.start.Load(); from < start {
			return dst, fmt.Errorf("%w: %d, the log starts at %d", ErrOffsetOutOfRange, from, start)
		}
		if l.closing.Load() {
			return dst, ErrClosed
		}
		if err := l.durability.failed(); err != nil { // a swap failed half-way: there is no new list
			return dst, err
		}
	}
}

// floor returns the index of the last segment with a base at or below offset, -1 if there is none.
func floor(list []*segment.Segment, offset int64) int {
	if n := len(list); list[n-1].Base() <= offset { // readers are mostly near the end
		return n - 1
	}
	return sort.Search(len(list), func(i int) bool { return list[i].Base() > offset }) - 1
}

// Batches yields the batches from the one that holds offset from up to the present end. They are
// valid until the next one. An error is yielded once and ends it.
func (l *Log) Batches(from int64) iter.Seq2[*record.Batch, error] {
	return l.batches(from, l.read)
}

// Held is Batches also for what DeleteRecords has taken away from readers and no Clean has removed
// yet: an Owner rebuilds its state from that, since a producer's last batch may lie there. It
// begins with the first batch held if from is below that.
func (l *Log) Held(from int64) iter.Seq2[*record.Batch, error] {
	return l.batches(max(from, l.list()[0].Base()), func(dst []byte, from int64, max int, upTo int64) ([]byte, error) {
		n := len(dst)
		out, err := l.readSegments(dst, from, max)
		return cutAt(out, n, upTo), l.vouch(from, err)
	})
}

func (l *Log) batches(from int64, read func(dst []byte, from int64, max int, upTo int64) ([]byte, error)) iter.Seq2[*record.Batch, error] {
	return func(yield func(*record.Batch, error) bool) {
		if l.closing.Load() {
			yield(nil, ErrClosed)
			return
		}
		var buf []byte
		for end := l.segments.end.Load(); from < end; {
			p, err := read(buf[:0], from, readBytes, end)
			if err != nil {
				yield(nil, err)
				return
			}
			if len(p) == 0 {
				return
			}
			buf = p
			for len(p) > 0 {
				b, err := record.ParseUnverified(p)
				if err != nil {
					yield(nil, err)
					return
				}
				p, from = p[b.Size():], b.NextOffset()
				if !yield(&b, nil) {
					return
				}
			}
		}
	}
}

// Records yields the records from offset from up to the present end, without those of control
// batches. Key, value and header values alias memory that is garbage collected: they may be kept,
// read-only. What is kept keeps up to 3 MiB of its neighbours, too: of many records, keep few only
// as a Clone. An error is yielded once and ends it.
func (l *Log) Records(from int64) iter.Seq2[record.Record, error] {
	return func(yield func(record.Record, error) bool) {
		l.records(from, yield)
	}
}

// Follow yields the records from offset from on, and waits at the end for more, without polling,
// until ctx is done, which ends it without an error, or the log is closed, which yields ErrClosed.
// Otherwise it is Records.
func (l *Log) Follow(ctx context.Context, from int64) iter.Seq2[record.Record, error] {
	return func(yield func(record.Record, error) bool) {
		for ctx.Err() == nil {
			next, ok := l.records(from, yield)
			if !ok {
				return
			}
			from = next
			if err := l.waitEnd(ctx, from); err != nil {
				if ctx.Err() == nil {
					yield(record.Record{}, err)
				}
				return
			}
		}
	}
}

// records yields what there is and returns the offset to go on at; ok is false if the loop was left
// or an error yielded.
func (l *Log) records(from int64, yield func(record.Record, error) bool) (next int64, ok bool) {
	if l.closing.Load() {
		yield(record.Record{}, ErrClosed)
		return from, false
	}
	var m readMemory
	cuts := l.durability.cuts.Load() // before the end
	for end := l.readable(); from < end; {
		dst, size := m.next()
		p, err := l.read(dst, from, size, end)
		if err != nil {
			yield(record.Record{}, err)
			return from, false
		}
		if len(p) == 0 {
			return l.pastGap(from, end, cuts), true
		}
		p = m.took(p)
		for len(p) > 0 {
			b, err := record.ParseUnverified(p)
			if err != nil {
				yield(record.Record{}, err)
				return from, false
			}
			if !b.IsControl() && !yieldRecords(&b, from, yield) {
				return from, false
			}
			p, from = p[b.Size():], b.NextOffset()
			m.batch = b.Size()
		}
	}
	return from, true
}

// pastGap returns where to read on when nothing was found in [from, end): at end, since compaction
// or a truncation behind it has left no batch there. If the log was cut since cuts was read and
// then end, what was looked for may be gone and its offsets given again: at from.
func (l *Log) pastGap(from, end, cuts int64) int64 {
	if l.readable() < end || l.durability.cuts.Load() != cuts {
		return from
	}
	return end
}

// yieldRecords yields the records of a batch at or above from; false if the loop was left.
func yieldRecords(b *record.Batch, from int64, yield func(record.Record, error) bool) bool {
	it, err := b.Records(math.MaxInt32) // the log accepted the batch, however large it is when it is decompressed
	if err != nil {
		yield(record.Record{}, err)
		return false
	}
	var r record.Record
	for {
		more, err := it.Next(&r)
		if err != nil {
			yield(record.Record{}, err)
			return false
		}
		if !more {
			return true
		}
		if r.Offset >= from && !yield(r, nil) {
			return false
		}
	}
}

// endWaiter is somebody who waits for the readable end of a log to grow.
type endWaiter = watermark.Entry[chan struct{}]

// readable returns the offset up to which records are handed out: what is read must not disappear
// again, so under SyncOnAck it is the durable end.
func (l *Log) readable() int64 {
	if l.cfg.Load().Sync == SyncOnAck && !l.readOnly {
		return l.durability.offset.Load()
	}
	return l.segments.end.Load()
}

// wake lets those go who wait for an offset that is readable now.
func (l *Log) wake() { l.wakeBelow(l.readable()) }

// wakeAll lets everybody go who waits.
func (l *Log) wakeAll() { l.wakeBelow(1<<63 - 1) }

func (l *Log) wakeBelow(offset int64) {
	if l.followers.count.Load() == 0 {
		return
	}
	var woken []*endWaiter
	l.followers.mu.Lock()
	for e := l.followers.queue.Pop(offset); e != nil; e = l.followers.queue.Pop(offset) {
		woken = append(woken, e)
	}
	l.followers.count.Store(int32(l.followers.queue.Len()))
	l.followers.mu.Unlock()
	for _, e := range woken {
		close(e.Value)
	}
}

// waitEnd waits until the readable end is above offset.
func (l *Log) waitEnd(ctx context.Context, offset int64) error {
	e := endWaiter{Value: make(chan struct{})}
	l.followers.mu.Lock()
	if l.closing.Load() {
		l.followers.mu.Unlock()
		return ErrClosed
	}
	l.followers.queue.Add(&e, offset)
	l.followers.count.Store(int32(l.followers.queue.Len()))
	if l.readable() > offset { // after the store: who moved the end and saw no waiter did so before
		l.followers.queue.Remove(&e)
		l.followers.count.Store(int32(l.followers.queue.Len()))
		l.followers.mu.Unlock()
		return nil
	}
	l.followers.mu.Unlock()
	select {
	case <-e.Value:
	case <-ctx.Done():
	}
	l.followers.mu.Lock()
	defer l.followers.mu.Unlock()
	l.followers.queue.Remove(&e)
	l.followers.count.Store(int32(l.followers.queue.Len()))
	if l.closing.Load() {
		return ErrClosed
	}
	return ctx.Err()
}

// AppendAborted adds an aborted transaction to the index of the segment that holds its marker.
func (l *Log) AppendAborted(t segment.AbortedTxn) error {
	if l.readOnly {
		return ErrReadOnly
	}
	list := l.list()
	i := floor(list, t.LastOffset)
	if i < 0 {
		return fmt.Errorf("%w: marker at %d", ErrOffsetOutOfRange, t.LastOffset)
	}
	return list[i].AppendAborted(t)
}

// AbortedTxns returns the aborted transactions that matter for records of [from, upTo); there may
// be more than needed.
func (l *Log) AbortedTxns(from, upTo int64) ([]segment.AbortedTxn, error) {
	for {
		if l.closing.Load() {
			return nil, ErrClosed
		}
		list := l.list()
		i := floor(list, from)
		if i < 0 {
			return nil, fmt.Errorf("%w: %d", ErrOffsetOutOfRange, from)
		}
		ts, err := abortedTxns(list[i:], from, upTo)
		if errors.Is(err, segment.ErrClosed) && !l.closing.Load() && l.durability.failed() == nil { // removed meanwhile: look at the new list
			runtime.Gosched()
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("aborted transactions of %s: %w", l.path, err)
		}
		return ts, nil
	}
}

func abortedTxns(list []*segment.Segment, from, upTo int64) (ts []segment.AbortedTxn, err error) {
	for _, s := range list {
		found, done, err := s.Aborted(from, upTo)
		if err != nil {
			return nil, err
		}
		ts = append(ts, found...)
		if done {
			break
		}
	}
	return ts, nil
}
