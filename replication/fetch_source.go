package replication

import (
	"fmt"
	"slices"

	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/record"
)

// A source is the replica that a partition is read from.
type source struct {
	r       *replica
	epoch   int32 // leader epoch, by the metadata
	follows bool  // it is a follower's
	// near are the brokers of in-sync followers in the reader's rack, of which one may be better:
	// nil if there is none, or if the leader is in that rack.
	near []int32
}

// source returns the replica to read a partition from: the leader's or, if the request is for
// another broker, that broker's follower.
func (f *fetch) source(tp record.TopicPartition) (s source, err error) {
	c := f.c
	c.mu.RLock()
	defer c.mu.RUnlock()
	t, p, err := c.findLocked(tp)
	if err != nil {
		return s, err
	}
	s.epoch = p.LeaderEpoch
	from := p.Leader
	if f.asked != anyBroker && f.asked != p.Leader {
		from, s.follows = f.asked, true
	}
	n := c.nodes[from]
	switch {
	case s.follows && (n == nil || !slices.Contains(p.Replicas, from)):
		return s, notLedBy(tp, f.asked)
	case n == nil:
		return s, c.leaderlessLocked(tp)
	}
	if s.r = n.replica(tp); s.r == nil || s.r.id != t.ID {
		s.r = n.place(tp, t.ID) // under the lock: a deletion that comes after finds it
	}
	if f.req.Rack != "" && !s.follows && !f.req.LeaderOnly && c.cfg.ReplicaSelector == RackAwareSelector {
		s.near = inRack(c.image, &p, f.req.Rack)
	}
	return s, nil
}

// sourceIn is source of a partition of the topic that has the id, the zero id standing for any.
func (f *fetch) sourceIn(want *partition.FetchPartition) (s source, err error) {
	s, err = f.source(want.TopicPartition)
	if err == nil && s.follows && f.req.LeaderOnly { // a broker with a replica compares epochs all the same
		if err = partition.CompareEpochs(want.CurrentLeaderEpoch, s.epoch); err == nil {
			err = notLedBy(want.TopicPartition, f.asked)
		}
	}
	if err == nil && want.TopicID != [16]byte{} && want.TopicID != s.r.id {
		err = fmt.Errorf("fetch %s-%d: %w", want.Topic, want.Partition, partition.ErrInconsistentTopicID)
	}
	return s, err
}

// nearer returns the follower that the reader is better served by than by the leader; 0: none.
func (f *fetch) nearer(s *source, want *partition.FetchPartition) int32 {
	if len(s.near) == 0 {
		return 0
	}
	p, err := s.r.state()
	switch {
	case err != nil:
		return 0
	case p != nil:
		return furthest(s.near, want.Offset, p.Followers())
	case want.Offset == 0: // never written: all of them have nothing, which is all
		return slices.Min(s.near)
	}
	return 0
}

// glance returns the watermarks of a partition to a reader that is redirected from the leader to a
// follower. Kafka: a response with a preferred read replica has no records.
func (f *fetch) glance(s *source, want *partition.FetchPartition) (partition.ReadResult, error) {
	switch p, err := s.r.state(); {
	case err != nil:
		return partition.ReadResult{}, err
	case p == nil:
		return f.c.readUnwritten(want)
	default:
		return p.Glance(want.CurrentLeaderEpoch)
	}
}

// readNearer reads a partition at a follower in the reader's rack, or redirects the reader to that
// follower if it fetches from brokers itself. done is false if the leader has to serve the read.
// Then no follower can, or the best one has lost records that the leader knew of, leads by now, or
// is not running.
func (f *fetch) readNearer(s *source, want *partition.FetchPartition, at *fetchPlace, limit int) (res partition.ReadResult, to int32, done bool) {
	id := f.nearer(s, want)
	if id == 0 {
		return res, 0, false
	}
	if f.asked != anyBroker {
		res, err := f.glance(s, want)
		return res, id, err == nil
	}
	near := source{epoch: s.epoch, follows: true}
	r, err := f.c.replicaOf(want.TopicPartition, s.r.id, id)
	if err != nil || r == nil { // not there any more, or nothing written: the leader is as good
		return res, 0, false
	}
	near.r = r
	if res, err = f.readSource(&near, want, at, limit); err != nil {
		*at = fetchPlace{}
		return res, 0, false
	}
	return res, 0, true
}
