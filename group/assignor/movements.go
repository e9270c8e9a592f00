package assignor

import "slices"

// movements records the moves of partitions between members, so that two partitions of a topic do
// not move in opposite directions. If p should move from a to b after q moved from b to a, q moves
// back instead (Kafka: PartitionMovements).
type movements struct {
	topicOf []int
	last    map[int]route        // by partition: its first owner and its present owner
	byRoute map[movement]([]int) // partitions that moved along a route
}

type route struct{ from, to int }

type movement struct {
	topic int
	route
}

func newMovements(topicOf []int) movements {
	return movements{topicOf: topicOf, last: make(map[int]route), byRoute: make(map[movement][]int)}
}

// instead returns the partition to move if p should move between two members: p, or a partition
// that moved in the opposite direction.
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
