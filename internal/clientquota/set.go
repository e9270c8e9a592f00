package clientquota

import (
	"iter"
	"maps"
	"net/netip"
	"slices"
)

// A Set is the quotas of a cluster. The nil Set is empty. It is not safe for concurrent use with a
// change.
type Set struct {
	quotas map[Entity]map[Key]float64
	counts map[Key]int         // of the quotas
	hosts  map[netip.Addr]Name // address -> the name of its entity, in any notation
	size   Size
}

// A Size is the size of a Set.
type Size struct {
	Values int
	Bytes  int // of the names of entities, for each value
}

// Plus returns the sum of both.
func (s Size) Plus(values, bytes int) Size { return Size{s.Values + values, s.Bytes + bytes} }

// Clone returns a copy that may be changed.
func (s *Set) Clone() *Set {
	c := &Set{quotas: map[Entity]map[Key]float64{}, counts: map[Key]int{}, hosts: map[netip.Addr]Name{}}
	if s != nil {
		c.size = s.size
		maps.Copy(c.hosts, s.hosts)
		maps.Copy(c.counts, s.counts)
		for e, values := range s.quotas {
			c.quotas[e] = maps.Clone(values)
		}
	}
	return c
}

// Size returns the size of the set.
func (s *Set) Size() Size {
	if s == nil {
		return Size{}
	}
	return s.size
}

// Get returns a quota; ok is false if there is none.
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
	if host, ok := e.host(); ok {
		s.hosts[host] = e.IP // the last of several notations counts, as in Kafka
	}
}

// host returns the address of an entity.
func (e Entity) host() (netip.Addr, bool) {
	host, err := netip.ParseAddr(e.IP.Name)
	return host.Unmap(), err == nil
}

// Remove removes a quota, which must exist.
func (s *Set) Remove(e Entity, k Key) {
	s.size = s.size.Plus(-1, -e.TextBytes())
	if s.counts[k]--; s.counts[k] == 0 {
		delete(s.counts, k)
	}
	if delete(s.quotas[e], k); len(s.quotas[e]) == 0 {
		delete(s.quotas, e)
		if host, ok := e.host(); ok && s.hosts[host] == e.IP {
			delete(s.hosts, host)
		}
	}
}

// A Quota is one quota of a Set.
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
