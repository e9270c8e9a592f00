package sharing

import (
	"bytes"
	"cmp"
	"maps"
	"slices"

	"github.com/stratalog/strata/internal/offsets"
)

// AssignorName is the name of the only assignor. Kafka: SimpleAssignor.
const AssignorName = "simple"

// A partition names a partition by its topic's id.
type partition struct {
	topic  [16]byte
	number int32
}

func comparePartitions(a, b partition) int {
	return cmp.Or(bytes.Compare(a.topic[:], b.topic[:]), cmp.Compare(a.number, b.number))
}

// partitionsOf reads partitions of a record, sorted, each once.
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

// assign computes the target of each member. ready has the assignable partitions by topic name, old
// the present target by member id. Members with the same subscription share its partitions among
// themselves. Each partition has at least one of them, and each of them has at least one partition.
// No partition has more members than that requires. Members keep partitions of their present target
// as far as these rules allow.
func assign(members map[string]*member, ready map[string][]partition, old map[string][]partition) map[string][]partition {
	out := make(map[string][]partition, len(members))
	alike := make(map[string][]string) // member ids, sorted, by subscription
	for _, id := range slices.Sorted(maps.Keys(members)) {
		k := ""
		for _, t := range members[id].Topics {
			k += t + "\x00"
		}
		alike[k] = append(alike[k], id)
	}
	for _, k := range slices.Sorted(maps.Keys(alike)) {
		var all []partition
		for _, t := range members[alike[k][0]].Topics {
			all = append(all, ready[t]...)
		}
		slices.SortFunc(all, comparePartitions)
		shareOut(alike[k], all, old, out)
	}
	return out
}

// shareOut assigns the partitions in all to members with the same subscription.
func shareOut(ids []string, all []partition, old, out map[string][]partition) {
	if len(all) == 0 {
		return
	}
	s := sharing{out: out, need: make(map[string]int, len(ids)), of: make(map[partition][]string, len(all))}
	each := (len(ids) + len(all) - 1) / len(all) // members of a partition, at most
	total := each * len(all)
	for i, id := range ids {
		s.need[id] = total*(i+1)/len(ids) - total*i/len(ids)
	}
	for _, id := range ids {
		for _, p := range old[id] {
			if _, ok := slices.BinarySearchFunc(all, p, comparePartitions); ok && s.need[id] > 0 && len(s.of[p]) < each {
				s.give(p, id)
			}
		}
	}
	for _, p := range all {
		for len(s.of[p]) < each && s.giveTo(p, ids) {
		}
	}
	for _, id := range ids {
		if len(out[id]) == 0 { // members that keep theirs left no partition for it
			s.give(slices.MinFunc(all, func(a, b partition) int { return cmp.Compare(len(s.of[a]), len(s.of[b])) }), id)
		}
		slices.SortFunc(out[id], comparePartitions)
	}
}

// sharing is the progress of shareOut.
type sharing struct {
	out  map[string][]partition
	need map[string]int // number of further partitions for a member
	of   map[partition][]string
}

func (s *sharing) give(p partition, id string) {
	s.out[id] = append(s.out[id], p)
	s.of[p] = append(s.of[p], id)
	s.need[id]--
}

// giveTo gives p to the member with the highest need, and reports whether it did. If p has no
// member yet, any member will do, even one without need.
func (s *sharing) giveTo(p partition, ids []string) bool {
	best := ""
	for _, id := range ids {
		if !slices.Contains(s.of[p], id) && (best == "" || s.need[id] > s.need[best]) {
			best = id
		}
	}
	if best == "" || s.need[best] <= 0 && len(s.of[p]) > 0 {
		return false
	}
	s.give(p, best)
	return true
}
