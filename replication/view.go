package replication

import (
	"context"

	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/topic"
)

// anyBroker means the broker that leads, whichever it is.
const anyBroker int32 = -1

// A View is a cluster as one of its brokers serves it. That broker serves only the partitions that
// it leads; for all others the methods return ErrNotLeader. A broker that does not serve leads
// none. Fetch also reads partitions that the broker follows.
//
// A View is for servers whose clients find the leaders themselves (package kafka). Callers that do
// not route requests use the Cluster. Otherwise the methods are the same as the Cluster's. A View
// is a value, may be kept, and uses the present metadata at each call. All methods are safe for
// concurrent use.
type View struct {
	c      *Cluster
	broker int32
}

// View returns the view of a broker, which need not be running or exist.
func (c *Cluster) View(broker int32) View { return View{c, max(broker, 0)} }

// Produce is Cluster.Produce.
func (v View) Produce(req *partition.ProduceRequest) { v.c.produce(req, v.broker) }

// Fetch is Cluster.Fetch at the broker's replicas. A follower is read up to the high watermark that
// it knows, unless the request is LeaderOnly. An offset beyond the follower's log is
// partition.ErrOffsetOutOfRange, even if the leader has it. For a partition that the broker leads,
// FetchedPartition.PreferredReplica may redirect a reader in another rack to a follower (KIP-392).
func (v View) Fetch(ctx context.Context, req *partition.FetchRequest) (*partition.FetchResponse, error) {
	return v.c.fetch(ctx, req, v.broker)
}

// ListOffsets is Cluster.ListOffsets.
func (v View) ListOffsets(ctx context.Context, specs map[record.TopicPartition]partition.OffsetSpec, isolation partition.Isolation) (map[record.TopicPartition]partition.OffsetResult, error) {
	return v.c.listOffsets(ctx, offsetSpecs{specs, isolation}, v.broker)
}

// DeleteRecords is Cluster.DeleteRecords.
func (v View) DeleteRecords(ctx context.Context, before map[record.TopicPartition]int64) (map[record.TopicPartition]int64, error) {
	return v.c.deleteBefore(ctx, before, v.broker)
}

// Producers is Cluster.Producers.
func (v View) Producers(ctx context.Context, tp record.TopicPartition) ([]partition.ProducerState, error) {
	return v.c.producers(ctx, tp, v.broker)
}

// EpochEnd is Cluster.EpochEnd. A broker without a replica has no epochs. A follower compares
// currentEpoch before it returns ErrNotLeader, so that a caller with an old epoch gets
// partition.ErrFencedLeaderEpoch (Kafka: Partition.getLocalLog).
func (v View) EpochEnd(ctx context.Context, tp record.TopicPartition, currentEpoch, epoch int32) (int32, int64, error) {
	return v.c.epochEnd(ctx, tp, epochs{currentEpoch, epoch}, v.broker)
}

// CheckLeaderEpoch returns nil if epoch is the current leader epoch of a partition, or -1.
// Otherwise it returns partition.ErrFencedLeaderEpoch, partition.ErrUnknownLeaderEpoch,
// ErrNotLeader, ErrUnknownTopic or ErrClosed, with the checks in the order of EpochEnd. It does not
// block.
func (v View) CheckLeaderEpoch(tp record.TopicPartition, epoch int32) error {
	return v.c.checkLeaderEpoch(tp, epoch, v.broker)
}

// Partition is Cluster.Partition.
func (v View) Partition(tp record.TopicPartition) (*partition.Partition, error) {
	return v.c.openLeader(tp, v.broker)
}

// Replica returns the broker's replica of a partition, leading or following, or nil if it has no
// files. It does not block. Errors: ErrNotLeader if the broker has no replica, ErrUnknownTopic,
// ErrClosed, and why the replica is offline.
func (v View) Replica(tp record.TopicPartition) (*partition.Partition, error) {
	f := fetch{c: v.c, asked: v.broker, req: &partition.FetchRequest{}}
	s, err := f.source(tp)
	if err != nil {
		return nil, err
	}
	return s.r.state()
}

// Written is Cluster.Written.
func (v View) Written(tp record.TopicPartition) (bool, error) { return v.c.isWritten(tp, v.broker) }

// TopicSettings returns the effective settings of a topic on the broker. Settings that the topic
// inherits may differ between brokers (AlterBrokerConfig). Errors: ErrUnknownTopic, ErrClosed. It
// does not block.
func (v View) TopicSettings(name string) (topic.Settings, error) {
	v.c.mu.RLock()
	t, closed := v.c.image.Topics[name], v.c.closed
	var unknown error
	if t == nil {
		unknown = v.c.unknownTopic(v.c.image, name)
	}
	v.c.mu.RUnlock()
	switch {
	case closed:
		return topic.Settings{}, ErrClosed
	case t == nil:
		return topic.Settings{}, unknown
	}
	return nodeMetadata(v).settings(t), nil
}
