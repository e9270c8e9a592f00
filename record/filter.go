package record

import (
	"encoding/binary"
	"math"
	"sync"
)

// FilterOptions are the options of Filter for one batch.
type FilterOptions struct {
	// DeleteHorizonMs is the time after which remaining tombstones may be removed, in milliseconds
	// since the Unix epoch. It is set in a batch that still has tombstones and no horizon. 0 sets
	// none.
	DeleteHorizonMs int64
	// FinishedMarker is true for a transaction marker whose transaction has no records left: it
	// gets the horizon, as a tombstone does.
	FinishedMarker bool
	// KeepEmpty keeps the header of a batch that loses all its records, because its offsets and
	// sequence numbers are still needed.
	KeepEmpty bool
	// MaxInflated bounds the decompressed records; 0: DefaultMaxInflated.
	MaxInflated int
}

// Filter appends b to dst with only the records for which keep returns true. It returns the longer
// slice and the number of kept records. keep borrows its record: the next call overwrites it.
//
// Offsets never change: base offset, last offset delta and base sequence stay, and leave gaps. A
// batch that loses no records, and needs no delete horizon, is copied byte for byte. Otherwise it
// is encoded again with its own codec; its base timestamp is that of its first remaining record, or
// the horizon. A batch that loses all records is reduced to its header with KeepEmpty. Without
// KeepEmpty it is removed, and dst is returned unchanged.
//
// b is only read. On error dst is returned unchanged; errors are those of Records. Source:
// MemoryRecords.filterTo, KIP-534.
func Filter(dst []byte, b *Batch, o FilterOptions, keep func(*Record) bool) (out []byte, kept int, err error) {
	s := getScratch()
	defer putScratch(s)
	area, err := s.inflate(b, o.MaxInflated)
	if err != nil {
		return dst, 0, err
	}
	f := filterPool.Get().(*filter)
	defer f.release()
	if err := f.choose(b, area, keep); err != nil {
		return dst, 0, err
	}
	needsHorizon := (f.tombstones || o.FinishedMarker) && !b.HasDeleteHorizon() && o.DeleteHorizonMs > 0
	switch {
	case f.kept == 0 && o.KeepEmpty:
		return b.AppendEmpty(dst), 0, nil
	case f.kept == 0:
		return dst, 0, nil
	case f.kept == int(b.RecordCount) && !needsHorizon:
		return append(dst, b.raw...), f.kept, nil
	}
	h := f.header(b)
	if needsHorizon {
		h.Attributes |= attrDeleteHorizon
		h.BaseTimestamp = o.DeleteHorizonMs
	}
	f.encode(b, area, h.BaseTimestamp)
	start := len(dst)
	out, err = compress(append(dst, b.raw[:HeaderSize]...), f.area, b.Codec())
	if err != nil {
		return dst, 0, err
	}
	h.put(out[start:])
	return out, f.kept, nil
}

var filterPool = sync.Pool{New: func() any { return new(filter) }}

// A filter holds the state of a batch between the choice of its records and their encoding.
type filter struct {
	keep       []bool // by position
	kept       int
	tombstones bool  // among the kept
	first, max int64 // timestamps of the kept
	area       []byte
}

func (f *filter) release() {
	if cap(f.area) <= maxPooledBytes && cap(f.keep) <= maxPooledBytes {
		poison(f.area)
		filterPool.Put(f)
	}
}

// choose calls keep for every record.
func (f *filter) choose(b *Batch, area []byte, keep func(*Record) bool) error {
	f.keep, f.kept, f.tombstones, f.max = f.keep[:0], 0, false, math.MinInt64
	it := b.iterator(area)
	for r := new(Record); ; {
		ok, err := it.Next(r)
		if err != nil || !ok {
			return err
		}
		stays := keep(r)
		f.keep = append(f.keep, stays)
		if !stays {
			continue
		}
		ms := r.Timestamp.UnixMilli()
		if f.kept == 0 {
			f.first = ms
		}
		f.kept++
		f.max = max(f.max, ms)
		f.tombstones = f.tombstones || r.Value == nil
	}
}

// header returns the header of the batch with only the kept records.
func (f *filter) header(b *Batch) Batch {
	h := *b
	h.RecordCount = int32(f.kept)
	if !b.HasDeleteHorizon() {
		h.BaseTimestamp = f.first
	}
	if b.TimestampType() == CreateTime {
		h.MaxTimestamp = f.max
	}
	return h
}

// encode writes the kept records to f.area, timestamps relative to base. The area was walked by
// choose before: it has no faults.
func (f *filter) encode(b *Batch, area []byte, base int64) {
	c := cursor{p: area}
	f.area = f.area[:0]
	var r rawRecord
	for _, stays := range f.keep {
		if c.next(&r) != nil || !stays {
			continue
		}
		ms := b.BaseTimestamp + r.timestampDelta
		if b.TimestampType() == LogAppendTime {
			ms = b.MaxTimestamp
		}
		ts, off := zigzag(ms-base), zigzag(int64(r.offsetDelta))
		p := binary.AppendUvarint(f.area, zigzag(int64(1+uvarintLen(ts)+uvarintLen(off)+len(r.rest))))
		p = append(p, 0) // attributes
		p = binary.AppendUvarint(p, ts)
		p = binary.AppendUvarint(p, off)
		f.area = append(p, r.rest...)
	}
}

// put writes the fields that change when records go into the batch p, and completes it.
func (b *Batch) put(p []byte) {
	binary.BigEndian.PutUint16(p[posAttributes:], uint16(b.Attributes))
	binary.BigEndian.PutUint64(p[posBaseTimestamp:], uint64(b.BaseTimestamp))
	binary.BigEndian.PutUint64(p[posMaxTimestamp:], uint64(b.MaxTimestamp))
	binary.BigEndian.PutUint32(p[posRecordCount:], uint32(b.RecordCount))
	sealBytes(p)
}

// AppendEmpty appends to dst the header of b without records: no codec, no horizon, otherwise
// unchanged, so that its offsets and sequence numbers stay in use. Compaction replaces the last
// batch of a producer with it. b is only read.
func (b *Batch) AppendEmpty(dst []byte) []byte {
	h := *b
	h.Attributes &= attrLogAppendTime | attrTransactional | attrControl
	h.BaseTimestamp, h.RecordCount = -1, 0
	dst = append(dst, b.raw[:HeaderSize]...)
	h.put(dst[len(dst)-HeaderSize:])
	return dst
}
