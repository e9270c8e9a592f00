package modern

import (
	"bytes"
	"cmp"
	"slices"

	"github.com/stratalog/strata/internal/offsets"
)

// A partition names a partition by its topic's id.
type partition struct {
	topic  [16]byte
	number int32
}

func comparePartitions(a, b partition) int {
	return cmp.Or(bytes.Compare(a.topic[:], b.topic[:]), cmp.Compare(a.number, b.number))
}

// A held is a partition with the epoch in which the member got it (KIP-1251). Commits of that epoch
// or a later one are valid.
type held struct {
	partition
	epoch int32
}

func compareHeld(a, b held) int { return comparePartitions(a.partition, b.partition) }

// has reports whether sorted hs have p.
func has(hs []held, p partition) (held, bool) {
	i, ok := slices.BinarySearchFunc(hs, p, func(h held, p partition) int { return comparePartitions(h.partition, p) })
	if !ok {
		return held{}, false
	}
	return hs[i], true
}

// contains reports whether sorted ps have p.
func contains(ps []partition, p partition) bool {
	_, ok := slices.BinarySearchFunc(ps, p, comparePartitions)
	return ok
}

// samePartitions reports whether both have the same partitions.
func samePartitions(a, b []held) bool {
	return slices.EqualFunc(a, b, func(x, y held) bool { return x.partition == y.partition })
}

// partitionsOf reads partitions of a record or request, sorted, each once.
func partitionsOf(ts []offsets.TopicIDPartitions) []partition {
	var out []partition
	for _, t := range ts {
		for _, n := range t.Partitions {
			out = append(out, partition{t.TopicID, n})
		}
	}
	slices.SortFunc(out, comparePartitions)
	return slices.Compact(out)
}

// heldOf is partitionsOf for records whose partitions may have epochs; fallback is the default.
func heldOf(ts []offsets.TopicIDPartitions, fallback int32) []held {
	var out []held
	for _, t := range ts {
		for i, n := range t.Partitions {
			h := held{partition{t.TopicID, n}, fallback}
			if i < len(t.Epochs) {
				h.epoch = t.Epochs[i]
			}
			out = append(out, h)
		}
	}
	slices.SortFunc(out, compareHeld)
	return slices.CompactFunc(out, func(a, b held) bool { return a.partition == b.partition })
}

// byTopic is the reverse of partitionsOf.
func byTopic(ps []partition) []offsets.TopicIDPartitions {
	out := []offsets.TopicIDPartitions{}
	for _, p := range ps {
		if n := len(out); n == 0 || out[n-1].TopicID != p.topic {
			out = append(out, offsets.TopicIDPartitions{TopicID: p.topic})
		}
		last := &out[len(out)-1]
		last.Partitions = append(last.Partitions, p.number)
	}
	return out
}

// heldByTopic is the reverse of heldOf.
func heldByTopic(hs []held) []offsets.TopicIDPartitions {
	out := byTopic(plain(hs))
	i := 0
	for t := range out {
		for range out[t].Partitions {
			out[t].Epochs = append(out[t].Epochs, hs[i].epoch)
			i++
		}
	}
	return out
}

// plain returns the partitions of hs.
func plain(hs []held) []partition {
	out := make([]partition, 0, len(hs))
	for _, h := range hs {
		out = append(out, h.partition)
	}
	return out
}
