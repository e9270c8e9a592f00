package group

import (
	"context"

	"github.com/stratalog/strata/internal/coordinator"
	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/record"
)

// A Store is a Coordinator's access to the brokers: the offsets topic and the metadata of topics.
// ClusterStore makes one of a replication.Cluster. Its methods are called concurrently.
type Store interface {
	// OffsetsTopic returns the number of partitions of OffsetsTopic. If the topic does not exist,
	// it is created in the given shape; if the shape has no partitions, the result is 0.
	OffsetsTopic(ctx context.Context, create OffsetsShape) (partitions int32, err error)

	// OffsetsLeader returns the leader of a partition of the offsets topic, which coordinates its
	// groups, and the leader epoch. broker is -1 if there is no leader. The epoch never decreases.
	// It does not block.
	OffsetsLeader(partition int32) (broker, epoch int32, err error)

	// OffsetsLog returns a partition of the offsets topic in one leader epoch.
	OffsetsLog(partition, epoch int32) (OffsetsLog, error)

	// Topics returns the named topics that exist; without names all topics.
	Topics(ctx context.Context, names ...string) (Topics, error)

	// WaitTopics waits until the version of the topics is greater than after, and returns it. It
	// does not poll.
	WaitTopics(ctx context.Context, after int64) (version int64, err error)

	// ListOffsets returns an offset of each partition: its start (partition.Earliest), its end
	// (partition.Latest), or the offset of the first record at or after a time (ms), else the end.
	// unknown has the errors of partitions whose offset is currently unknown, for example because
	// they have no leader. Partitions that do not exist are in neither map.
	ListOffsets(ctx context.Context, tps []record.TopicPartition, at partition.OffsetSpec) (got record.Offsets, unknown map[record.TopicPartition]error, err error)

	// TimestampsAt returns for each partition the offset and the timestamp of the first record at the
	// given offset or later, exact to one batch, or offset -1 if there is none. A partition whose
	// disk does not respond has an error soon, and does not delay the others further.
	TimestampsAt(ctx context.Context, from record.Offsets) (map[record.TopicPartition]partition.OffsetResult, error)
}

// An OffsetsShape describes a new offsets topic.
type OffsetsShape struct {
	Partitions int32
	Replicas   int // 0: chosen by the Store
}

// An OffsetsLog is one partition of the offsets topic in one leader epoch. A Coordinator is its
// only writer.
type OffsetsLog interface {
	// Append writes one batch in that epoch, or not at all. The batch may be kept but not changed.
	// It may belong to a transaction that GuardTransaction has admitted; such a batch is rejected
	// only if the partition has its producer in a newer epoch.
	//
	// done is called exactly once, without locks, with nil when the batch is committed. Otherwise
	// its error is ErrNotCoordinator, ErrCoordinatorNotAvailable, ErrTooLarge or any other error
	// (which counts as ErrNotCoordinator), and the batch is not known to be committed. If
	// ErrUncertain is also set, the batch may be in the log; if ErrMoving is set, the epoch has
	// ended. Batches are written in the order of the calls. Append may block for the duration of a
	// disk write, but not until the batch is committed.
	Append(batch []byte, done func(error))

	// AppendMarker is Append for a transaction marker of that transaction.version.
	AppendMarker(marker []byte, version int16, done func(error))

	// GuardTransaction makes the partition accept the writes of a transaction until its next
	// marker, see partition.Partition.GuardTransaction. done is called once, without locks: with
	// nil, with the reason why the producer must not write, or with an error of Append. It does not
	// block.
	GuardTransaction(w partition.TxnWrite, done func(error))

	// Read appends whole batches to dst, from the one that contains offset from, about max bytes
	// but at least one batch. If there is none below the end it returns dst.
	Read(dst []byte, from int64, max int) ([]byte, error)

	// Bounds returns the start and the end of the committed records. The end is at least the one
	// that an earlier leader may have confirmed: until the leader of this epoch has committed that
	// far, Bounds fails with ErrMoving.
	Bounds() (start, end int64, err error)
}

// Topics is a snapshot of topics.
type Topics struct {
	Version int64
	Topics  map[string]TopicInfo
}

// TopicInfo is the metadata of a topic that a coordinator needs.
type TopicInfo struct {
	ID         [16]byte
	Partitions int32
}

// topicStore adapts a Store to the runtime.
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
