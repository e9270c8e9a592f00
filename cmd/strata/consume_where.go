package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// stretches are the partitions to read, in order, and which part of each.
type stretches []stretch

// A stretch is what is read of a partition: [from, to) of what it has, [start, end).
type stretch struct {
	partitionOf
	start, end int64
	from, to   int64
}

// locate returns what o wants of topics.
func locate(ctx context.Context, admin *kadm.Client, o consumeOptions, topics []string) (stretches, error) {
	froms, err := resolve(ctx, admin, o.from, topics)
	if err != nil {
		return nil, err
	}
	starts, err := admin.ListStartOffsets(ctx, topics...)
	if err != nil {
		return nil, err
	}
	listEnds := admin.ListEndOffsets
	if o.isolation == "committed" {
		listEnds = admin.ListCommittedOffsets // what is behind the last stable offset cannot be read yet
	}
	ends, err := listEnds(ctx, topics...)
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

// clamp moves what begins outside of its partition into it, and tells so; it is an error if all
// begin behind their partitions' ends. The end itself is the next record's offset: it is inside.
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
			say("%s ends at %d: read from there", s, s.end)
			s.from = s.end
		case beyond(*s):
			say("%s ends at %d: passed over", s, s.end)
			s.from, s.to = s.end, s.end
		case s.from < s.start:
			say("%s begins at %d: the records before it are gone", s, s.start)
			s.from = s.start
		}
	}
	return nil
}

// left returns the end of each partition that has something to be read.
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

// groupStart is where a group begins that has nothing committed.
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
