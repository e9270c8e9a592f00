// Package byid iterates over values by broker, in the order of the brokers' ids, so that a run can
// be repeated. Operations on several disks, and reports about them, have the same order each time.
package byid

import (
	"iter"
	"maps"
	"slices"
)

// Range iterates over the values by broker id. It skips brokers that are deleted meanwhile, and
// does not return brokers that are added.
func Range[V any](of map[int32]V) iter.Seq2[int32, V] {
	return func(yield func(int32, V) bool) {
		for _, id := range slices.Sorted(maps.Keys(of)) {
			if v, ok := of[id]; ok && !yield(id, v) {
				return
			}
		}
	}
}

// Values returns the values in the order of the broker ids.
func Values[V any](of map[int32]V) []V {
	all := make([]V, 0, len(of))
	for _, v := range Range(of) {
		all = append(all, v)
	}
	return all
}
