package clientquota

import (
	"iter"
	"maps"
	"slices"
)

// A Set is the quotas of a cluster. The nil Set has none. It is not safe for concurrent use while it
// is changed.
type Set struct {
	quotas map[Entity]map[Key]float64
	counts map[Key]int // of the quotas
	size   Size
}

// A Size is how much a Set holds.
type Size struct {
	Values int
	Bytes  int // of the names of entities, for each value
}

// Plus returns the sum of both.
func (s Size) Plus(values, bytes int) Size { return Size{s.Values + values, s.Bytes + bytes} }

// Clone returns a copy that may be changed.
func (s *Set) Clone() *Set {
	c := &Set{quotas: map[Entity]map[Key]float64{}, counts: map[Key]int{}}
	if s != nil {
		c.size = s.size
		maps.Copy(c.counts, s.counts)
		for e, values := range s.quotas {
			c.quotas[e] = maps.Clone(values)
		}
	}
	return c
}

// Size returns how much the set holds.
func (s *Set) Size() Size {
	if s == nil {
		return Size{}
	}
	return s.size
}

// Get returns a quota; false: there is none.
func (s *Set) Get(e Entity, k Key) (float64, bool) {
	if s == nil {
		return 0, false
	}
	v, ok := s.quotas[e][k]
	return v, ok
}

// Put sets a quota.
func (s *Set) Put(e Entity, k Key, v float64) {
	if s.quotas[e] == nil {
		s.quotas[e] = map[Key]float64{}
	}
	if _, ok := s.quotas[e][k]; !ok {
		s.size = s.size.Plus(1, e.TextBytes())
		s.counts[k]++
	}
	s.quotas[e][k] = v
}

// Remove takes a quota away, which must be there.
func (s *Set) Remove(e Entity, k Key) {
	s.size = s.size.Plus(-1, -e.TextBytes())
	if s.counts[k]--; s.counts[k] == 0 {
		delete(s.counts, k)
	}
	if delete(s.quotas[e], k); len(s.quotas[e]) == 0 {
		delete(s.quotas, e)
	}
}

// A Quota is one of a Set.
type Quota struct {
	Entity Entity
	Key    Key
	Value  float64
}

// All yields the quotas by entity and key.
func (s *Set) All() iter.Seq[Quota] {
	return func(yield func(Quota) bool) {
		if s == nil {
			return
		}
		for _, e := range slices.SortedFunc(maps.Keys(s.quotas), Entity.Compare) {
			for _, k := range slices.Sorted(maps.Keys(s.quotas[e])) {
				if !yield(Quota{e, k, s.quotas[e][k]}) {
					return
				}
			}
		}
	}
}
