package controller

import "slices"

// Sets are the in-sync sets that may be in force as far as one copy can tell: the last one that it
// knows to be committed, and those that it names behind that. No other follows the same twice.
type Sets [][]int32

// Last returns the set that the copy names last, nil if it names none.
func (s Sets) Last() []int32 {
	if len(s) == 0 {
		return nil
	}
	return s[len(s)-1]
}

// All returns the brokers of all of them.
func (s Sets) All() []int32 {
	all := slices.Concat(s...)
	slices.Sort(all)
	return slices.Compact(all)
}

// Named returns the sets after a change that says which copies are in sync, be it the same as
// before.
func (s Sets) Named(set []int32) Sets {
	if len(set) == 0 || len(s) > 0 && Same(s.Last(), set) {
		return s
	}
	return append(s[:len(s):len(s)], set)
}

// Committed returns the sets after a change that does not say it: its controller wrote it when the
// set that is named last was committed.
func (s Sets) Committed() Sets {
	if len(s) == 0 {
		return nil
	}
	return s[len(s)-1:]
}

// Known returns the sets after a look at all copies that can be reached. The newest has them. If
// each copy of the last set is equal to it the last one is committed.
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
