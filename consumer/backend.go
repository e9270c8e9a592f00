package consumer

import (
	"context"

	"github.com/stratalog/strata/group"
	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/replication"
)

// LogBackend is where records come from: the half of a backend that free consumers need.
// replication.Cluster is one.
type LogBackend interface {
	Metadata(ctx context.Context, topics ...string) (replication.Metadata, error)
	WaitMetadata(ctx context.Context, after int64) (int64, error)
	// Fetch answers in the order of the request, which is borrowed until it returns.
	Fetch(ctx context.Context, req *partition.FetchRequest) (*partition.FetchResponse, error)
	ListOffsets(ctx context.Context, at map[record.TopicPartition]partition.OffsetSpec, iso partition.Isolation) (map[record.TopicPartition]partition.OffsetResult, error)
}

// GroupBackend is what members of groups need besides. group.Coordinator is one.
type GroupBackend interface {
	Join(ctx context.Context, req group.JoinRequest) (group.JoinResponse, error)
	Sync(ctx context.Context, req group.SyncRequest) (group.SyncResponse, error)
	Heartbeat(ctx context.Context, req group.HeartbeatRequest) error
	Leave(ctx context.Context, req group.LeaveRequest) ([]error, error)
	CommitOffsets(ctx context.Context, req group.CommitRequest) (map[record.TopicPartition]error, error)
	FetchOffsets(ctx context.Context, group string, tps []record.TopicPartition) (map[record.TopicPartition]record.Committed, error)
	// FetchStableOffsets is FetchOffsets, but tells in unstable of partitions whose offset is being
	// moved by a transaction that is still open.
	FetchStableOffsets(ctx context.Context, group string, tps []record.TopicPartition) (committed map[record.TopicPartition]record.Committed, unstable map[record.TopicPartition]error, err error)
	// Group describes the group: a static member that came back looks what its members have.
	Group(ctx context.Context, id string) (group.Info, error)
}

// ConsumerGroupBackend is what members of ProtocolConsumer need. group.Coordinator is one.
type ConsumerGroupBackend interface {
	GroupBackend
	ConsumerHeartbeat(ctx context.Context, req group.ConsumerHeartbeatRequest) (group.ConsumerHeartbeatResponse, error)
	// NotifyRebalanced has ch sent to when a member may hear of something new, until stop is
	// called.
	NotifyRebalanced(group string, ch chan<- struct{}) (stop func())
}

// Backend is all of it. strata.Cluster is one.
type Backend interface {
	LogBackend
	ConsumerGroupBackend
}
