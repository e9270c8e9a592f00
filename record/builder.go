package record

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"math"
	"time"

	"github.com/stratalog/strata/internal/uncleared"
)

// ErrEmpty is returned by Build and AppendBatch if the builder holds no record.
var ErrEmpty = errors.New("record: batch without records")

// maxBatchSize is the largest batch whose length fits the header's field.
const maxBatchSize = math.MaxInt32

// A Builder encodes records into one batch. The zero Builder is ready for use: no size limit, no
// producer, base offset 0, leader epoch -1. It is meant to be reused: Bytes and AppendBatch keep
// its memory. A Builder is not safe for concurrent use.
type Builder struct {
	buf   []byte // header, then records as they are appended; empty: header not yet begun
	limit int
	count int32
	hint  int // least size of the next buffer: the last batch handed away, or Expect's

	baseTimestamp, maxTimestamp int64
	attributes                  Attributes

	sumsEarly bool
	summed    int    // sum covers the records up to this index of buf; 0: none yet
	sum       uint32 // CRC-32C of buf[HeaderSize:summed]
}

// Reset empties b, clears its producer, flags and offsets, and sets the size limit for Append: the
// bytes of the uncompressed batch, including the header. With a limit of 0 or less only the
// format's bound of 2 GiB applies. The memory is kept.
func (b *Builder) Reset(limit int) {
	b.buf, b.limit, b.count, b.attributes, b.summed = b.buf[:0], limit, 0, 0, 0
}

// SetLimit changes the size limit for Append, see Reset. The records are kept.
func (b *Builder) SetLimit(limit int) { b.limit = limit }

// Len returns the number of records appended.
func (b *Builder) Len() int { return int(b.count) }

// Size returns the present size of the uncompressed batch in bytes, including the header.
func (b *Builder) Size() int { return max(len(b.buf), HeaderSize) }

// Cap returns the size of b's memory in bytes.
func (b *Builder) Cap() int { return cap(b.buf) }

// Expect sets the expected size of the batch in bytes: a builder that needs more memory allocates
// that much at once.
func (b *Builder) Expect(size int) { b.hint = size }

// SumEarly makes b compute the CRC in pieces while records are appended, instead of at the end.
// That is faster for large batches that another goroutine completes, since the bytes are still in
// the cache of the processor that wrote them.
func (b *Builder) SumEarly() { b.sumsEarly = true }

// SetProducer sets the idempotent or transactional producer of the batch, and the sequence number
// of its first record.
func (b *Builder) SetProducer(id int64, epoch int16, sequence int32) {
	p := b.header()
	binary.BigEndian.PutUint64(p[posProducerID:], uint64(id))
	binary.BigEndian.PutUint16(p[posProducerEpoch:], uint16(epoch))
	binary.BigEndian.PutUint32(p[posBaseSequence:], uint32(sequence))
}

// SetTransactional marks the batch as part of a transaction of its producer.
func (b *Builder) SetTransactional(on bool) {
	if b.attributes &^= attrTransactional; on {
		b.attributes |= attrTransactional
	}
}

// SetBaseOffset sets the offset of the first record. It is 0 in a batch sent to a leader.
func (b *Builder) SetBaseOffset(offset int64) { SetBaseOffset(b.header(), offset) }

// SetLeaderEpoch sets the leader epoch. It is -1 in a batch sent to a leader.
func (b *Builder) SetLeaderEpoch(epoch int32) { SetLeaderEpoch(b.header(), epoch) }

// header returns the bytes of the header, which it begins if need be. Lengths, counts, timestamps
// and the CRC are filled in at the end.
func (b *Builder) header() []byte {
	if len(b.buf) == 0 {
		if cap(b.buf) < HeaderSize {
			b.buf = uncleared.Bytes(max(b.hint, 512))
		}
		b.buf = append(b.buf, emptyHeader[:]...)
	}
	return b.buf[:HeaderSize]
}

var emptyHeader = func() (h [HeaderSize]byte) {
	for _, r := range [][2]int{{posLeaderEpoch, 4}, {posProducerID, 8}, {posProducerEpoch, 2}, {posBaseSequence, 4}} {
		for i := range r[1] {
			h[r[0]+i] = 0xff // -1: none
		}
	}
	h[posMagic] = 2
	return h
}()

// Append adds r and reports whether it did. It returns false if the batch would exceed its limit.
// The first record may exceed the limit, but not the format's bound of 2 GiB. Offset, LeaderEpoch,
// Topic and Partition of r are ignored; the zero Timestamp means the current time. The bytes of r
// are borrowed for the call.
func (b *Builder) Append(r *Record) bool {
	var ms int64
	if r.Timestamp.IsZero() {
		ms = time.Now().UnixMilli()
	} else {
		ms = r.Timestamp.UnixMilli()
	}
	return b.AppendKV(ms, r.Key, r.Value, r.Headers)
}

// AppendKV is Append for the parts of a record. tsMs is in milliseconds since the Unix epoch; -1
// means no timestamp.
func (b *Builder) AppendKV(tsMs int64, key, value []byte, headers []Header) bool {
	if b.count == 0 {
		b.header()
		b.baseTimestamp, b.maxTimestamp = tsMs, tsMs
	}
	// The length comes first in the record, and its own length depends on it: add up before
	// writing.
	ts, off := zigzag(tsMs-b.baseTimestamp), uint64(b.count)<<1
	// 2 bytes: attributes, and that there are no headers.
	body := 2 + uvarintLen(ts) + uvarintLen(off) + fieldLen(key) + fieldLen(value)
	if len(headers) > 0 {
		body += headersLen(headers) - 1
	}
	i := len(b.buf)
	end := i + uvarintLen(uint64(body)<<1) + body
	if end > b.limit && b.limit > 0 && b.count > 0 || end > maxBatchSize {
		return false
	}
	if end > cap(b.buf) {
		b.buf = uncleared.Grow(b.buf, max(end, b.hint)-i)
	}
	b.buf = b.buf[:end]
	b.count++
	b.maxTimestamp = max(b.maxTimestamp, tsMs)

	p := b.buf[i:]
	i = putUvarint(p, 0, uint64(body)<<1)
	p[i] = 0 // attributes: none are defined
	i = putUvarint(p, i+1, ts)
	i = putUvarint(p, i, off)
	i = putField(p, i, key)
	i = putField(p, i, value)
	if len(headers) == 0 {
		p[i] = 0
	} else {
		putHeaders(p, i, headers)
	}
	if end-b.summed >= sumBytes && b.sumsEarly {
		b.sumUp()
	}
	return true
}

// AppendAll is Append for rs, in order, but faster. nowMs, in milliseconds since the Unix epoch,
// replaces the zero Timestamp. It returns the number of records added, less than len(rs) if the
// next one would exceed the limit. rs is borrowed for the call.
func (b *Builder) AppendAll(nowMs int64, rs []Record) (added int) {
	for added < len(rs) {
		r, ms := &rs[added], nowMs
		if !r.Timestamp.IsZero() {
			ms = r.Timestamp.UnixMilli()
		}
		if !b.AppendKV(ms, r.Key, r.Value, r.Headers) {
			break
		}
		if added++; added < len(rs) {
			added += b.appendValues(nowMs, rs[added:])
		}
	}
	return added
}

// appendValues adds the records that rs begins with as long as they are nothing but a value, fit
// and have the batch's first timestamp, and returns their number: AppendKV's work without a call
// for each, which takes a quarter off it; half of that is lost if keys and timestamps are in the
// loop, too. The first record of a batch is never added.
func (b *Builder) appendValues(nowMs int64, rs []Record) int {
	if b.count == 0 || nowMs != b.baseTimestamp || b.sumsEarly {
		return 0
	}
	room := min(cap(b.buf), maxBatchSize)
	if b.limit > 0 {
		room = min(room, b.limit)
	}
	p, first := b.buf, uint64(b.count)
	for i := range rs {
		r := &rs[i]
		if r.Key != nil || r.Value == nil || len(r.Headers) > 0 || !r.Timestamp.IsZero() || len(r.Value) > room-len(p)-maxValueOverhead {
			rs = rs[:i]
			break
		}
		off, size := (first+uint64(i))<<1, uint64(len(r.Value))<<1
		body := 4 + uvarintLen(off) + uvarintLen(size) + len(r.Value) // 4: see below
		p = binary.AppendUvarint(p, uint64(body)<<1)
		p = append(p, 0, 0) // attributes, and no difference in time
		p = binary.AppendUvarint(p, off)
		p = append(p, 1) // -1 in zigzag: no key
		p = binary.AppendUvarint(p, size)
		p = append(p, r.Value...)
		p = append(p, 0) // headers
	}
	b.buf, b.count = p, b.count+int32(len(rs))
	return len(rs)
}

// maxValueOverhead is the most that a record takes beside its value if it has nothing else.
const maxValueOverhead = 4 + 3*maxVarint32

// sumUp brings the sum up to the last record.
func (b *Builder) sumUp() {
	if b.summed == 0 {
		b.summed, b.sum = HeaderSize, 0
	}
	b.sum = crc32.Update(b.sum, castagnoli, b.buf[b.summed:])
	b.summed = len(b.buf)
}

// fieldLen returns the size of a key or value with its length, which is -1 for nil.
func fieldLen(f []byte) int { return uvarintLen(uint64(len(f))<<1) + len(f) }

func putField(p []byte, i int, f []byte) int {
	if f == nil {
		p[i] = 1 // -1 in zigzag
		return i + 1
	}
	i = putUvarint(p, i, uint64(len(f))<<1)
	return i + copy(p[i:], f)
}

func headersLen(hs []Header) int {
	n := uvarintLen(uint64(len(hs)) << 1)
	for i := range hs {
		n += uvarintLen(uint64(len(hs[i].Key))<<1) + len(hs[i].Key) + fieldLen(hs[i].Value)
	}
	return n
}

func putHeaders(p []byte, i int, hs []Header) {
	i = putUvarint(p, i, uint64(len(hs))<<1)
	for j := range hs {
		i = putUvarint(p, i, uint64(len(hs[j].Key))<<1)
		i += copy(p[i:], hs[j].Key)
		i = putField(p, i, hs[j].Value)
	}
}

// MaxTimestamp returns the largest timestamp of the records, in milliseconds since the Unix epoch.
// It is meaningless if there are no records.
func (b *Builder) MaxTimestamp() int64 { return b.maxTimestamp }

// Bytes completes the batch, uncompressed, and returns it without copying: it aliases the builder's
// memory until the next Reset, Append, Set or Build. It returns nil if there are no records. The
// builder is unchanged: more records may follow, and Bytes may be called again.
func (b *Builder) Bytes() []byte {
	if b.count == 0 {
		return nil
	}
	b.seal(b.buf, None)
	return b.buf[:len(b.buf):len(b.buf)]
}

// AppendBatch appends the batch, compressed with c, to dst and returns the longer slice. It then
// resets the builder to the same limit, and keeps its memory. On error (ErrEmpty,
// ErrUnsupportedCodec) it returns dst unchanged, and the builder keeps its records.
func (b *Builder) AppendBatch(dst []byte, c Codec) ([]byte, error) {
	if b.count == 0 {
		return dst, ErrEmpty
	}
	start := len(dst)
	if c == None {
		dst = append(dst, b.buf...)
	} else {
		out, err := compress(append(dst, b.buf[:HeaderSize]...), b.buf[HeaderSize:], c)
		if err != nil {
			return dst, err
		}
		dst = out
	}
	b.seal(dst[start:], c)
	b.Reset(b.limit)
	return dst, nil
}

// Build returns the batch, compressed with c, as stored in a .log file, with the base offset and
// leader epoch set earlier. The caller owns the bytes. Build then resets the builder to the same
// limit. On error (ErrEmpty, ErrUnsupportedCodec) the builder keeps its records.
func (b *Builder) Build(c Codec) ([]byte, error) {
	if c != None || b.count == 0 {
		return b.AppendBatch(nil, c)
	}
	p := b.Bytes()
	b.hint = len(p)
	b.buf = nil
	b.Reset(b.limit)
	return p, nil
}

// seal fills in the header fields that are known only at the end: p is the whole batch.
func (b *Builder) seal(p []byte, c Codec) {
	be := binary.BigEndian
	be.PutUint16(p[posAttributes:], uint16(b.attributes|Attributes(c)))
	be.PutUint32(p[posLastOffsetDelta:], uint32(b.count-1))
	be.PutUint64(p[posBaseTimestamp:], uint64(b.baseTimestamp))
	be.PutUint64(p[posMaxTimestamp:], uint64(b.maxTimestamp))
	be.PutUint32(p[posRecordCount:], uint32(b.count))
	be.PutUint32(p[posLength:], uint32(len(p)-LogOverhead)) // as sealBytes does, without the call
	if b.summed == 0 || c != None {
		be.PutUint32(p[posCRC:], crc32.Checksum(p[posAttributes:], castagnoli))
		return
	}
	b.sumUp()
	header := crc32.Checksum(p[posAttributes:HeaderSize], castagnoli)
	be.PutUint32(p[posCRC:], combineCRC(header, b.sum, len(p)-HeaderSize))
}

// sealBytes writes the length and the CRC of the batch p.
func sealBytes(p []byte) {
	binary.BigEndian.PutUint32(p[posLength:], uint32(len(p)-LogOverhead))
	binary.BigEndian.PutUint32(p[posCRC:], crc32.Checksum(p[posAttributes:], castagnoli))
}
