package replication

import (
	"context"

	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/topic"
)

// anyBroker is asked by those who do not care which broker leads.
const anyBroker int32 = -1

// A View is a cluster as one of its brokers shows it: that broker serves the partitions that it
// leads, all others are ErrNotLeader. A broker that does not serve leads none. Fetch reads its
// followers as well.
//
// It is what a server shows to clients that find the leaders themselves (package kafka); whoever
// wants a partition served wherever its leader is asks the Cluster. Each method is that of the
// Cluster but for this. A View is a value, may be kept, and sees the metadata as it is at each
// call. All methods are safe for concurrent use.
type View struct {
	c      *Cluster
	broker int32
}

// View returns the view of a broker, also of one that does not serve or does not exist.
func (c *Cluster) View(broker int32) View { return View{c, max(broker, 0)} }

// Produce is Cluster.Produce.
func (v View) Produce(req *partition.ProduceRequest) { v.c.produce(req, v.broker) }

// Fetch is Cluster.Fetch, at the broker's replicas. One that it follows with is read up to the high
// watermark that it knows, whoever asks, unless the request is LeaderOnly; an offset beyond its log
// is partition.ErrOffsetOutOfRange there, though the leader may have it. For one that it leads, a
// reader in another rack may be told whom to ask instead: FetchedPartition.PreferredReplica
// (KIP-392).
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

// EpochEnd is Cluster.EpochEnd. A broker without a replica knows no epochs. One that follows looks
// at them before it refuses: the caller learns that it is behind (Kafka: Partition.getLocalLog).
func (v View) EpochEnd(ctx context.Context, tp record.TopicPartition, currentEpoch, epoch int32) (int32, int64, error) {
	return v.c.epochEnd(ctx, tp, epochs{currentEpoch, epoch}, v.broker)
}

// CheckLeaderEpoch is Cluster.CheckLeaderEpoch, in the order of EpochEnd.
func (v View) CheckLeaderEpoch(tp record.TopicPartition, epoch int32) error {
	return v.c.checkLeaderEpoch(tp, epoch, v.broker)
}

// Partition is Cluster.Partition.
func (v View) Partition(tp record.TopicPartition) (*partition.Partition, error) {
	return v.c.openLeader(tp, v.broker)
}

// Replica returns the broker's replica of a partition, which leads or follows; nil if it was never
// written. It does not block. Errors: ErrNotLeader if the broker has none, ErrUnknownTopic,
// ErrClosed, and why it cannot be used.
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

// TopicSettings returns the effective settings of a topic on the broker: a setting that a
// topic does not make may have another value on each (AlterBrokerConfig). Errors:
// ErrUnknownTopic, ErrClosed. It does not block.
func (v View) TopicSettings(name string) (topic.Settings, error) {
	v.c.mu.RLock()
	t, closed := v.c.image.Topics[name], v.c.closed
	var unknown error
	if t == nil {
		unknown = unknownTopic(v.c.image, name)
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
