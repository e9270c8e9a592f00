package group

import (
	"context"

	"github.com/stratalog/strata/record"
)

// A Store is what a Coordinator needs of the brokers: the offsets topic and what topics there are. ClusterStore makes one of a
// replication.Cluster. Its methods are called concurrently.
type Store interface {
	// OffsetsTopic returns the number of partitions of OffsetsTopic. If it does not exist, it is created with the given number of
	// partitions; with create 0 the answer is 0 then.
	OffsetsTopic(ctx context.Context, create int32) (partitions int32, err error)

	// OffsetsLog returns the leader replica of a partition of the offsets topic.
	OffsetsLog(partition int32) (OffsetsLog, error)

	// Topics returns the named topics that exist; none named: all.
	Topics(ctx context.Context, names ...string) (Topics, error)

	// WaitTopics returns the version of the topics when it is greater than after. It waits without polling.
	WaitTopics(ctx context.Context, after int64) (version int64, err error)

	// EndOffsets returns where the next record of each partition will go; partitions that do not exist are left out.
	EndOffsets(ctx context.Context, tps []record.TopicPartition) (record.Offsets, error)
}

// An OffsetsLog is one partition of the offsets topic. A Coordinator is its only writer.
type OffsetsLog interface {
	// Append writes one batch, which it may keep but not change. done is called exactly once, without locks: with nil when the batch is
	// committed, otherwise with ErrNotCoordinator, ErrCoordinatorNotAvailable, ErrTooLarge or any other error (which counts as
	// ErrNotCoordinator) when that is not known to be so. Batches are written in the order of the calls. Append may block for as long
	// as a write to the disk does, but not until the batch is committed.
	Append(batch []byte, done func(error))

	// Read appends whole batches to dst, from the one that holds offset from, about max bytes but at least one batch. At the end it returns dst.
	Read(dst []byte, from int64, max int) ([]byte, error)

	// Bounds returns the first offset and the one the next record will get.
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
