package controller

import "slices"

// Sets are the in-sync sets that may be in force, as one copy shows it: the last set that it shows
// to be committed, and the later sets that it names. Equal sets never follow each other.
type Sets [][]int32

// Last returns the last set that the copy names, or nil if it names none.
func (s Sets) Last() []int32 {
	if len(s) == 0 {
		return nil
	}
	return s[len(s)-1]
}

// All returns the brokers of all sets.
func (s Sets) All() []int32 {
	all := slices.Concat(s...)
	slices.Sort(all)
	return slices.Compact(all)
}

// Named returns the sets after a change that names the in-sync set, which may be the same as
// before.
func (s Sets) Named(set []int32) Sets {
	if len(set) == 0 || len(s) > 0 && Same(s.Last(), set) {
		return s
	}
	return append(s[:len(s):len(s)], set)
}

// Committed returns the sets after a change that does not name a set: its controller wrote it when
// the last named set was committed.
func (s Sets) Committed() Sets {
	if len(s) == 0 {
		return nil
	}
	return s[len(s)-1:]
}

// Known returns the sets after all reachable copies were compared. newest is the newest of them,
// whose sets s are. If every copy of the last set is equal to newest, the last set is committed.
func (s Sets) Known(newest Copy, copies []Copy) Sets {
	for _, id := range s.Last() {
		if !slices.Contains(copies, Copy{Broker: id, Epoch: newest.Epoch, End: newest.End}) {
			return s
		}
	}
	return s.Committed()
}

// Same reports whether two sets have the same brokers, in any order.
func Same(a, b []int32) bool { return len(a) == len(b) && shared(a, b) == len(a) }
