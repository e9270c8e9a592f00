package producer

import (
	"iter"
	"maps"
	"sync/atomic"
)

// newTopics is the number of topics added between two copies of the whole table.
const newTopics = 64

// A topicTable has the topics of records sent so far, by name. It is read for every record, without
// locks or allocations. Topics are never removed.
type topicTable struct {
	now atomic.Pointer[topicMaps] // nil: none. Replaced under Producer.mu
}

// topicMaps are the topics at one moment. They are immutable: adding a topic copies the small map,
// and both maps once the small one is full, so that the cost for many topics is not quadratic.
type topicMaps struct {
	most, latest map[string]*topicParts // no topic is in both
}

// get returns a topic, nil if it is new.
func (tt *topicTable) get(name string) *topicParts {
	m := tt.now.Load()
	if m == nil {
		return nil
	}
	if t := m.most[name]; t != nil {
		return t
	}
	return m.latest[name]
}

// addLocked adds a topic that is not there. The caller holds Producer.mu.
func (tt *topicTable) addLocked(t *topicParts) {
	var next topicMaps
	if m := tt.now.Load(); m != nil {
		next = *m
	}
	if len(next.latest) == newTopics {
		most := make(map[string]*topicParts, len(next.most)+len(next.latest))
		maps.Copy(most, next.most)
		maps.Copy(most, next.latest)
		next = topicMaps{most: most}
	}
	latest := make(map[string]*topicParts, len(next.latest)+1)
	maps.Copy(latest, next.latest)
	latest[t.name] = t
	next.latest = latest
	tt.now.Store(&next)
}

// all yields the present topics, in any order.
func (tt *topicTable) all() iter.Seq[*topicParts] {
	m := tt.now.Load()
	return func(yield func(*topicParts) bool) {
		if m == nil {
			return
		}
		for _, topics := range []map[string]*topicParts{m.most, m.latest} {
			for _, t := range topics {
				if !yield(t) {
					return
				}
			}
		}
	}
}

// names returns the names of all topics.
func (tt *topicTable) names() (names []string) {
	for t := range tt.all() {
		names = append(names, t.name)
	}
	return names
}

// count returns the number of topics.
func (tt *topicTable) count() int {
	m := tt.now.Load()
	if m == nil {
		return 0
	}
	return len(m.most) + len(m.latest)
}
