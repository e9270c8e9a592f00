package consumer

import (
	"context"

	"github.com/stratalog/strata/group"
	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/replication"
)

// A Retriable is an error of a backend that decides whether its call is retried. Errors of a backend
// need not have the method. If one has, errors.As finds it, and its result takes precedence over the
// sentinels that the error wraps:
//
//   - false: the error is final. The application receives it, and the call is not repeated. An error
//     of one partition stops that partition until a seek. An error of the group, of the metadata or
//     of a whole fetch ends Poll, Records, Batches, Run and Transform.
//   - true: the error is transient. The call is repeated, with a growing pause of at most a second.
//     An error of a partition is reported once it has lasted for ten seconds.
//
// Without the method, a consumer retries errors that elections and restarts bring, fetches that fail
// as a whole and calls for its membership. It reports other errors of a partition once, and retries.
// An error that the client resolves itself, such as group.ErrUnknownMember or
// partition.ErrOffsetOutOfRange, must not have the method. Package producer uses it in the same way.
type Retriable interface {
	error
	Retriable() bool
}

// LogBackend gives access to topics and their records. It is the part of a backend that free
// consumers need. replication.Cluster implements it.
//
// A method ClusterID() string is optional. It returns the id of the cluster immediately. With it
// Transform rejects a producer of another cluster.
type LogBackend interface {
	Metadata(ctx context.Context, topics ...string) (replication.Metadata, error)
	WaitMetadata(ctx context.Context, after int64) (int64, error)
	// Fetch reads from the leaders of the partitions, or from replicas in the reader's rack. It
	// returns results in the order of the request, and borrows the request until it returns.
	//
	//   - It waits until one broker has MinBytes for the partitions that it serves, a partition has
	//     an error, or MaxWait has passed. MinBytes is per broker: bytes of several brokers need not
	//     be added up.
	//   - MaxWait bounds a long poll. A poll in progress may delay the next request to the same
	//     broker by that time, even if its ctx ends earlier.
	//   - Errors are per partition. An error of the call means that no partition was read.
	//   - If no partition has Bytes or Err, all leaders received the request, and had no records
	//     within the wait. The exception is HighWatermark -1: the state of that partition is not
	//     known. Then the missing bytes have no meaning, for the other partitions either.
	Fetch(ctx context.Context, req *partition.FetchRequest) (*partition.FetchResponse, error)
	// ListOffsets looks offsets up at the leaders. It returns the offsets of leaders that have
	// responded. A partition whose leader has not responded yet has partition.ErrTimeout, or another
	// error that passes, or is missing, which counts as ErrTimeout. Such a leader delays the results
	// of other partitions by at most 1 s. The caller repeats the call for the missing offsets. An
	// error of the call means that no offset was looked up.
	ListOffsets(ctx context.Context, at map[record.TopicPartition]partition.OffsetSpec, iso partition.Isolation) (map[record.TopicPartition]partition.OffsetResult, error)
}

// An Opener is a LogBackend whose users need connections of their own. An example is a client
// with network connections: a broker answers the requests of a connection in order. New, Read and
// Follow open a session for themselves and make all calls in it. Opener is optional: strata.Cluster
// does not implement it.
type Opener interface {
	// OpenSession returns a backend for one consumer or reader. For a member of a group it is also a
	// GroupBackend, and a ConsumerGroupBackend for ProtocolConsumer. ctx bounds only the opening:
	// the session outlasts it. end is called exactly once, after the last call of b has returned. It
	// may block for a short time: Close waits for it. b and end are not used after an error.
	OpenSession(ctx context.Context, s Session) (b LogBackend, end func(), err error)
}

// A Session describes the user of a session by its settings. Read and Follow have only a Rack.
type Session struct {
	ClientID   string // Config.ClientID; "" if it is not set
	Rack       string // "": none
	Group      string // "": not a group member
	InstanceID string // "": not a static member
}

// GroupBackend gives access to groups and their committed offsets. Group members need it besides
// LogBackend. group.Coordinator implements it.
type GroupBackend interface {
	Join(ctx context.Context, req group.JoinRequest) (group.JoinResponse, error)
	Sync(ctx context.Context, req group.SyncRequest) (group.SyncResponse, error)
	Heartbeat(ctx context.Context, req group.HeartbeatRequest) error
	Leave(ctx context.Context, req group.LeaveRequest) ([]error, error)
	CommitOffsets(ctx context.Context, req group.CommitRequest) (map[record.TopicPartition]error, error)
	FetchOffsets(ctx context.Context, group string, tps []record.TopicPartition) (map[record.TopicPartition]record.Committed, error)
	// FetchStableOffsets is FetchOffsets, except that it also returns, in unstable, the partitions
	// whose offset is part of an open transaction.
	FetchStableOffsets(ctx context.Context, group string, tps []record.TopicPartition) (committed map[record.TopicPartition]record.Committed, unstable map[record.TopicPartition]error, err error)
	// Group describes the group. A static member that returned uses it to inspect the assignments
	// of the members.
	Group(ctx context.Context, id string) (group.Info, error)
}

// Notifier notifies members in the coordinator's process of a rebalance immediately. It is optional
// for a GroupBackend: without it a member learns of a rebalance with its next heartbeat.
// group.Coordinator implements it.
type Notifier interface {
	// NotifyRebalanced sends to ch when the next heartbeat of a member may return a change, until
	// stop is called. It does not block on ch, which should have a capacity of one.
	NotifyRebalanced(group string, ch chan<- struct{}) (stop func())
}

// ConsumerGroupBackend is what group members with ProtocolConsumer need. group.Coordinator
// implements it.
type ConsumerGroupBackend interface {
	GroupBackend
	ConsumerHeartbeat(ctx context.Context, req group.ConsumerHeartbeatRequest) (group.ConsumerHeartbeatResponse, error)
	Notifier
}

// Backend is everything that consumers of all kinds need. strata.Cluster implements it.
type Backend interface {
	LogBackend
	ConsumerGroupBackend
}
