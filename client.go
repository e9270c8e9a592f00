package strata

import (
	"context"

	"github.com/stratalog/strata/consumer"
	"github.com/stratalog/strata/group"
	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/producer"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/replication"
	"github.com/stratalog/strata/topic"
)

// A Client is a cluster as applications use it: for producers, consumers and members of share
// groups, and to administer topics and groups. *Cluster implements it. No method needs brokers in
// the same process, so a client of a cluster on the network can implement it, too. A function that
// takes a Client runs on either; only the call that opens the cluster differs.
//
// Cluster documents the methods. They are safe for concurrent use. An implementation on the network
// may return errors of connections, and each method with a ctx may block until ctx ends. It may poll
// in WaitGroup and WaitMetadata, and send nothing to the channels of NotifyRebalanced.
type Client interface {
	producer.TxnBackend   // the argument of producer.New
	consumer.Backend      // of consumer.New, consumer.Read and consumer.Follow; it includes Group
	consumer.ShareBackend // of consumer.NewShare

	CreateTopic(ctx context.Context, name string, cfg topic.Config) error
	EnsureTopic(ctx context.Context, name string, cfg topic.Config) error
	AddPartitions(ctx context.Context, name string, total int, assignment ...[]int32) error
	AlterTopic(ctx context.Context, name string, props map[string]string) error
	AlterTopicConfig(ctx context.Context, name string, changes ...replication.ConfigChange) error
	DeleteTopic(ctx context.Context, name string) error
	Topics(ctx context.Context) ([]topic.Info, error)
	Topic(ctx context.Context, name string) (topic.Info, error)
	Offsets(ctx context.Context, name string, at partition.OffsetSpec) (record.Offsets, error)
	DeleteRecords(ctx context.Context, before map[record.TopicPartition]int64) (map[record.TopicPartition]int64, error)

	Groups(ctx context.Context) ([]group.Info, error)
	WaitGroup(ctx context.Context, id string, pred func(group.Info) bool) (group.Info, error)
	Lags(ctx context.Context) ([]group.GroupLag, error)
	ResetOffsets(ctx context.Context, id string, to record.Offsets) error
	DeleteGroup(ctx context.Context, id string) error
	DeleteOffsets(ctx context.Context, id string, tps ...record.TopicPartition) (map[record.TopicPartition]error, error)

	// ClusterID returns the permanent id of the cluster.
	ClusterID() string

	// Close is Shutdown with a timeout. The caller closes producers, consumers and members of share
	// groups first.
	Close() error
	Shutdown(ctx context.Context) error
}

var _ Client = (*Cluster)(nil)
