package replication

import (
	"iter"
	"maps"
	"slices"
)

// inOrder ranges over what there is of each broker by their ids. What is done to one disk after the
// other, and what is told of several, is so in the same order each time: a run can be repeated.
func inOrder[V any](of map[int32]V) iter.Seq2[int32, V] {
	return func(yield func(int32, V) bool) {
		for _, id := range slices.Sorted(maps.Keys(of)) {
			if v, ok := of[id]; ok && !yield(id, v) {
				return
			}
		}
	}
}

// listed returns what there is of each broker, by their ids.
func listed[V any](of map[int32]V) []V {
	all := make([]V, 0, len(of))
	for _, v := range inOrder(of) {
		all = append(all, v)
	}
	return all
}
