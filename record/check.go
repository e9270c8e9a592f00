package record

import (
	"errors"
	"fmt"
	"math"
)

var (
	// ErrInvalidRecord is matched by errors about batches that are well-formed but not acceptable.
	// Kafka: INVALID_RECORD.
	ErrInvalidRecord = errors.New("record: invalid record")
	// ErrInvalidTimestamp is matched by errors about timestamps outside the accepted range. Kafka:
	// INVALID_TIMESTAMP.
	ErrInvalidTimestamp = errors.New("record: invalid timestamp")
	// ErrBatchTooLarge is matched by the error for a batch of more than CheckOptions.MaxBytes.
	// Kafka: MESSAGE_TOO_LARGE.
	ErrBatchTooLarge = errors.New("record: batch too large")
)

// An InvalidRecordError tells what is wrong with a batch. It matches ErrInvalidRecord or
// ErrInvalidTimestamp, whichever Err is.
type InvalidRecordError struct {
	Err    error  // one of the two
	Reason string // about the batch as a whole
	// Records are those at fault, by position; empty if the batch itself is. Kafka: record_errors.
	Records []RecordError
}

// A RecordError says why one record of a batch was refused.
type RecordError struct {
	Index  int // position in the batch, from 0
	Reason string
}

func (e *InvalidRecordError) Error() string {
	if len(e.Records) > 0 {
		return fmt.Sprintf("%v: %s: %d of them, the first is record %d: %s", e.Err, e.Reason, len(e.Records), e.Records[0].Index, e.Records[0].Reason)
	}
	return fmt.Sprintf("%v: %s", e.Err, e.Reason)
}

// Unwrap returns Err.
func (e *InvalidRecordError) Unwrap() error { return e.Err }

// CheckOptions are a leader's conditions. The zero value: no limits but DefaultMaxInflated, create
// time, keys optional.
type CheckOptions struct {
	MaxBytes    int  // largest whole batch; 0: no limit. Kafka: max.message.bytes
	MaxInflated int  // largest record area after decompression; 0: DefaultMaxInflated
	RequireKeys bool // every record needs a key. Kafka: cleanup.policy has compact
	// TimestampType is the topic's. The records' own timestamps count only under CreateTime.
	TimestampType TimestampType
	NowMs         int64 // present time, for the two below
	// MaxAgeMs is how far before NowMs a timestamp may be; 0: any.
	// Kafka: message.timestamp.before.max.ms.
	MaxAgeMs int64
	// MaxAheadMs is how far after NowMs; 0: any. Kafka: message.timestamp.after.max.ms.
	MaxAheadMs int64
}

// Check validates p, one batch as a client sent it, as the leader does before it appends it, and
// returns its header; p is borrowed, the result aliases it.
//
// Everything that a reader will rely on is checked, also what Kafka lets pass: p is exactly one
// batch, its records end where it does, and their offset deltas are 0, 1, 2, ... whatever the codec
// (Kafka stores an uncompressed batch with other deltas, whose records then claim their neighbours'
// offsets).
//
// maxTimestamp is the largest timestamp of the records, -1 if none has one. If the header says
// something else, or has the append-time flag on a CreateTime topic, Kafka's leader corrects it:
// see Stamp.
//
// Errors match ErrCorrupt, ErrInvalidRecord (both, for records that cannot be read though the CRC
// is right), ErrInvalidTimestamp, ErrBatchTooLarge, ErrTooLarge or ErrUnsupportedCodec. The order
// of checks is Kafka's. Safe for concurrent use. Source: LogValidator,
// UnifiedLog.analyzeAndValidateRecords.
func Check(p []byte, o CheckOptions) (b Batch, maxTimestamp int64, err error) {
	if b, err = checkFrame(p, o.MaxBytes); err != nil {
		return Batch{}, 0, err
	}
	if err := b.checkHeader(o.TimestampType); err != nil {
		return Batch{}, 0, err
	}
	s := getScratch()
	defer putScratch(s)
	area, err := s.inflate(&b, o.MaxInflated)
	if err == nil {
		maxTimestamp, err = b.checkRecords(area, &o)
	}
	if err != nil {
		return Batch{}, 0, sentSo(err)
	}
	return b, maxTimestamp, nil
}

// CheckBuilt is Check for a batch that a Builder of this process has made and that nobody else has
// had in hands. What Check finds in the header it finds too. The CRC is not computed and the
// records are not walked, unless the conditions ask for what only they can tell: keys, the oldest
// timestamp, the size of what is compressed, or which of them are too far ahead. With the build tag
// invariants everything is looked at.
func CheckBuilt(p []byte, o CheckOptions) (b Batch, maxTimestamp int64, err error) {
	if checkAll || o.RequireKeys || o.TimestampType == CreateTime && o.MaxAgeMs > 0 {
		return Check(p, o)
	}
	if b, err = parseFrame(p, o.MaxBytes); err != nil {
		return Batch{}, 0, err
	}
	if err := b.checkHeader(o.TimestampType); err != nil {
		return Batch{}, 0, err
	}
	_, high := o.timestampRange()
	if b.Codec() != None || o.TimestampType == CreateTime && (b.MaxTimestamp > high || b.TimestampType() == LogAppendTime) {
		return Check(p, o)
	}
	return b, max(b.MaxTimestamp, -1), nil
}

// sentSo makes damage behind a good CRC an invalid record too: the sender made it so, and sending
// it again would not help.
func sentSo(err error) error {
	if errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrInvalidRecord) {
		return fmt.Errorf("%w: %w", ErrInvalidRecord, err)
	}
	return err
}

// checkFrame checks that p is one whole, undamaged batch.
func checkFrame(p []byte, maxBytes int) (Batch, error) {
	b, err := parseFrame(p, maxBytes)
	if err != nil {
		return Batch{}, err
	}
	return b, b.VerifyCRC()
}

// parseFrame is checkFrame but for the CRC.
func parseFrame(p []byte, maxBytes int) (Batch, error) {
	if len(p) > posMagic && p[posMagic] < 2 {
		return Batch{}, invalid("magic %d: only version 2 is accepted", p[posMagic])
	}
	b, err := ParseUnverified(p)
	switch {
	case errors.Is(err, ErrShort):
		return Batch{}, invalid("batch cut short")
	case err != nil:
		return Batch{}, err
	case b.Size() != len(p):
		return Batch{}, invalid("%d bytes behind the batch", len(p)-b.Size())
	case b.BaseOffset != 0:
		return Batch{}, invalid("base offset %d: a producer sends 0", b.BaseOffset)
	case maxBytes > 0 && len(p) > maxBytes:
		return Batch{}, fmt.Errorf("%w: %d bytes, at most %d are accepted", ErrBatchTooLarge, len(p), maxBytes)
	}
	return b, nil
}

func invalid(format string, args ...any) error {
	return &InvalidRecordError{Err: ErrInvalidRecord, Reason: fmt.Sprintf(format, args...)}
}

func (b *Batch) checkHeader(topic TimestampType) error {
	switch {
	case b.RecordCount == 0:
		return invalid("no records")
	case int64(b.RecordCount) != int64(b.LastOffsetDelta)+1:
		return invalid("%d records, but the last offset delta is %d", b.RecordCount, b.LastOffsetDelta)
	case b.IsControl():
		return invalid("control batches are not for clients")
	case b.HasDeleteHorizon():
		// Accepted by Kafka, whose cleaner then drops tombstones too early.
		return invalid("a delete horizon is not for clients")
	case b.ProducerID < -1:
		return invalid("producer id %d", b.ProducerID)
	case b.HasProducerID() && (b.ProducerEpoch < 0 || b.BaseSequence < 0):
		return invalid("producer %d with epoch %d and base sequence %d", b.ProducerID, b.ProducerEpoch, b.BaseSequence)
	case b.IsTransactional() && !b.HasProducerID():
		return invalid("transactional without a producer id")
	case b.Codec() > Zstd:
		return fmt.Errorf("%w: %d", ErrUnsupportedCodec, b.Codec())
	case topic == LogAppendTime && b.TimestampType() == LogAppendTime:
		return &InvalidRecordError{Err: ErrInvalidTimestamp, Reason: "the append time is set by the leader, not by a producer"}
	}
	return nil
}

// checkRecords walks the record area and returns the largest timestamp.
func (b *Batch) checkRecords(area []byte, o *CheckOptions) (int64, error) {
	var (
		c         = cursor{p: area}
		r         rawRecord
		bad       []RecordError
		kind      = ErrInvalidRecord
		latest    = int64(-1)
		low, high = o.timestampRange()
		stamped   = b.TimestampType() == LogAppendTime // by the producer: needs a time to stand on
	)
	for i := range b.RecordCount {
		if err := c.next(&r); err != nil {
			return 0, fmt.Errorf("record %d of %d: %w", i, b.RecordCount, err)
		}
		if r.offsetDelta != i {
			return 0, invalid("record %d has offset delta %d", i, r.offsetDelta)
		}
		if o.RequireKeys && !r.hasKey {
			bad = append(bad, RecordError{int(i), "a compacted topic needs a key"})
		}
		ts := b.BaseTimestamp + r.timestampDelta
		latest = max(latest, ts)
		if o.TimestampType == CreateTime && (ts != -1 && (ts < low || ts > high) || ts == -1 && stamped) {
			kind = ErrInvalidTimestamp
			bad = append(bad, RecordError{int(i), fmt.Sprintf("timestamp %d is not within %d and %d", ts, low, high)})
		}
	}
	if c.i != len(area) {
		return 0, invalid("%d bytes behind the last record", len(area)-c.i)
	}
	if len(bad) > 0 {
		return 0, &InvalidRecordError{Err: kind, Reason: "unacceptable records", Records: bad}
	}
	return latest, nil
}

// timestampRange returns the bounds of acceptable timestamps, both inclusive.
func (o *CheckOptions) timestampRange() (low, high int64) {
	low, high = math.MinInt64, math.MaxInt64
	if o.MaxAgeMs > 0 && o.NowMs > math.MinInt64+o.MaxAgeMs {
		low = o.NowMs - o.MaxAgeMs
	}
	if o.MaxAheadMs > 0 && o.NowMs < math.MaxInt64-o.MaxAheadMs {
		high = o.NowMs + o.MaxAheadMs
	}
	return low, high
}
