package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
)

// timeOf parses where as a time. ok is false if it is not a time. A time before 1970 is an error:
// on the wire, negative timestamps have other meanings, such as -1 for the end.
func timeOf(where string) (at time.Time, ok bool, err error) {
	at, notTime := time.Parse(time.RFC3339, where)
	if notTime == nil && at.UnixMilli() < 0 {
		err = misuse("%q: records have no times before 1970", where)
	}
	return at, notTime == nil, err
}

// resolveWithin is resolve for a position to continue from. An offset beyond the end of a partition
// is an error: a reader would find it out of range and begin elsewhere. An offset before the first
// record becomes that record's, as in Kafka's tool.
func resolveWithin(ctx context.Context, admin *kadm.Client, where string, topics []string) ([]kadm.ListedOffset, error) {
	offsets, err := resolve(ctx, admin, where, topics)
	if err != nil {
		return nil, err
	}
	if _, notOffset := strconv.ParseInt(where, 10, 64); notOffset != nil {
		return offsets, nil
	}
	starts, err := listAll(ctx, admin.ListStartOffsets, topics)
	if err != nil {
		return nil, err
	}
	ends, err := listAll(ctx, admin.ListEndOffsets, topics)
	if err != nil {
		return nil, err
	}
	for i, o := range offsets {
		start, okStart := starts.Lookup(o.Topic, o.Partition)
		end, okEnd := ends.Lookup(o.Topic, o.Partition)
		switch at := (partitionOf{o.Topic, o.Partition}); {
		case !okStart || !okEnd || start.Err != nil || end.Err != nil:
			return nil, fmt.Errorf("%s: its offsets are unknown: %w", at, cmp.Or(start.Err, end.Err, error(kerr.UnknownTopicOrPartition)))
		case o.Offset > end.Offset:
			return nil, fmt.Errorf("%s: offset %d is beyond its end, %d", at, o.Offset, end.Offset)
		}
		offsets[i].Offset = max(o.Offset, start.Offset)
	}
	return offsets, nil
}

// resolve returns the offset of where in every partition of topics, sorted. where is "earliest",
// "latest", a number, or a time.
func resolve(ctx context.Context, admin *kadm.Client, where string, topics []string) ([]kadm.ListedOffset, error) {
	var list func(context.Context, ...string) (kadm.ListedOffsets, error)
	fixed := int64(-1)
	if n, err := strconv.ParseInt(where, 10, 64); err == nil && n >= 0 {
		fixed = n
	}
	at, isTime, err := timeOf(where)
	if err != nil {
		return nil, err
	}
	switch {
	case where == "earliest":
		list = admin.ListStartOffsets
	case where == "latest", fixed >= 0:
		list = admin.ListEndOffsets
	case isTime:
		list = func(ctx context.Context, topics ...string) (kadm.ListedOffsets, error) {
			return admin.ListOffsetsAfterMilli(ctx, at.UnixMilli(), topics...)
		}
	default:
		return nil, misuse("%q: must be earliest, latest, an offset, or a time as in 2026-01-31T12:00:00Z", where)
	}
	listed, err := listAll(ctx, list, topics)
	if err != nil {
		return nil, named(err, topics)
	}
	var out []kadm.ListedOffset
	listed.Each(func(o kadm.ListedOffset) {
		if fixed >= 0 {
			o.Offset = fixed
		}
		out = append(out, o)
	})
	slices.SortFunc(out, func(a, b kadm.ListedOffset) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
	})
	if len(out) == 0 {
		return nil, fmt.Errorf("topics %q: no such topics", topics)
	}
	return out, nil
}

// listPause is the time between two attempts to list offsets.
const listPause = 50 * time.Millisecond

// listAll returns the offsets of all partitions. While one of them cannot have its offset yet, as
// one whose leader has just begun, listAll tries again until the context ends. It returns any other
// error of a partition.
func listAll(ctx context.Context, list func(context.Context, ...string) (kadm.ListedOffsets, error), topics []string) (kadm.ListedOffsets, error) {
	var bad error
	for {
		listed, err := list(ctx, topics...)
		switch {
		case err != nil && bad != nil && ctx.Err() != nil:
			return nil, fmt.Errorf("%w: %w", context.Cause(ctx), bad)
		case err != nil:
			return nil, err
		}
		if bad = firstError(listed); bad == nil {
			return listed, nil
		}
		if !errors.Is(bad, kerr.OffsetNotAvailable) {
			return nil, bad
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: %w", context.Cause(ctx), bad)
		case <-time.After(listPause):
		}
	}
}

// firstError returns the error of the first partition, or topic, that has one.
func firstError(listed kadm.ListedOffsets) error {
	var bad []kadm.ListedOffset
	listed.Each(func(o kadm.ListedOffset) {
		if o.Err != nil {
			bad = append(bad, o)
		}
	})
	slices.SortFunc(bad, func(a, b kadm.ListedOffset) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
	})
	switch {
	case len(bad) == 0:
		return nil
	case bad[0].Partition < 0:
		return fmt.Errorf("%s: %w", bad[0].Topic, bad[0].Err)
	}
	return fmt.Errorf("%s-%d: %w", bad[0].Topic, bad[0].Partition, bad[0].Err)
}
