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

// An InvalidRecordError describes an invalid batch. It matches ErrInvalidRecord or
// ErrInvalidTimestamp, depending on Err.
type InvalidRecordError struct {
	Err    error  // ErrInvalidRecord or ErrInvalidTimestamp
	Reason string // problem of the batch as a whole
	// Records are the invalid records, by position; empty if the batch itself is invalid. Kafka:
	// record_errors.
	Records []RecordError
}

// A RecordError describes the problem of one record in a rejected batch.
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

// CheckOptions are the conditions of a leader. The zero value means: no limit except
// DefaultMaxInflated, create time, optional keys.
type CheckOptions struct {
	MaxBytes    int  // largest whole batch; 0: no limit. Kafka: max.message.bytes
	MaxInflated int  // largest record area after decompression; 0: DefaultMaxInflated
	RequireKeys bool // every record needs a key. Kafka: cleanup.policy includes compact
	// TimestampType is the topic's. The records' own timestamps are checked only under CreateTime.
	TimestampType TimestampType
	NowMs         int64 // current time, for the two fields below
	// MaxAgeMs bounds how far a timestamp may be before NowMs, in milliseconds; 0 means no bound.
	// Kafka: message.timestamp.before.max.ms.
	MaxAgeMs int64
	// MaxAheadMs bounds how far a timestamp may be after NowMs, in milliseconds; 0 means no bound.
	// Kafka: message.timestamp.after.max.ms.
	MaxAheadMs int64
}

// Check validates one batch from a client, p, as the leader does before it appends the batch. It
// returns the batch's header. p is borrowed; the result aliases it.
//
// Check is stricter than Kafka, so that readers can rely on the stored bytes. p must be exactly one
// batch, its records must end where it does, and their offset deltas must be 0, 1, 2, ... with
// every codec. Kafka stores an uncompressed batch with other deltas, whose records then have the
// offsets of their neighbours.
//
// maxTimestamp is the largest timestamp of the records, -1 if none has one. If the header has
// another value, or has the append-time flag on a CreateTime topic, Kafka's leader corrects it: see
// Stamp.
//
// Errors match ErrCorrupt, ErrInvalidRecord, ErrInvalidTimestamp, ErrBatchTooLarge, ErrTooLarge or
// ErrUnsupportedCodec. For unreadable records with a correct CRC they match both ErrCorrupt and
// ErrInvalidRecord. The order of checks is Kafka's. Safe for concurrent use. Source: LogValidator,
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

// CheckBuilt is Check for a batch that a Builder in this process made and no other code has
// modified. It makes the same checks of the header. It does not compute the CRC, and it reads the
// records only if an option requires them: keys, the oldest timestamp, the size of compressed
// records, or which records are too far ahead. With the build tag invariants it checks everything.
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

// parseFrame is checkFrame without the check of the CRC.
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
