package group

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/stratalog/strata/record"
)

// owns is called by a client at every change of its partitions.
func (s *storm) owns(m *client, generation int32, owned []record.TopicPartition) {
	start := map[record.TopicPartition]int64{}
	for _, tp := range owned {
		start[tp] = s.find(m, tp)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if generation >= 0 && len(owned) > 0 {
		if generation < s.generations[m] {
			s.complain("%s is in generation %d after %d", m.memberID(), generation, s.generations[m])
		}
		s.generations[m] = generation
	}
	for tp, h := range s.holder {
		if h == m && !slices.Contains(owned, tp) {
			delete(s.holder, tp)
		}
	}
	if m.thawed() == nil {
		delete(s.zombies, m)
	}
	for _, tp := range owned {
		s.ownsOneLocked(m, generation, tp)
		if s.holder[tp] != m {
			s.handovers++
			s.position[m][tp] = start[tp]
		}
		s.holder[tp] = m
	}
}

// find returns the start offset of a new owner. It checks that this is not below a commit that was
// confirmed before.
func (s *storm) find(m *client, tp record.TopicPartition) int64 {
	s.mu.Lock()
	confirmed := s.committed[tp]
	s.mu.Unlock()
	got, err := m.coordinator().FetchOffsets(ctx, m.group, []record.TopicPartition{tp})
	for err != nil && s.moves != nil {
		m.find(err)
		time.Sleep(10 * time.Millisecond)
		got, err = m.coordinator().FetchOffsets(ctx, m.group, []record.TopicPartition{tp})
	}
	if err != nil {
		return 0
	}
	start := max(got[tp].Offset, 0)
	if start < confirmed {
		s.mu.Lock()
		s.complain("%v is at %d, %d was confirmed", tp, start, confirmed)
		s.mu.Unlock()
	}
	return start
}

// ownsOneLocked checks that no other member has tp, in this generation or at this moment.
func (s *storm) ownsOneLocked(m *client, generation int32, tp record.TopicPartition) {
	key := fmt.Sprintf("%d/%v", generation, tp)
	owner := cmp.Or(m.instance, m.memberID()) // a static member that returned has another id
	if other, taken := s.generation[key]; taken && other != owner {
		s.complain("generation %d: %v belongs to %s and %s", generation, tp, other, owner)
	}
	s.generation[key] = owner
	if h := s.holder[tp]; h != nil && h != m && !s.zombies[h] {
		s.complain("%v was given to %s while %s holds it", tp, m.memberID(), h.memberID())
	}
}

// works commits one more record of each of m's partitions.
func (s *storm) works(m *client) {
	generation, owned := m.state()
	for _, tp := range owned {
		s.mu.Lock()
		next, mine := s.position[m][tp]+1, s.holder[tp] == m
		s.mu.Unlock()
		r := CommitRequest{Group: m.group, MemberID: m.memberID(), InstanceID: m.instance, Generation: generation,
			Offsets: map[record.TopicPartition]record.Committed{tp: {Offset: next}}}
		s.busy.commit.Add(1)
		_, err := m.coordinator().CommitOffsets(ctx, r)
		s.busy.commit.Add(-1)
		if err != nil {
			m.find(err)
			continue
		}
		s.mu.Lock()
		if !mine {
			s.complain("%s committed %v, which another one holds", m.memberID(), tp)
		}
		if next < s.committed[tp] {
			s.complain("committed offset of %v went back from %d to %d", tp, s.committed[tp], next)
		}
		s.committed[tp] = next
		s.position[m][tp] = next
		s.mu.Unlock()
		if s.moves == nil {
			continue
		}
		if got, err := m.coordinator().FetchOffsets(ctx, m.group, []record.TopicPartition{tp}); err == nil && got[tp].Offset < next {
			s.mu.Lock()
			s.complain("%v is at %d, %d was confirmed", tp, got[tp].Offset, next)
			s.mu.Unlock()
		}
	}
}

func (s *storm) dead(m *client) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for tp, h := range s.holder {
		if h == m {
			delete(s.holder, tp)
		}
	}
}
