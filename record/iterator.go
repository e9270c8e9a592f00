package record

import (
	"fmt"
	"iter"
	"time"
	"unsafe"
)

// DefaultMaxInflated bounds the decompressed size of a batch in bytes if no other bound is given.
const DefaultMaxInflated = 128 << 20

// An Iterator reads the records of one batch in offset order. It is a value without a goroutine,
// and need not be closed. Not safe for concurrent use.
type Iterator struct {
	p    []byte // whole record area, decompressed
	i    int    // where the next record begins
	left int32  // records still to come
	err  error  // sticky

	baseOffset    int64
	baseTimestamp int64
	leaderEpoch   int32
	tsType        TimestampType

	lastMs   int64 // the timestamp below: neighbours often share it
	lastTime time.Time
	slab     []Header // free tail: headers of the records to come
}

// Records returns an iterator over the records of b, decompressed if necessary. limit bounds their
// decompressed size in bytes; 0 means DefaultMaxInflated. Errors match ErrCorrupt, ErrTooLarge,
// ErrUnsupportedCodec, or ErrShort if b is only a header. The records of a control batch are
// control records: see Control.
func (b *Batch) Records(limit int) (Iterator, error) {
	area, err := b.Inflate(nil, limit)
	return b.iterator(area), err
}

// iterator walks area, the decompressed record area of b.
func (b *Batch) iterator(area []byte) Iterator {
	it := Iterator{
		p:             area,
		left:          b.RecordCount,
		baseOffset:    b.BaseOffset,
		baseTimestamp: b.BaseTimestamp,
		leaderEpoch:   b.LeaderEpoch,
		tsType:        b.TimestampType(),
		lastMs:        b.BaseTimestamp,
		lastTime:      time.UnixMilli(b.BaseTimestamp),
	}
	if it.tsType == LogAppendTime {
		it.lastTime = time.UnixMilli(b.MaxTimestamp) // of all records
	}
	return it
}

// All yields the records of b, decompressed if necessary, up to DefaultMaxInflated bytes. Damage
// inside is yielded once, as an error, and ends the iteration. Topic and Partition are empty. Key,
// Value and Headers alias the bytes of b or the decompressed bytes, and must not be written to.
// There is no allocation per record.
func (b *Batch) All() iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		it, err := b.Records(0)
		if err != nil {
			yield(Record{}, err)
			return
		}
		var r Record
		for {
			ok, err := it.Next(&r)
			if err != nil {
				yield(Record{}, err)
				return
			}
			if !ok || !yield(r, nil) {
				return
			}
		}
	}
}

// Next stores the next record in r and reports whether there was one. It overwrites every field of
// r except Topic and Partition. The record's slices alias the batch; further calls do not change
// them. An error, matching ErrCorrupt, is returned by all later calls, too.
func (it *Iterator) Next(r *Record) (bool, error) {
	if it.left == 0 {
		if it.err == nil && it.i < len(it.p) {
			it.err = fmt.Errorf("%w: %d bytes behind the last record", ErrCorrupt, len(it.p)-it.i)
		}
		return false, it.err
	}
	// Field after field. A negative index means that an earlier field could not be read, and is
	// passed on. Fields that mostly have one byte are decoded here, without a call.
	p := it.p
	length, i := varint32(p, it.i)
	if i < 0 || length < 1 || int(length) > len(p)-i {
		return false, it.fail("length")
	}
	end := i + int(length)
	p = p[:end]
	i++ // the attributes mean nothing
	var ts uint64
	if i < len(p) && p[i] < 0x80 {
		ts = uint64(p[i])
		i++
	} else {
		ts, i = uvarint(p, i)
	}
	off, i := varint32(p, i)
	if i < 0 || off < 0 {
		return false, it.fail("timestamp or offset")
	}
	var key []byte
	if i < len(p) && p[i] == 1 {
		i++ // nil
	} else {
		key, i = field(p, i)
	}
	value, i := field(p, i)
	if i < 0 {
		return false, it.fail("key or value")
	}
	r.Headers = nil
	if i != end-1 || p[i] != 0 { // it has headers
		if r.Headers, i = it.headers(p, i); i != end {
			return false, it.fail("headers")
		}
	}
	it.i = end
	it.left--
	r.Offset = it.baseOffset + int64(off)
	r.LeaderEpoch = it.leaderEpoch
	r.TimestampType = it.tsType
	if ms := it.baseTimestamp + unzigzag(ts); ms != it.lastMs && it.tsType == CreateTime {
		it.lastMs, it.lastTime = ms, time.UnixMilli(ms)
	}
	r.Timestamp = it.lastTime
	r.Key, r.Value = key, value
	r.explicit = false
	return true, nil
}

// Left returns the number of remaining records according to the header. It is correct if the batch
// was verified.
func (it *Iterator) Left() int { return int(it.left) }

func (it *Iterator) fail(what string) error {
	it.err = fmt.Errorf("%w: record with %d more to come: bad %s", ErrCorrupt, it.left-1, what)
	it.left, it.i = 0, len(it.p)
	return it.err
}

// field reads a key or value: its length, -1 for nil, and its bytes. The index is -1 if it is
// malformed.
func field(p []byte, i int) ([]byte, int) {
	n, i := varint32(p, i)
	if i < 0 || n < 0 {
		if n != -1 {
			i = -1
		}
		return nil, i
	}
	if int(n) > len(p)-i {
		return nil, -1
	}
	j := i + int(n)
	return p[i:j:j], j
}

// slabHeaders is how many headers are allocated at once, unless the rest of the batch cannot have
// that many.
const slabHeaders = 256

// headers reads the headers at p[i:]. The slab is cut into capped pieces, so that appending to one
// record's headers cannot touch another's.
func (it *Iterator) headers(p []byte, i int) ([]Header, int) {
	n, i := varint32(p, i)
	// A header takes at least two bytes: a count that passes the bytes is rejected before memory is
	// allocated.
	if i < 0 || n < 0 || int(n) > (len(p)-i)/2 {
		return nil, -1
	}
	if int(n) > len(it.slab) {
		most := int(n) + (len(it.p)-i)/2 // the headers of this record and the most that can follow
		it.slab = make([]Header, max(int(n), min(int(n)*int(it.left), slabHeaders, most)))
	}
	hs := it.slab[:n:n]
	it.slab = it.slab[n:]
	for j := range hs {
		var key []byte
		if key, i = field(p, i); i < 0 || key == nil {
			return nil, -1
		}
		hs[j].Key = unsafe.String(unsafe.SliceData(key), len(key))
		if hs[j].Value, i = field(p, i); i < 0 {
			return nil, -1
		}
	}
	return hs, i
}
