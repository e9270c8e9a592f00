package replication

import (
	"cmp"
	"slices"
	"sync/atomic"
	"time"

	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/record"
)

// Status is the state of one partition in the metadata, and the state of its replicas.
type Status struct {
	Leader         int32 // -1: none, or there is no such partition
	LeaderEpoch    int32
	PartitionEpoch int32 // grows with every change of the partition's metadata
	Replicas, ISR  []int32
	// Eligible has the replicas that may lead if the ISR is empty. LastKnown has the last leader,
	// if no other replica may lead (KIP-966: ELR). nil if there are none.
	Eligible, LastKnown []int32
	// The offsets of the leader, 0 if there is none. Records below HighWatermark can be read.
	LogStartOffset, HighWatermark, LogEndOffset int64

	Copies []ReplicaStatus // in the order of Replicas
	Ends   map[int32]int64 // log end offset by replica; only replicas whose broker is running
	Err    error           // why the partition is offline, ErrNotLeader if its broker is not running, ErrUnknownTopic or ErrClosed
	// Impaired is why some calls fail or wait although the partition is not offline; nil if no call
	// does. It is damage that an operation of the leader's log has met (partition.ErrCorrupt), until
	// the damage is repaired. It is ErrNotEnoughReplicas if records are not acknowledged with
	// acks=all and not visible to readers. It is ErrOffsetNotAvailable while a new leader does not
	// have the high watermark.
	Impaired error
}

// A ReplicaStatus is the present state of one replica, not the state that its leader knows from the
// last fetch.
type ReplicaStatus struct {
	Broker                       int32
	InSync                       bool
	LogStartOffset, LogEndOffset int64
	HighWatermark                int64 // of this replica: a follower's is at most its leader's
	DurableOffset                int64 // everything below is on stable storage
	SizeBytes                    int64 // of all batches in the replica
	Lag                          int64 // offsets behind the leader; -1 if there is no leader, or with Err
	// CaughtUp is the latest known instant at which the leader had nothing that the replica lacks
	// now. Under SyncOnAck only durable records count. It is zero if no such instant is known in
	// this leader epoch, if the replica leads, if there is no leader, or if nothing was ever
	// written. A follower leaves the ISR when CaughtUp is older than replica.lag.time.max.ms.
	CaughtUp time.Time
	Err      error // ErrBrokerDown, or why the replica is offline; the offsets are -1 then
}

// Status returns the state of a partition. Its fields are read at about the same time, while
// offsets advance. It does not block.
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
	if meta.Leader < 0 {
		s.Err = c.leaderless(tp)
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
		if id == meta.Leader {
			if s.Err = copied.Err; err != nil {
				s.Err = err
			}
		}
		if id == meta.Leader && copied.Err == nil {
			s.LogStartOffset, s.HighWatermark, s.LogEndOffset = copied.LogStartOffset, copied.HighWatermark, copied.LogEndOffset
			if part != nil {
				known = part.Followers()
				s.Impaired = r.impaired(part)
			}
		}
	}
	s.compare(known)
	return s
}

// Impaired returns Status.Impaired alone, at a fraction of the cost. It does not block.
func (c *Cluster) Impaired(tp record.TopicPartition) error {
	t, meta, err := c.find(tp)
	if err != nil || meta.Leader < 0 {
		return nil
	}
	r, err := c.replicaOf(tp, t.ID, meta.Leader)
	if err != nil || r == nil {
		return nil
	}
	part, _ := r.state()
	if part == nil {
		return nil
	}
	return r.impaired(part)
}

func (r *replica) impaired(part *partition.Partition) error {
	return cmp.Or(r.damaged(part), part.Impediment())
}

// replicaStatus returns the state of a replica, and the partition if it is open. err is why there
// is none; a nil replica was never written.
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

// compare sets the lag of replicas behind their leader, whose state of its followers is known.
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
	OpenPartitions     int   // partitions that have files
	OfflinePartitions  int   // partitions that could not be opened
	ProduceRequests    int64 // batches passed to Produce
	FetchRequests      int64
	// FollowerReads is the number of partitions read at a follower, counted once for each fetch.
	FollowerReads int64
	MetadataWaits int // calls waiting in WaitMetadata
	// UncleanElections is the number of elected leaders that may lack acknowledged records. Such an
	// election was requested, or allowed by the topic, or necessary because the acknowledged
	// records were not on stable storage on any replica.
	UncleanElections int64
	// RecordsLost is the number of offsets below a replica's own high watermark that it truncated
	// because an unclean leader lacked them. Losses before the replica's broker was started count
	// as far as its high watermark was saved (Config.HighWatermarkInterval).
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
