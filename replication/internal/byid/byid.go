// Package byid goes through what there is of each broker in the order of the brokers' ids. What is
// done to one disk after the other, and what is told of several, is so in the same order each time:
// a run can be repeated.
package byid

import (
	"iter"
	"maps"
	"slices"
)

// Range ranges over what there is of each broker by their ids. What is deleted meanwhile is left
// out, what is added is not seen.
func Range[V any](of map[int32]V) iter.Seq2[int32, V] {
	return func(yield func(int32, V) bool) {
		for _, id := range slices.Sorted(maps.Keys(of)) {
			if v, ok := of[id]; ok && !yield(id, v) {
				return
			}
		}
	}
}

// Values returns what there is of each broker, by their ids.
func Values[V any](of map[int32]V) []V {
	all := make([]V, 0, len(of))
	for _, v := range Range(of) {
		all = append(all, v)
	}
	return all
}
