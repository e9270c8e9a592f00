package replication

import (
	"slices"
	"sync/atomic"

	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/record"
)

// Status is the state of one partition, as its leader sees it.
type Status struct {
	Leader         int32 // -1: none, or there is no such partition
	LeaderEpoch    int32
	PartitionEpoch int32 // grows with every change of the partition's metadata
	Replicas, ISR  []int32
	LogStartOffset int64
	HighWatermark  int64
	LogEndOffset   int64
	Ends           map[int32]int64 // log end offset by replica, of those whose broker serves
	Err            error           // why the partition is offline, ErrNotLeader if its broker does not serve, ErrUnknownTopic or ErrClosed
}

// Status returns the state of a partition. It does not block.
func (c *Cluster) Status(topic string, p int32) Status {
	tp := record.TopicPartition{Topic: topic, Partition: p}
	t, meta, err := c.find(tp)
	if err != nil {
		return Status{Leader: -1, LeaderEpoch: -1, PartitionEpoch: -1, Err: err}
	}
	s := Status{
		Leader: meta.Leader, LeaderEpoch: meta.LeaderEpoch, PartitionEpoch: meta.PartitionEpoch,
		Replicas: slices.Clone(meta.Replicas), ISR: slices.Clone(meta.ISR), Ends: map[int32]int64{},
	}
	for _, id := range meta.Replicas {
		r, err := c.replicaOf(tp, t.ID, id)
		var part *partition.Partition
		if r != nil {
			part, err = r.state()
		}
		if id == meta.Leader || meta.Leader < 0 {
			s.Err = err
		}
		if part == nil {
			if err == nil {
				s.Ends[id] = 0
			}
			continue
		}
		st := part.Stats()
		s.Ends[id] = st.LogEndOffset
		if id == meta.Leader {
			s.LogStartOffset, s.HighWatermark, s.LogEndOffset = st.LogStartOffset, st.HighWatermark, st.LogEndOffset
		}
	}
	return s
}

// counters are the running totals behind Stats.
type counters struct{ produces, fetches, uncleanElections atomic.Int64 }

// Stats are figures of a cluster since it was opened.
type Stats struct {
	MetadataVersion    int64
	ControllerEpoch    int32
	Topics, Partitions int
	OpenPartitions     int   // those that have files
	OfflinePartitions  int   // those that could not be opened
	ProduceRequests    int64 // batches handed in
	FetchRequests      int64
	MetadataWaits      int // calls waiting in WaitMetadata
	// UncleanElections are leaders that may lack records that were acknowledged: somebody asked for
	// them, a topic allows them, or what was acknowledged was not on stable storage anywhere.
	UncleanElections int64
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
	s.UncleanElections = c.stats.uncleanElections.Load()
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
