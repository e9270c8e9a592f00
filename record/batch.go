package record

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
)

// Layout of a record batch v2 header (Kafka: DefaultRecordBatch), big endian.
const (
	HeaderSize  = 61 // bytes before the first record
	LogOverhead = 12 // base offset and length: the part not included in the length field

	posBaseOffset      = 0
	posLength          = 8
	posLeaderEpoch     = 12
	posMagic           = 16
	posCRC             = 17
	posAttributes      = 21
	posLastOffsetDelta = 23
	posBaseTimestamp   = 27
	posMaxTimestamp    = 35
	posProducerID      = 43
	posProducerEpoch   = 51
	posBaseSequence    = 53
	posRecordCount     = 57
)

// Attributes are the flags of a batch; only the low byte is used.
type Attributes int16

const (
	attrCodecMask     Attributes = 0x07
	attrLogAppendTime Attributes = 1 << 3
	attrTransactional Attributes = 1 << 4
	attrControl       Attributes = 1 << 5
	attrDeleteHorizon Attributes = 1 << 6
)

// ErrCorrupt is matched by every error for bytes that are not a valid batch.
var ErrCorrupt = errors.New("record: corrupt batch")

// ErrShort is returned when the bytes end before the batch does; more bytes may complete it. It
// does not match ErrCorrupt.
var ErrShort = errors.New("record: incomplete batch")

// A Batch is a parsed batch header together with the bytes it was parsed from, which it aliases.
// The zero Batch is empty. A Batch is read-only and safe for concurrent use.
type Batch struct {
	BaseOffset      int64
	Length          int32 // bytes after this field; the whole batch has Size() bytes
	LeaderEpoch     int32
	CRC             uint32
	Attributes      Attributes
	LastOffsetDelta int32
	BaseTimestamp   int64 // ms since the Unix epoch; the delete horizon if HasDeleteHorizon
	MaxTimestamp    int64
	ProducerID      int64 // -1: none
	ProducerEpoch   int16
	BaseSequence    int32
	RecordCount     int32

	raw []byte // the whole batch; only the header after ParseHeader
}

// ParseHeader parses the first HeaderSize bytes of p. It checks the magic byte and the plausibility
// of length and counts, but not the CRC. Bytes then returns only the header. It returns ErrShort if
// p is shorter than a header, and ErrCorrupt for anything except a v2 batch.
func ParseHeader(p []byte) (b Batch, err error) {
	if err := b.read(p); err != nil {
		return Batch{}, err
	}
	return b, nil
}

// read is ParseHeader in place: a Batch is large to copy. On error b is partly set.
func (b *Batch) read(p []byte) error {
	if len(p) < HeaderSize {
		return ErrShort
	}
	p = p[:HeaderSize:HeaderSize]
	be := binary.BigEndian
	b.BaseOffset = int64(be.Uint64(p[posBaseOffset:]))
	b.Length = int32(be.Uint32(p[posLength:]))
	b.LeaderEpoch = int32(be.Uint32(p[posLeaderEpoch:]))
	b.CRC = be.Uint32(p[posCRC:])
	b.Attributes = Attributes(be.Uint16(p[posAttributes:]))
	b.LastOffsetDelta = int32(be.Uint32(p[posLastOffsetDelta:]))
	b.BaseTimestamp = int64(be.Uint64(p[posBaseTimestamp:]))
	b.MaxTimestamp = int64(be.Uint64(p[posMaxTimestamp:]))
	b.ProducerID = int64(be.Uint64(p[posProducerID:]))
	b.ProducerEpoch = int16(be.Uint16(p[posProducerEpoch:]))
	b.BaseSequence = int32(be.Uint32(p[posBaseSequence:]))
	b.RecordCount = int32(be.Uint32(p[posRecordCount:]))
	b.raw = p
	switch {
	case p[posMagic] != 2:
		return fmt.Errorf("%w: magic %d", ErrCorrupt, p[posMagic])
	case b.Length < HeaderSize-LogOverhead:
		return fmt.Errorf("%w: length %d", ErrCorrupt, b.Length)
	case b.LastOffsetDelta < 0 || b.RecordCount < 0 || b.BaseOffset < 0:
		return fmt.Errorf("%w: base offset %d, last offset delta %d, %d records", ErrCorrupt, b.BaseOffset, b.LastOffsetDelta, b.RecordCount)
	}
	return nil
}

// Parse returns the first batch of p, which the result aliases, and its size in bytes. It verifies
// the CRC. It returns ErrShort if p ends before the batch does, otherwise an error matching
// ErrCorrupt.
func Parse(p []byte) (*Batch, int, error) {
	b, err := ParseHeader(p)
	if err != nil {
		return nil, 0, err
	}
	if len(p) < b.Size() {
		return nil, 0, ErrShort
	}
	b.raw = p[:b.Size():b.Size()]
	if err := b.VerifyCRC(); err != nil {
		return nil, 0, err
	}
	return &b, b.Size(), nil
}

// ParseUnverified is Parse that returns a value and does not check the CRC. It is for bytes that
// were verified earlier.
func ParseUnverified(p []byte) (b Batch, err error) {
	if err := b.read(p); err != nil {
		return Batch{}, err
	}
	if len(p) < b.Size() {
		return Batch{}, ErrShort
	}
	b.raw = p[:b.Size():b.Size()]
	return b, nil
}

// ParseInto is ParseHeader in place, for loops over many batches: copying a Batch takes as long as
// parsing one. On success b is the batch at the start of p. Bytes returns the whole batch if p
// contains it, else only the header. After an error b may only be passed to ParseInto again.
func ParseInto(b *Batch, p []byte) error {
	if err := b.read(p); err != nil {
		return err
	}
	if n := b.Size(); n <= len(p) {
		b.raw = p[:n:n]
	}
	return nil
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// VerifyCRC checks the CRC-32C of everything after the CRC field. It does not cover base offset,
// length and leader epoch. It returns ErrShort if b is only a header.
func (b *Batch) VerifyCRC() error {
	if len(b.raw) < HeaderSize || len(b.raw) != b.Size() {
		return ErrShort
	}
	if sum := crc32.Checksum(b.raw[posAttributes:], castagnoli); sum != b.CRC {
		return fmt.Errorf("%w: CRC %08x, computed %08x", ErrCorrupt, b.CRC, sum)
	}
	return nil
}

// Size returns the size of the whole batch in bytes.
func (b *Batch) Size() int { return int(b.Length) + LogOverhead }

// Bytes returns the bytes of the batch as stored in a .log file. They alias the parsed bytes.
func (b *Batch) Bytes() []byte { return b.raw }

// LastOffset returns the offset of the last record, inclusive. After compaction the record itself
// may be missing.
func (b *Batch) LastOffset() int64 { return b.BaseOffset + int64(b.LastOffsetDelta) }

// NextOffset returns LastOffset plus one.
func (b *Batch) NextOffset() int64 { return b.LastOffset() + 1 }

// LastSequence returns the sequence number of the last record, or -1 if the batch has no sequence
// numbers. It wraps to 0 after 2^31-1.
func (b *Batch) LastSequence() int32 {
	if b.BaseSequence < 0 {
		return -1
	}
	return int32((int64(b.BaseSequence) + int64(b.LastOffsetDelta)) & 0x7fffffff)
}

// Codec returns the compression codec of the records; values above Zstd are unknown codecs.
func (b *Batch) Codec() Codec { return Codec(b.Attributes & attrCodecMask) }

// TimestampType returns the source of the timestamps.
func (b *Batch) TimestampType() TimestampType {
	if b.Attributes&attrLogAppendTime != 0 {
		return LogAppendTime
	}
	return CreateTime
}

// IsTransactional reports whether the batch is part of a transaction.
func (b *Batch) IsTransactional() bool { return b.Attributes&attrTransactional != 0 }

// IsControl reports whether the batch holds control records, such as transaction markers, which
// readers do not see.
func (b *Batch) IsControl() bool { return b.Attributes&attrControl != 0 }

// HasDeleteHorizon reports whether BaseTimestamp is the delete horizon that compaction set
// (KIP-534).
func (b *Batch) HasDeleteHorizon() bool { return b.Attributes&attrDeleteHorizon != 0 }

// HasProducerID reports whether the batch comes from an idempotent or transactional producer.
func (b *Batch) HasProducerID() bool { return b.ProducerID >= 0 }

// SetBaseOffset writes the base offset into the batch p; the CRC does not cover it.
func SetBaseOffset(p []byte, offset int64) {
	binary.BigEndian.PutUint64(p[posBaseOffset:], uint64(offset))
}

// SetLeaderEpoch writes the leader epoch into the batch p; the CRC does not cover it.
func SetLeaderEpoch(p []byte, epoch int32) {
	binary.BigEndian.PutUint32(p[posLeaderEpoch:], uint32(epoch))
}
