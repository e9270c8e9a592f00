package image

import (
	"fmt"
	"maps"
	"slices"
)

// A placing is a request for replicas of new partitions.
type placing struct {
	turn               int // index in inTurn of the first partition's first replica
	partitions, factor int
	assignment         [][]int32 // the administrator's choice, by partition; nil means none
}

// assign returns the replicas of new partitions, the preferred leader first. Each partition has at
// least one replica on a serving broker. The turn continues from one topic to the next, so that
// topics with few partitions do not all start on the same broker.
//
// As in Kafka, brokers that do not serve count for the factor, and never come first. Unlike in
// Kafka, they get replicas only if there are too few serving brokers: Kafka's placer prefers
// another rack to a serving broker.
func (m *Image) assign(p placing) ([][]int32, error) {
	if p.assignment == nil {
		brokers := m.inTurn(m.acceptable)
		away := m.inTurn(m.refuses)
		if p.factor > len(brokers)+len(away) || len(brokers) == 0 {
			return nil, fmt.Errorf("%w: %d, with %d brokers", ErrInvalidReplicationFactor, p.factor, len(brokers)+len(away))
		}
		return m.place(brokers, away, p), nil
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

// assignable returns an error if a new partition cannot have these replicas. As in Kafka, only one
// of their brokers has to serve.
func (m *Image) assignable(replicas []int32, factor int) error {
	if len(replicas) != factor || factor < 1 {
		return fmt.Errorf("%w: %v are not %d replicas", ErrInvalidAssignment, replicas, factor)
	}
	for i, id := range replicas {
		_, known := m.Members[id]
		switch {
		case !known:
			return fmt.Errorf("%w: %w: %d", ErrInvalidAssignment, ErrUnknownBroker, id)
		case slices.Contains(replicas[:i], id):
			return fmt.Errorf("%w: broker %d is named twice in %v", ErrInvalidAssignment, id, replicas)
		}
	}
	if !slices.ContainsFunc(replicas, m.acceptable) {
		return fmt.Errorf("%w: none of the brokers %v serves", ErrInvalidAssignment, replicas)
	}
	return nil
}

// inTurn returns brokers in the order in which they get partitions. Racks alternate as long as
// they have brokers.
func (m *Image) inTurn(which func(int32) bool) []int32 {
	byRack := map[string][]int32{}
	var racks []string // in the order of their first brokers
	for _, id := range slices.Sorted(maps.Keys(m.Members)) {
		if !which(id) {
			continue
		}
		rack := m.Members[id].Rack
		if byRack[rack] == nil {
			racks = append(racks, rack)
		}
		byRack[rack] = append(byRack[rack], id)
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

// turnAfter returns the turn after the one in which a partition was placed.
func (m *Image) turnAfter(p Partition) int {
	return slices.Index(m.inTurn(m.acceptable), p.Replicas[0]) + 1 // 0 if its broker does not serve
}

// place returns the replicas of new partitions. The first replica of each is on the next broker in
// turn, the others are in racks with the fewest of its replicas so far. The followers of one
// broker differ from round to round, so that its partitions are spread over several brokers when
// it fails.
func (m *Image) place(brokers, away []int32, p placing) [][]int32 {
	all := make([][]int32, p.partitions)
	n := len(brokers)
	for i := range all {
		at := (p.turn + i) % n
		replicas := append(make([]int32, 0, p.factor), brokers[at])
		if all[i] = replicas; p.factor == 1 {
			continue
		}
		others := slices.Concat(brokers[at+1:], brokers[:at])
		if n > 2 {
			shift := (p.turn + i) / n % (n - 1)
			others = slices.Concat(others[shift:], others[:shift])
		}
		replicas = m.pick(replicas, others, p.factor)
		all[i] = m.pick(replicas, slices.Clone(away), p.factor)
	}
	return all
}

// pick appends brokers to replicas, up to factor: each time the first broker in a rack with the
// fewest replicas. It modifies brokers.
func (m *Image) pick(replicas, brokers []int32, factor int) []int32 {
	for len(replicas) < factor && len(brokers) > 0 {
		best, fewest := 0, len(replicas)+1
		for i, id := range brokers {
			same := 0
			for _, r := range replicas {
				if m.Members[r].Rack == m.Members[id].Rack {
					same++
				}
			}
			if same < fewest {
				best, fewest = i, same
			}
		}
		replicas = append(replicas, brokers[best])
		brokers = slices.Delete(brokers, best, best+1)
	}
	return replicas
}
