package transaction

import (
	"context"
	"maps"
	"strconv"
	"time"

	"github.com/stratalog/strata/internal/coordinator"
	"github.com/stratalog/strata/internal/shardtopic"
	"github.com/stratalog/strata/internal/txnlog"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/replication"
	"github.com/stratalog/strata/topic"
)

// brokers is the interface to the brokers, besides the coordinator's own topic: a
// *replication.Cluster.
type brokers interface {
	InitProducerID(ctx context.Context) (id int64, epoch int16, err error)
	WaitMetadata(ctx context.Context, after int64) (int64, error)
	TopicID(name string) (topic.ID, bool)
	LeaderOfTopic(tp record.TopicPartition, id topic.ID) (broker, epoch int32, err error)
	OpenTransactions(longer time.Duration) []replication.OpenTransaction
	WriteTxnMarkers(path replication.NetworkPath, markers []replication.TxnMarker, stop <-chan struct{}, done func(i int, err error))
}

// states implements coordinator.Store on the topic __transaction_state.
type states struct {
	topic shardtopic.Topic
	shape TopicConfig
	level int16 // of transaction.version
}

// defaultMinInSync is the default of Topic.MinInSync, if there are as many replicas.
const defaultMinInSync = 2

// newStates returns the topic, or an error if it cannot be created with that many replicas.
func newStates(c *replication.Cluster, shape TopicConfig) (*states, error) {
	s := &states{topic: shardtopic.Topic{Cluster: c, Name: txnlog.Topic}, shape: shape}
	if err := s.topic.MayCreate(shape.Replicas); err != nil {
		return nil, err
	}
	return s, nil
}

// agree returns the transaction.version for the cluster: the wanted one of Config.Version, else the
// present one. If the topic exists without a level, the cluster is at level 0. A cluster without
// the topic gets its level together with it, so that a cluster without transactions stays
// unchanged.
func (s *states) agree(wanted, level int16) (int16, error) {
	ctx := context.Background()
	_, exists := s.topic.Cluster.TopicID(txnlog.Topic)
	has := s.topic.Cluster.TransactionVersion()
	switch {
	case wanted == 0 && (exists || has > 0):
		level = has
	case exists || has > 0:
		if err := s.topic.Cluster.SetTransactionVersion(ctx, level); err != nil {
			return 0, err
		}
	}
	s.level = level
	return level, nil
}

// stateTopicProperties are Kafka's for this topic, and make a change durable when it is confirmed,
// independent of the cluster's defaults.
var stateTopicProperties = map[string]string{
	"cleanup.policy":                 "compact",
	"compression.type":               "uncompressed",
	"segment.bytes":                  "104857600",
	"unclean.leader.election.enable": "false",
	"flush.messages":                 "1",
}

// Partitions implements coordinator.Store.
func (s *states) Partitions(ctx context.Context, create bool) (int32, error) {
	if !create {
		return s.topic.Partitions(ctx)
	}
	if err := s.topic.Cluster.SetTransactionVersion(ctx, s.level); err != nil {
		return 0, err
	}
	t := s.topic
	t.Properties = maps.Clone(stateTopicProperties)
	t.Properties["min.insync.replicas"] = strconv.Itoa(s.minInSync())
	return t.Create(ctx, s.shape.Partitions, s.shape.Replicas)
}

func (s *states) minInSync() int {
	if s.shape.MinInSync > 0 {
		return s.shape.MinInSync
	}
	replicas := s.shape.Replicas
	if replicas == 0 {
		replicas = s.topic.DefaultReplicas()
	}
	return max(1, min(defaultMinInSync, replicas))
}

// Leader implements coordinator.Store.
func (s *states) Leader(p int32) (led coordinator.Leadership, err error) {
	led.Broker, led.Epoch, err = s.topic.Leader(p)
	return led, err
}

// Log implements coordinator.Store.
func (s *states) Log(p int32, led coordinator.Leadership) (coordinator.Log, error) {
	return s.topic.Log(p, led.Epoch), nil
}
