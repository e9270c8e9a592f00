package assignor

import "slices"

// movements remembers which partitions moved from whom to whom, so that two partitions of a topic
// are not moved in opposite directions: rather than moving p from a to b when q went from b to a, q
// is moved back (Kafka: PartitionMovements).
type movements struct {
	topicOf []int
	last    map[int]route        // by partition: where it was at the start, where it is
	byRoute map[movement]([]int) // partitions that took a route
}

type route struct{ from, to int }

type movement struct {
	topic int
	route
}

func newMovements(topicOf []int) movements {
	return movements{topicOf: topicOf, last: make(map[int]route), byRoute: make(map[movement][]int)}
}

// instead returns the partition to move from one member to the other when p should be: p, or one
// that came the opposite way.
func (m *movements) instead(p, from, to int) int {
	if r, ok := m.last[p]; ok {
		from = r.from
	}
	if back := m.byRoute[movement{m.topicOf[p], route{to, from}}]; len(back) > 0 {
		return back[0]
	}
	return p
}

func (m *movements) moved(p, from, to int) {
	if r, ok := m.last[p]; ok {
		key := movement{m.topicOf[p], r}
		m.byRoute[key] = slices.DeleteFunc(m.byRoute[key], func(x int) bool { return x == p })
		delete(m.last, p)
		from = r.from
	}
	if from != to {
		m.last[p] = route{from, to}
		key := movement{m.topicOf[p], route{from, to}}
		m.byRoute[key] = append(m.byRoute[key], p)
	}
}
