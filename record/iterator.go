package record

import (
	"fmt"
	"iter"
	"time"
	"unsafe"
)

// DefaultMaxInflated bounds the decompressed size of a batch where no other bound is given.
const DefaultMaxInflated = 128 << 20

// An Iterator walks the records of one batch, oldest first. It is a value: no goroutine, nothing to
// close. Not safe for concurrent use.
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

// Records returns an iterator over the records of b, decompressing them if need be. limit bounds
// the size in bytes that they may inflate to; 0 means DefaultMaxInflated. Errors match ErrCorrupt,
// ErrTooLarge, ErrUnsupportedCodec, or ErrShort if b is only a header. The records of a control
// batch are control records: see Control.
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

// All yields the records of b, decompressed as needed, up to DefaultMaxInflated bytes of them.
// Damage inside is yielded once, as an error, and ends the walk. Topic and Partition are left
// empty. Key, Value and Headers alias the bytes of b, or those it was decompressed to, and must not
// be written to; there is no allocation per record.
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

// Next stores the next record in r and reports whether there was one. Every field of r is
// overwritten but Topic and Partition. What r refers to stays valid, and is not written to, after
// further calls; it aliases the batch. An error, matching ErrCorrupt, is returned by all later
// calls too.
func (it *Iterator) Next(r *Record) (bool, error) {
	if it.left == 0 {
		if it.err == nil && it.i < len(it.p) {
			it.err = fmt.Errorf("%w: %d bytes behind the last record", ErrCorrupt, len(it.p)-it.i)
		}
		return false, it.err
	}
	// Field after field; a negative index says that the one before could not be read, and travels
	// on. What mostly takes one byte is looked at here, before a function is called.
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

// Left returns how many records the header says are still to come: as far as the batch was
// verified, a true number.
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
	// A header takes at least two bytes: a count that passes the bytes is refused before memory is
	// asked for.
	if i < 0 || n < 0 || int(n) > (len(p)-i)/2 {
		return nil, -1
	}
	if int(n) > len(it.slab) {
		most := int(n) + (len(it.p)-i)/2 // this record's and what can follow
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
