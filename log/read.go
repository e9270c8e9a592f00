package log

import (
	"encoding/binary"
	"fmt"
	"sort"

	"github.com/stratalog/strata/internal/segment"
	"github.com/stratalog/strata/record"
)

// Read appends whole batches to dst, starting with the batch that contains offset from: about max
// bytes, but at least one batch. At the end of the log it returns dst.
//
// The first batch may begin below from: batches are never split, and the reader skips the leading
// records (as for Kafka's fetch). The result is dst or a larger copy, owned by the caller. Batches
// that are read for the first time since Open are verified with their CRC. Read never waits.
//
// Under SyncOnAck only records on stable storage are read: a record that was read never disappears.
//
// Read returns ErrOffsetOutOfRange if from is not in [StartOffset, EndOffset], a *CorruptError for
// damage, and ErrClosed.
func (l *Log) Read(dst []byte, from int64, max int) ([]byte, error) {
	return l.read(dst, from, max, l.readable())
}

// ReadUpTo is Read for records below offset upTo, which need not be durable yet: the caller decides
// which records are visible. upTo must not be inside a batch.
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

// batchExtent parses the necessary fields of the header of a verified batch.
func batchExtent(p []byte) (base, next int64, size int) {
	be := binary.BigEndian
	base = int64(be.Uint64(p))
	return base, base + int64(be.Uint32(p[23:])) + 1, int(be.Uint32(p[8:])) + record.LogOverhead
}

// readSegments reads from the segment that contains offset from, or the next segment with a higher
// offset.
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
