package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
)

// timeOf returns the time that a place is; false: it is none. One before 1970 is an error: on the wire
// those numbers are other places, -1 the end.
func timeOf(where string) (at time.Time, ok bool, err error) {
	at, notTime := time.Parse(time.RFC3339, where)
	if notTime == nil && at.UnixMilli() < 0 {
		err = misuse("%q: records have no times before 1970", where)
	}
	return at, notTime == nil, err
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
		return nil, err
	}
	if err := listed.Error(); err != nil {
		return nil, fmt.Errorf("offsets: %w", err)
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
