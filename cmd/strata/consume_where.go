package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// stretches are the offset ranges to read, ordered by partition.
type stretches []stretch

// A stretch is the offset range [from, to) to read of a partition that has [start, end).
type stretch struct {
	partitionOf
	start, end int64
	from, to   int64
}

// locate returns the offset ranges of topics that o selects.
func locate(ctx context.Context, admin *kadm.Client, o consumeOptions, topics []string) (stretches, error) {
	froms, err := resolve(ctx, admin, o.from, topics)
	if err != nil {
		return nil, err
	}
	starts, err := listAll(ctx, admin.ListStartOffsets, topics)
	if err != nil {
		return nil, err
	}
	listEnds := admin.ListEndOffsets
	if o.isolation == "committed" {
		listEnds = admin.ListCommittedOffsets // records from the last stable offset on cannot be read yet
	}
	ends, err := listAll(ctx, listEnds, topics)
	if err != nil {
		return nil, err
	}
	tos := map[partitionOf]int64{}
	if o.to != "" {
		listed, err := resolve(ctx, admin, o.to, topics)
		if err != nil {
			return nil, err
		}
		for _, t := range listed {
			tos[partitionOf{t.Topic, t.Partition}] = t.Offset
		}
	}
	var out stretches
	for _, f := range froms {
		at := partitionOf{f.Topic, f.Partition}
		start, okStart := starts.Lookup(f.Topic, f.Partition)
		end, okEnd := ends.Lookup(f.Topic, f.Partition)
		if !okStart || !okEnd || o.partition >= 0 && o.partition != f.Partition {
			continue
		}
		s := stretch{partitionOf: at, start: start.Offset, end: end.Offset, from: f.Offset, to: end.Offset}
		if o.last > 0 {
			s.from = max(end.Offset-o.last, start.Offset)
		}
		if to, ok := tos[at]; ok {
			s.to = min(s.to, to)
		}
		out = append(out, s)
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%s: no partition %d", topics[0], o.partition)
	}
	return out, nil
}

// clamp limits each range to its partition, and reports each change on standard error. It returns
// an error if all ranges begin beyond the ends of their partitions. The end itself, the next
// record's offset, is not beyond.
func (ss stretches) clamp(o consumeOptions, say func(string, ...any)) error {
	beyond := func(s stretch) bool { return s.from > s.end }
	if !slices.ContainsFunc(ss, func(s stretch) bool { return !beyond(s) }) {
		s := ss[0]
		return fmt.Errorf("--from %s: %s has offsets %d to %d", o.from, s, s.start, s.end-1)
	}
	for i := range ss {
		s := &ss[i]
		switch {
		case beyond(*s) && o.follow:
			say("%s ends at %d: reading from there", s, s.end)
			s.from = s.end
		case beyond(*s):
			say("%s ends at %d: skipped", s, s.end)
			s.from, s.to = s.end, s.end
		case s.from < s.start:
			say("%s begins at %d: earlier records are deleted", s, s.start)
			s.from = s.start
		}
	}
	return nil
}

// left returns the end of each partition that has records to read.
func (ss stretches) left() map[partitionOf]int64 {
	out := map[partitionOf]int64{}
	for _, s := range ss {
		if s.from < s.to {
			out[s.partitionOf] = s.to
		}
	}
	return out
}

func (ss stretches) offsets() map[string]map[int32]kgo.Offset {
	out := map[string]map[int32]kgo.Offset{}
	for _, s := range ss {
		if out[s.topic] == nil {
			out[s.topic] = map[int32]kgo.Offset{}
		}
		out[s.topic][s.partition] = kgo.NewOffset().At(s.from)
	}
	return out
}

// groupStart returns the offset where a group without a committed offset begins.
func groupStart(from string) kgo.Offset {
	if from == "latest" {
		return kgo.NewOffset().AtEnd()
	}
	if at, ok, _ := timeOf(from); ok {
		return kgo.NewOffset().AfterMilli(at.UnixMilli())
	}
	if n, err := strconv.ParseInt(from, 10, 64); err == nil {
		return kgo.NewOffset().At(n)
	}
	return kgo.NewOffset().AtStart()
}
