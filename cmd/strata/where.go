package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
)

// timeOf returns the time that a place is; false: it is none. One before 1970 is an error: on the
// wire those numbers are other places, -1 the end.
func timeOf(where string) (at time.Time, ok bool, err error) {
	at, notTime := time.Parse(time.RFC3339, where)
	if notTime == nil && at.UnixMilli() < 0 {
		err = misuse("%q: records have no times before 1970", where)
	}
	return at, notTime == nil, err
}

// resolveWithin is resolve for an offset that somebody is to go on from. One beyond the end of a
// partition is refused: a reader would find it out of range and begin somewhere else. One before
// the first record is that record's, as Kafka's tool has it.
func resolveWithin(ctx context.Context, admin *kadm.Client, where string, topics []string) ([]kadm.ListedOffset, error) {
	offsets, err := resolve(ctx, admin, where, topics)
	if err != nil {
		return nil, err
	}
	if _, notOffset := strconv.ParseInt(where, 10, 64); notOffset != nil {
		return offsets, nil
	}
	starts, err := admin.ListStartOffsets(ctx, topics...)
	if err != nil {
		return nil, err
	}
	ends, err := admin.ListEndOffsets(ctx, topics...)
	if err != nil {
		return nil, err
	}
	for i, o := range offsets {
		start, okStart := starts.Lookup(o.Topic, o.Partition)
		end, okEnd := ends.Lookup(o.Topic, o.Partition)
		switch at := (partitionOf{o.Topic, o.Partition}); {
		case !okStart || !okEnd || start.Err != nil || end.Err != nil:
			return nil, fmt.Errorf("%s: its offsets are not known: %w", at, cmp.Or(start.Err, end.Err, error(kerr.UnknownTopicOrPartition)))
		case o.Offset > end.Offset:
			return nil, fmt.Errorf("%s: offset %d is beyond its end, %d", at, o.Offset, end.Offset)
		}
		offsets[i].Offset = max(o.Offset, start.Offset)
	}
	return offsets, nil
}

// resolve returns the offset that a place in topics means, for every partition, in order:
// "earliest", "latest", a number, or a time.
func resolve(ctx context.Context, admin *kadm.Client, where string, topics []string) ([]kadm.ListedOffset, error) {
	var list func() (kadm.ListedOffsets, error)
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
		list = func() (kadm.ListedOffsets, error) { return admin.ListStartOffsets(ctx, topics...) }
	case where == "latest", fixed >= 0:
		list = func() (kadm.ListedOffsets, error) { return admin.ListEndOffsets(ctx, topics...) }
	case isTime:
		list = func() (kadm.ListedOffsets, error) { return admin.ListOffsetsAfterMilli(ctx, at.UnixMilli(), topics...) }
	default:
		return nil, misuse("%q: it is earliest, latest, an offset, or a time as in 2026-01-31T12:00:00Z", where)
	}
	listed, err := list()
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
	for _, o := range out {
		if o.Err != nil && o.Partition < 0 {
			return nil, fmt.Errorf("%s: %w", o.Topic, o.Err)
		}
		if o.Err != nil {
			return nil, fmt.Errorf("%s-%d: %w", o.Topic, o.Partition, o.Err)
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("topics %q: no such topics", topics)
	}
	return out, nil
}
