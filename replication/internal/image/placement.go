package image

import (
	"fmt"
	"slices"
)

// A placing asks for replicas of new partitions.
type placing struct {
	turn               int // the first partition goes to the broker whose turn it is
	partitions, factor int
	assignment         [][]int32 // what an administrator wants; nil: nothing
}

// assign returns the replicas of new partitions, the preferred leader first. The turn goes round
// the brokers that serve, from one topic to the next, so that topics with few partitions do not all
// meet on the same broker.
func (m *Image) assign(p placing) ([][]int32, error) {
	if p.assignment == nil {
		brokers := m.inTurn()
		if p.factor > len(brokers) {
			return nil, fmt.Errorf("%w: %d, with %d brokers", ErrInvalidReplicationFactor, p.factor, len(brokers))
		}
		return place(brokers, p.turn, p.partitions, p.factor), nil
	}
	if len(p.assignment) != p.partitions {
		return nil, fmt.Errorf("%w: of %d partitions, there are %d new ones", ErrInvalidAssignment, len(p.assignment), p.partitions)
	}
	all := make([][]int32, len(p.assignment))
	for i, replicas := range p.assignment {
		if err := m.assignable(replicas, p.factor); err != nil {
			return nil, err
		}
		all[i] = slices.Clone(replicas)
	}
	return all, nil
}

// assignable returns why a new partition cannot have these replicas.
func (m *Image) assignable(replicas []int32, factor int) error {
	if len(replicas) != factor {
		return fmt.Errorf("%w: %v are not %d replicas", ErrInvalidAssignment, replicas, factor)
	}
	for i, id := range replicas {
		r, known := m.Members[id]
		switch {
		case !known:
			return fmt.Errorf("%w: %w: %d", ErrInvalidAssignment, ErrUnknownBroker, id)
		case slices.Contains(replicas[:i], id):
			return fmt.Errorf("%w: broker %d is named twice in %v", ErrInvalidAssignment, id, replicas)
		case r.Fenced || r.Leaving:
			return fmt.Errorf("%w: broker %d does not serve", ErrInvalidAssignment, id)
		}
	}
	return nil
}

// inTurn returns the brokers that serve in the order in which they get partitions: the racks
// alternate, as far as they go.
func (m *Image) inTurn() []int32 {
	byRack := map[string][]int32{}
	var racks []string // in the order of their first brokers
	for _, id := range m.Serving() {
		b := m.Members[id]
		if b.Leaving {
			continue
		}
		if byRack[b.Rack] == nil {
			racks = append(racks, b.Rack)
		}
		byRack[b.Rack] = append(byRack[b.Rack], id)
	}
	var ids []int32
	for round := 0; len(racks) > 0; round++ {
		racks = slices.DeleteFunc(racks, func(rack string) bool { return len(byRack[rack]) == round })
		for _, rack := range racks {
			ids = append(ids, byRack[rack][round])
		}
	}
	return ids
}

// turnAfter returns the turn after that in which a partition was placed.
func (m *Image) turnAfter(p Partition) int {
	return slices.Index(m.inTurn(), p.Replicas[0]) + 1 // 0 if its broker does not serve
}

// place assigns replicas to as many partitions: each partition's leader is the next broker in turn,
// its followers are the brokers after that one, so that leaders and replicas are spread evenly.
// There must be at least factor brokers. It only computes.
func place(brokers []int32, turn, partitions, factor int) [][]int32 {
	all := make([][]int32, partitions)
	for i := range all {
		replicas := make([]int32, factor)
		for j := range replicas {
			replicas[j] = brokers[(turn+i+j)%len(brokers)]
		}
		all[i] = replicas
	}
	return all
}
