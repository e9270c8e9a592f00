package mirror

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/stratalog/strata/consumer"
	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/record"
)

// translateAll translates the offsets of a group.
func (f *Forward) translateAll(ctx context.Context, id string, at record.Offsets, ends map[string][]int64) (record.Offsets, error) {
	to := record.Offsets{}
	for _, fl := range f.flows {
		compacted, err := f.isCompacted(ctx, fl)
		if err != nil {
			return nil, err
		}
		for p := range fl.reached {
			from, ok := at[record.TopicPartition{Topic: fl.source, Partition: int32(p)}]
			if !ok {
				continue
			}
			offset, err := f.translate(ctx, fl, int32(p), from, ends[fl.source][p], compacted)
			if err != nil {
				return nil, fmt.Errorf("group %s: %w", id, err)
			}
			to[record.TopicPartition{Topic: fl.target, Partition: int32(p)}] = offset
		}
	}
	return to, nil
}

// translate returns the offset at the target of the first committed record of the source from an
// offset on, or the end if there is none.
func (f *Forward) translate(ctx context.Context, fl *flow, p int32, from, end int64, compacted bool) (int64, error) {
	if from > end {
		return 0, f.stop(fl.source, p, from, fmt.Errorf("%w: the source ends at offset %d", ErrTruncated, end))
	}
	start, err := offsetOf(ctx, f.source, record.TopicPartition{Topic: fl.source, Partition: p}, partition.Earliest, partition.ReadCommitted)
	switch {
	case err != nil:
		return 0, err
	case from < start:
		return 0, f.gap(fl.source, p, from, start)
	case compacted:
		return f.translateCompacted(ctx, fl, p, from)
	}
	n := 0
	for _, err := range f.readSource(ctx, fl, p, from, partition.ReadCommitted) {
		if err != nil {
			return 0, err
		}
		if n++; n > MaxTranslated {
			return 0, fmt.Errorf("mirror %q: %s-%d at offset %d: %w", f.cfg.ID, fl.source, p, from, ErrTooFarBehind)
		}
	}
	tp := record.TopicPartition{Topic: fl.target, Partition: p}
	// Markers of the last transaction are written after its commit is decided.
	if err := f.awaitStable(ctx, tp); err != nil {
		return 0, err
	}
	if n == 0 {
		return offsetOf(ctx, f.target, tp, partition.Latest, partition.ReadCommitted)
	}
	next, stop := iter.Pull2(f.readSource(ctx, fl, p, from, partition.ReadCommitted))
	defer stop()
	first := int64(-1)
	for r, err := range consumer.Read(ctx, f.target, consumer.ReadConfig{Topic: fl.target, Partitions: []int32{p}, Last: n}) {
		if err != nil {
			return 0, err
		}
		want, err, ok := next()
		switch {
		case err != nil:
			return 0, err
		case !ok || !equal(&want, &r):
			return 0, f.stop(fl.target, p, -1, fmt.Errorf("%w: offset %d", ErrDiffers, r.Offset))
		case first < 0:
			first = r.Offset
		}
	}
	if _, err, more := next(); err != nil || more {
		return 0, errors.Join(err, f.stop(fl.target, p, -1, fmt.Errorf("%w: it has fewer than %d", ErrDiffers, n)))
	}
	return first, nil
}

// equal reports whether the target has a record as the source has it.
func equal(a, b *record.Record) bool {
	if !same(a.Key, b.Key) || !same(a.Value, b.Value) || !a.Timestamp.Equal(b.Timestamp) || len(a.Headers) != len(b.Headers) {
		return false
	}
	for i := range a.Headers {
		if a.Headers[i].Key != b.Headers[i].Key || !same(a.Headers[i].Value, b.Headers[i].Value) {
			return false
		}
	}
	return true
}

func same(a, b []byte) bool { return (a == nil) == (b == nil) && bytes.Equal(a, b) }
