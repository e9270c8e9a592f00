package partition

import (
	"errors"
	"fmt"
	"time"

	"github.com/stratalog/strata/log"
	"github.com/stratalog/strata/record"
)

// rules are the leader's rules for validating and storing batches. They are immutable: Reconfigure
// replaces them.
type rules struct {
	options      record.CheckOptions // except the present time
	segmentBytes int64
	codec        record.Codec
	recode       bool // codec is the topic's, not the producer's
	compactOnly  bool
	minInSync    int
	maxLag       time.Duration
}

func newRules(c Config) *rules {
	r := &rules{
		options: record.CheckOptions{
			MaxBytes: c.Log.MaxBatchBytes, MaxInflated: max(c.Log.MaxBatchBytes, record.DefaultMaxInflated),
			RequireKeys: c.Log.Cleanup.Compacts(), TimestampType: c.TimestampType,
		},
		segmentBytes: c.Log.SegmentBytes,
		compactOnly:  c.Log.Cleanup.Compacts() && !c.Log.Cleanup.Deletes(),
		minInSync:    c.MinInSync, maxLag: c.MaxLag,
	}
	if c.TimestampBeforeMax != log.Unlimited {
		r.options.MaxAgeMs = max(c.TimestampBeforeMax.Milliseconds(), 1)
	}
	if c.TimestampAfterMax != log.Unlimited {
		r.options.MaxAheadMs = max(c.TimestampAfterMax.Milliseconds(), 1)
	}
	r.codec, r.recode = c.Compression.codec()
	return r
}

// check validates req's batch and sets the batch to store: the batch itself or, if the topic's
// compression or timestamps require it, a copy. Kafka: LogValidator, UnifiedLog.append.
func (r *rules) check(req *ProduceRequest) error {
	o := r.options
	o.NowMs = time.Now().UnixMilli()
	validate := record.Check
	if req.Built {
		validate = record.CheckBuilt
	}
	b, maxTimestamp, err := validate(req.Batch, o)
	if err != nil {
		req.result.Records = blame(err)
		return err
	}
	want := b.MaxTimestamp
	if o.TimestampType == record.LogAppendTime {
		want = o.NowMs
		req.result.LogAppendTimeMs = o.NowMs
	} else if maxTimestamp != want {
		want = maxTimestamp // a producer's header may be wrong about its own records
	}
	batch, err := r.rewrite(req.Batch, &b, want)
	if err != nil {
		return err
	}
	if int64(len(batch)) > r.segmentBytes {
		return fmt.Errorf("%w: %d bytes, a segment has %d", ErrBatchTooLarge, len(batch), r.segmentBytes)
	}
	if req.DiscardRecords {
		batch = b.AppendEmpty(make([]byte, 0, record.HeaderSize))
		if b, err = record.ParseUnverified(batch); err != nil {
			return err
		}
	}
	req.append.Batch, req.append.Info, req.append.Emptied = batch, b, req.DiscardRecords
	return nil
}

// rewrite returns batch, whose header is b, with the topic's codec and kind of timestamp and with
// the given largest timestamp. It is batch itself if it has them, else a copy, and b its header.
func (r *rules) rewrite(batch []byte, b *record.Batch, maxTimestamp int64) ([]byte, error) {
	codec := b.Codec()
	if r.recode {
		codec = r.codec
	}
	o := &r.options
	if maxTimestamp == b.MaxTimestamp && b.TimestampType() == o.TimestampType && codec == b.Codec() {
		return batch, nil
	}
	out, err := record.Rewrite(make([]byte, 0, len(batch)), b, record.RewriteOptions{
		Codec: codec, TimestampType: o.TimestampType, MaxTimestamp: maxTimestamp, MaxInflated: o.MaxInflated,
	})
	if err != nil {
		return nil, err
	}
	if len(out) > o.MaxBytes {
		return nil, fmt.Errorf("%w: %d bytes with the topic's compression, at most %d are accepted", ErrRecordTooLarge, len(out), o.MaxBytes)
	}
	*b, err = record.ParseUnverified(out)
	return out, err
}

// blame returns the records that an error names.
func blame(err error) []RecordError {
	var invalid *record.InvalidRecordError
	if !errors.As(err, &invalid) {
		return nil
	}
	out := make([]RecordError, len(invalid.Records))
	for i, r := range invalid.Records {
		out[i] = RecordError{Index: int32(r.Index), Reason: r.Reason}
	}
	return out
}
