package group

import (
	"context"

	"github.com/stratalog/strata/internal/coordinator"
	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/record"
)

// A Store is what a Coordinator needs of the brokers: the offsets topic and what topics there are.
// ClusterStore makes one of a replication.Cluster. Its methods are called concurrently.
type Store interface {
	// OffsetsTopic returns the number of partitions of OffsetsTopic. If it does not exist, it is
	// created in the given shape; with no partitions in that the answer is 0 then.
	OffsetsTopic(ctx context.Context, create OffsetsShape) (partitions int32, err error)

	// OffsetsLeader returns the broker that leads a partition of the offsets topic and coordinates
	// its groups, -1 if none does, and the leader epoch. What it answers
	// never goes back. It does not block.
	OffsetsLeader(partition int32) (broker, epoch int32, err error)

	// OffsetsLog returns a partition of the offsets topic as it is led in one leader epoch.
	OffsetsLog(partition, epoch int32) (OffsetsLog, error)

	// Topics returns the named topics that exist; none named: all.
	Topics(ctx context.Context, names ...string) (Topics, error)

	// WaitTopics returns the version of the topics when it is greater than after. It waits without
	// polling.
	WaitTopics(ctx context.Context, after int64) (version int64, err error)

	// ListOffsets returns an offset of each partition: its first (partition.Earliest), the one its
	// next record will get (partition.Latest), or that of the first record from a time (ms) on, and
	// the end if there is none. Those that cannot be told now, of a partition that nobody leads for
	// one, are in unknown with the reason. Partitions that do not exist are in neither.
	ListOffsets(ctx context.Context, tps []record.TopicPartition, at partition.OffsetSpec) (got record.Offsets, unknown map[record.TopicPartition]error, err error)
}

// An OffsetsShape says how the offsets topic is created.
type OffsetsShape struct {
	Partitions int32
	Replicas   int // 0: as many as the Store sees fit
}

// An OffsetsLog is one partition of the offsets topic in one leader
// epoch. A Coordinator is its only writer.
type OffsetsLog interface {
	// Append writes one batch in that epoch, or not at all. The batch may be kept but not changed.
	// It may be one of a producer's transaction that GuardTransaction has let in: that the
	// partition has its producer in a newer epoch is the only reason to refuse it for. done is
	// called exactly once, without locks: with nil when the batch is committed, otherwise with
	// ErrNotCoordinator, ErrCoordinatorNotAvailable, ErrTooLarge or any other error (which counts
	// as ErrNotCoordinator) when that is not known to be so; ErrUncertain with it says that the
	// batch may be in the log, ErrMoving that the epoch is over. Batches are written in the order
	// of the calls. Append may block for as long as a write to the disk does, but not until the
	// batch is committed.
	Append(batch []byte, done func(error))

	// AppendMarker is Append of a transaction marker of that transaction.version.
	AppendMarker(marker []byte, version int16, done func(error))

	// GuardTransaction has the partition let in what is written in a transaction, until its next
	// marker, see partition.Partition.GuardTransaction. done is called once, without locks: with
	// nil, with why the producer must not write, or with the errors of Append. It does not block.
	GuardTransaction(w partition.TxnWrite, done func(error))

	// Read appends whole batches to dst, from the one that holds offset from, about max bytes but
	// at least one batch. Without one below the end it returns dst.
	Read(dst []byte, from int64, max int) ([]byte, error)

	// Bounds returns the first offset and the end of what is committed. That is at least what an
	// earlier leader may have confirmed: until the leader of this epoch knows that to be committed,
	// Bounds fails with ErrMoving.
	Bounds() (start, end int64, err error)
}

// Topics is a snapshot of topics.
type Topics struct {
	Version int64
	Topics  map[string]TopicInfo
}

// TopicInfo is what a coordinator wants to know of a topic.
type TopicInfo struct {
	ID         [16]byte
	Partitions int32
}

// topicStore is what the runtime needs of a Store.
type topicStore struct {
	Store
	shape OffsetsShape // to create the offsets topic with
}

// Partitions implements coordinator.Store.
func (s topicStore) Partitions(ctx context.Context, create bool) (int32, error) {
	if !create {
		return s.OffsetsTopic(ctx, OffsetsShape{})
	}
	return s.OffsetsTopic(ctx, s.shape)
}

// Leader implements coordinator.Store.
func (s topicStore) Leader(partition int32) (led coordinator.Leadership, err error) {
	led.Broker, led.Epoch, err = s.OffsetsLeader(partition)
	return led, err
}

// Log implements coordinator.Store.
func (s topicStore) Log(partition int32, led coordinator.Leadership) (coordinator.Log, error) {
	return s.OffsetsLog(partition, led.Epoch)
}
