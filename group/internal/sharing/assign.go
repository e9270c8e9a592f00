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

// assign shares partitions, given by topic's name, out to members that subscribe to them: each
// partition is at least one member's, each member has at least one, if it subscribes to any, and no
// more members than needed for that have the same. Members keep what they were meant to have as far
// as that allows. Members with the same subscription share its topics among themselves.
func assign(members map[string]*member, ready map[string][]partition, old map[string][]partition) map[string][]partition {
	out := make(map[string][]partition, len(members))
	alike := make(map[string][]string) // ids, sorted, by subscription
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

// shareOut shares all out to members of the same subscription.
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
		if len(out[id]) == 0 { // those who keep what they had have left it nothing
			s.give(slices.MinFunc(all, func(a, b partition) int { return cmp.Compare(len(s.of[a]), len(s.of[b])) }), id)
		}
		slices.SortFunc(out[id], comparePartitions)
	}
}

// sharing is what shareOut has given to whom.
type sharing struct {
	out  map[string][]partition
	need map[string]int // how many more a member is to get
	of   map[partition][]string
}

func (s *sharing) give(p partition, id string) {
	s.out[id] = append(s.out[id], p)
	s.of[p] = append(s.of[p], id)
	s.need[id]--
}

// giveTo gives p to the member that needs most, if it is nobody's to anyone, and reports whether it
// has.
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
