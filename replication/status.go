package replication

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/record"
)

// Status is the state of one partition: what the metadata says of it, and what its replicas have.
type Status struct {
	Leader         int32 // -1: none, or there is no such partition
	LeaderEpoch    int32
	PartitionEpoch int32 // grows with every change of the partition's metadata
	Replicas, ISR  []int32
	// Eligible may lead if nobody is in sync, and LastKnown is who led last then, if nobody else
	// may (KIP-966: ELR). nil: nobody.
	Eligible, LastKnown []int32
	// The leader's, 0 if nobody leads. Records below HighWatermark can be read.
	LogStartOffset, HighWatermark, LogEndOffset int64

	Copies []ReplicaStatus // in the order of Replicas
	Ends   map[int32]int64 // log end offset by replica, of those whose broker serves
	Err    error           // why the partition is offline, ErrNotLeader if its broker does not serve, ErrUnknownTopic or ErrClosed
}

// A ReplicaStatus is the state of one replica as it is, not as its leader has heard it last.
type ReplicaStatus struct {
	Broker                       int32
	InSync                       bool
	LogStartOffset, LogEndOffset int64
	HighWatermark                int64 // that the replica knows: a follower's is at most its leader's
	DurableOffset                int64 // everything below is on stable storage
	SizeBytes                    int64 // of all batches held
	Lag                          int64 // offsets that it is behind its leader; -1: nobody leads, or Err
	// CaughtUp is the latest instant known at which its leader had nothing that the replica has not
	// got by now, on stable storage under SyncOnAck. Zero: none is known in this leader epoch, it
	// is the leader, nobody leads, or nothing was ever written. A follower leaves the in-sync set
	// when it is older than replica.lag.time.max.ms.
	CaughtUp time.Time
	Err      error // ErrBrokerDown, or why it is offline; the offsets are -1 then
}

// Status returns the state of a partition. Its parts are of about the same moment; offsets move on
// while it is made. It does not block.
func (c *Cluster) Status(topic string, p int32) Status {
	tp := record.TopicPartition{Topic: topic, Partition: p}
	t, meta, err := c.find(tp)
	if err != nil {
		return Status{Leader: -1, LeaderEpoch: -1, PartitionEpoch: -1, Err: err}
	}
	st := meta.State()
	s := Status{
		Leader: meta.Leader, LeaderEpoch: meta.LeaderEpoch, PartitionEpoch: meta.PartitionEpoch,
		Replicas: slices.Clone(meta.Replicas), ISR: slices.Clone(meta.ISR), Eligible: slices.Clone(st.Eligible), LastKnown: slices.Clone(st.LastKnown),
		Copies: make([]ReplicaStatus, len(meta.Replicas)), Ends: map[int32]int64{},
	}
	var known []partition.FollowerState
	for i, id := range meta.Replicas {
		r, err := c.replicaOf(tp, t.ID, id)
		copied, part := replicaStatus(r, err)
		copied.Broker, copied.InSync = id, slices.Contains(meta.ISR, id)
		s.Copies[i] = copied
		if copied.Err == nil {
			s.Ends[id] = copied.LogEndOffset
		}
		if id == meta.Leader || meta.Leader < 0 {
			if s.Err = copied.Err; err != nil {
				s.Err = err
			}
		}
		if id == meta.Leader && copied.Err == nil {
			s.LogStartOffset, s.HighWatermark, s.LogEndOffset = copied.LogStartOffset, copied.HighWatermark, copied.LogEndOffset
			if part != nil {
				known = part.Followers()
			}
		}
	}
	s.compare(known)
	return s
}

// replicaStatus returns what a replica has, and the partition if it is open. err is why there is
// none; a nil replica was never written.
func replicaStatus(r *replica, err error) (ReplicaStatus, *partition.Partition) {
	gone := ReplicaStatus{LogStartOffset: -1, LogEndOffset: -1, HighWatermark: -1, DurableOffset: -1, Lag: -1}
	if err != nil {
		gone.Err = ErrBrokerDown
		return gone, nil
	}
	var part *partition.Partition
	if r != nil {
		if part, err = r.state(); part == nil && err != nil {
			gone.Err = err
			return gone, nil
		}
	}
	if part == nil {
		return ReplicaStatus{}, nil
	}
	st := part.Stats()
	return ReplicaStatus{
		LogStartOffset: st.LogStartOffset, LogEndOffset: st.LogEndOffset, HighWatermark: st.HighWatermark, DurableOffset: st.DurableOffset,
		SizeBytes: st.SizeBytes,
	}, part
}

// compare fills in how far replicas are behind their leader, of whom known is what it knows.
func (s *Status) compare(known []partition.FollowerState) {
	leads := s.Leader >= 0 && s.Ends[s.Leader] >= 0 && s.Err == nil
	for i := range s.Copies {
		r := &s.Copies[i]
		if r.Err != nil || !leads {
			r.Lag = -1
			continue
		}
		r.Lag = max(s.LogEndOffset-r.LogEndOffset, 0)
		for _, k := range known {
			if k.Broker == r.Broker {
				r.CaughtUp = k.CaughtUp
			}
		}
	}
}

// counters are the running totals behind Stats.
type counters struct{ produces, fetches, uncleanElections, recordsLost, followerReads atomic.Int64 }

// Stats are figures of a cluster since it was opened.
type Stats struct {
	MetadataVersion    int64
	ControllerEpoch    int32
	Topics, Partitions int
	OpenPartitions     int   // those that have files
	OfflinePartitions  int   // those that could not be opened
	ProduceRequests    int64 // batches handed in
	FetchRequests      int64
	// FollowerReads are partitions that were read at a follower, once for each fetch.
	FollowerReads int64
	MetadataWaits int // calls waiting in WaitMetadata
	// UncleanElections are leaders that may lack records that were acknowledged: somebody asked for
	// them, a topic allows them, or what was acknowledged was not on stable storage anywhere.
	UncleanElections int64
	// RecordsLost are offsets below the high watermark that a replica knew, and that it has cut
	// off, because an unclean leader did not have them. Those from before its broker was started
	// count as far as the high watermark was saved (Config.HighWatermarkInterval).
	RecordsLost int64
}

// Stats returns the present figures. It does not block.
func (c *Cluster) Stats() Stats {
	c.mu.RLock()
	s := Stats{
		MetadataVersion: c.image.Version, Topics: len(c.image.Topics), Partitions: c.image.Partitions, MetadataWaits: c.waiters.Len(),
	}
	c.mu.RUnlock()
	s.ControllerEpoch = c.controllerEpoch.Load()
	s.ProduceRequests, s.FetchRequests = c.stats.produces.Load(), c.stats.fetches.Load()
	s.UncleanElections, s.RecordsLost = c.stats.uncleanElections.Load(), c.stats.recordsLost.Load()
	s.FollowerReads = c.stats.followerReads.Load()
	for _, r := range c.allReplicas() {
		switch p, err := r.state(); {
		case p != nil:
			s.OpenPartitions++
		case err != nil:
			s.OfflinePartitions++
		}
	}
	return s
}
