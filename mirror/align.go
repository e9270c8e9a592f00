package mirror

import (
	"context"
	"fmt"
	"hash/fnv"

	"github.com/stratalog/strata/consumer"
	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/record"
)

// An entry is a record of a compacted partition without its bytes.
type entry struct {
	sum       uint64 // fingerprint
	key       uint64 // hash
	keyed     bool   // has a key
	tombstone bool
}

func entryOf(r *record.Record) entry {
	h := fnv.New64a()
	h.Write(r.Key)
	return entry{sum: fingerprint(r), key: h.Sum64(), keyed: r.Key != nil, tombstone: r.Value == nil}
}

// isCompacted reports whether compaction may have removed records of a topic at either cluster.
func (f *Forward) isCompacted(ctx context.Context, fl *flow) (bool, error) {
	from, err := f.source.Topic(ctx, fl.source)
	if err != nil {
		return false, fmt.Errorf("source: %w", err)
	}
	to, err := f.target.Topic(ctx, fl.target)
	if err != nil {
		return false, fmt.Errorf("target: %w", err)
	}
	return from.Settings.Compacted() || to.Settings.Compacted(), nil
}

// translateCompacted is translate for a compacted topic. It returns the offset at the target of the
// first record from an offset of the source on that both clusters have.
func (f *Forward) translateCompacted(ctx context.Context, fl *flow, p int32, from int64) (int64, error) {
	tooFar := fmt.Errorf("mirror %q: %s-%d at offset %d: %w", f.cfg.ID, fl.source, p, from, ErrTooFarBehind)
	var want []entry
	for r, err := range f.readSource(ctx, fl, p, from, partition.ReadCommitted) {
		if err != nil {
			return 0, err
		}
		if want = append(want, entryOf(&r)); len(want) > MaxTranslated {
			return 0, tooFar
		}
	}
	tp := record.TopicPartition{Topic: fl.target, Partition: p}
	if err := f.awaitStable(ctx, tp); err != nil {
		return 0, err
	}
	end, err := offsetOf(ctx, f.target, tp, partition.Latest, partition.ReadCommitted)
	if err != nil || len(want) == 0 {
		return end, err
	}
	var have []entry
	var at []int64 // offsets of have
	for r, err := range consumer.Read(ctx, f.target, consumer.ReadConfig{Topic: fl.target, Partitions: []int32{p}, Last: MaxTranslated}) {
		if err != nil {
			return 0, err
		}
		have, at = append(have, entryOf(&r)), append(at, r.Offset)
	}
	first, ok := align(want, have)
	switch {
	case !ok && len(have) == MaxTranslated:
		return 0, tooFar
	case !ok:
		return 0, f.stop(fl.target, p, -1, ErrDiffers)
	case first == len(have):
		return end, nil
	}
	return at[first], nil
}

// align compares the ends of two copies of one log, from both of which compaction may have removed
// records. It returns the index in have of the first record of want that is in both, len(have) if
// there is none. ok is false if the logs differ in more than compaction removes: tombstones, and
// records with a later one of their key.
func align(want, have []entry) (first int, ok bool) {
	places := map[entry][]int{} // of equal records in have, ascending
	for i, e := range have {
		places[e] = append(places[e], i)
	}
	later := map[uint64]bool{} // keys of the records from want[i+1] and have[first] on
	removable := func(e entry) bool { return e.tombstone || e.keyed && later[e.key] }
	// match reports whether have[at] may be want[i]: all records from there to first are removable.
	match := func(at int) bool {
		between := map[uint64]bool{}
		for k := first - 1; k > at; k-- {
			if !removable(have[k]) && !between[have[k].key] {
				return false
			}
			between[have[k].key] = true
		}
		return true
	}
	first = len(have)
	for i := len(want) - 1; i >= 0; i-- {
		equal := places[want[i]]
		for len(equal) > 0 && equal[len(equal)-1] >= first {
			equal = equal[:len(equal)-1]
		}
		places[want[i]] = equal
		switch {
		case len(equal) > 0 && match(equal[len(equal)-1]):
			next := equal[len(equal)-1]
			for _, passed := range have[next:first] {
				later[passed.key] = true
			}
			first = next
		case !removable(want[i]):
			return 0, false
		}
		later[want[i].key] = true
	}
	return first, true
}
