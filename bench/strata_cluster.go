package main

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/consumer"
	"github.com/stratalog/strata/producer"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/topic"
)

func init() {
	register(entry{name: "strata-producer", log: func() Subject { return &strataProducer{} }, skip: "W3 W5",
		note: "SendAsync through a cluster of one broker, one topic partition, window of 4096 records; W2's latencies are those of SendAsync"})
	register(entry{name: "strata-producer-3brokers", log: func() Subject { return &strataProducer{shape: shape{brokers: 3}} }, skip: "W3 W5",
		note: "the same over three partitions, each on a broker of its own"})
	register(entry{name: "strata-producer-memory", log: func() Subject { return &strataProducer{shape: shape{memory: true}} }, skip: "W3 W5",
		note: "strata-producer in memory"})
	register(entry{name: "strata-producer-rf3", log: func() Subject { return &strataProducer{shape: replicated} }, skip: "W3 W5",
		note: "strata-producer with one partition of three replicas, acks=all, on one disk"})
	register(entry{name: "strata-producer-rf3-memory", log: func() Subject { return &strataProducer{shape: shape{brokers: 3, replicas: 3, memory: true}} }, skip: "W3 W5",
		note: "strata-producer-rf3 in memory"})
	register(entry{name: "strata-cluster", pubsub: func() PubSub { return &strataPS{} }, note: "producer.Send to consumer.Records, SyncNever"})
	register(entry{name: "strata-cluster-3brokers", pubsub: func() PubSub { return &strataPS{shape: shape{brokers: 3}} }, note: "the same over three partitions, each on a broker of its own"})
	register(entry{name: "strata-cluster-rf3", pubsub: func() PubSub { return &strataPS{shape: replicated} }, note: "strata-cluster with one partition of three replicas, acks=all"})
}

const benchTopic = "bench"

// A shape describes a cluster. The zero shape is one broker with one partition, on files.
type shape struct {
	brokers  int
	replicas int // of the topic's only partition; 0: a partition on each broker
	memory   bool
}

// replicated has one partition with three replicas and min.insync.replicas of 2.
var replicated = shape{brokers: 3, replicas: 3}

func (s shape) partitions() int {
	if s.replicas > 0 {
		return 1
	}
	return max(1, s.brokers)
}

// openCluster opens a cluster with a topic.
func openCluster(dir string, sync bool, s shape) (*strata.Cluster, error) {
	if s.memory {
		dir = ""
	}
	c, err := strata.Open(strata.Config{Dir: dir, Brokers: s.brokers})
	if err != nil {
		return nil, err
	}
	cfg := topic.Config{Partitions: s.partitions(), ReplicationFactor: s.replicas, MinInSyncReplicas: min(2, s.replicas)}
	if !sync {
		// Kafka's default: the number of records causes no flush
		cfg.Properties = map[string]string{"flush.messages": "9223372036854775807"}
	}
	return c, c.CreateTopic(context.Background(), benchTopic, cfg)
}

// strataProducer sends asynchronously: AppendBatch returns when the records are accepted. Flush
// ends the timed region.
type strataProducer struct {
	shape  shape
	c      *strata.Cluster
	p      *producer.Producer
	window chan struct{}
	done   func(record.Record, error)
	failed atomic.Pointer[error]
}

func (s *strataProducer) Open(dir string, o Options) (err error) {
	if s.c, err = openCluster(dir, o.Sync, s.shape); err != nil {
		return err
	}
	s.window = make(chan struct{}, 4096)
	s.done = s.settle // once: a method value is an allocation
	s.p, err = producer.New(s.c, producer.Config{})
	return err
}

func (s *strataProducer) AppendBatch(recs [][]byte) error {
	for _, r := range recs {
		s.window <- struct{}{}
		s.p.SendAsync(bg, record.Record{Topic: benchTopic, Value: r}, s.done)
	}
	if err := s.failed.Load(); err != nil {
		return *err
	}
	return nil
}

func (s *strataProducer) settle(_ record.Record, err error) {
	if err != nil {
		failed := err
		s.failed.Store(&failed)
	}
	<-s.window
}

func (s *strataProducer) Flush() error { return s.p.Flush(bg) }

func (s *strataProducer) ReadAll(func([]byte)) error { return fmt.Errorf("not measured") }

func (s *strataProducer) Close() error {
	if err := s.p.Close(); err != nil {
		return err
	}
	return s.c.Close()
}

type strataPS struct {
	shape shape
	c     *strata.Cluster
	p     *producer.Producer
	r     *consumer.Consumer
	done  chan struct{}
}

func (s *strataPS) Open(dir string) (err error) {
	if s.c, err = openCluster(dir, false, s.shape); err != nil {
		return err
	}
	if s.p, err = producer.New(s.c, producer.Config{}); err != nil {
		return err
	}
	from := record.Offsets{}
	for i := range int32(s.shape.partitions()) {
		from[record.TopicPartition{Topic: benchTopic, Partition: i}] = 0
	}
	s.r, err = consumer.New(s.c, consumer.Config{Assign: from})
	return err
}

func (s *strataPS) Subscribe(fn func([]byte)) error {
	s.done = make(chan struct{})
	go func() {
		defer close(s.done)
		for r, err := range s.r.Records(bg) {
			if err != nil {
				return
			}
			fn(r.Value)
		}
	}()
	return nil
}

func (s *strataPS) Publish(rec []byte) error {
	_, err := s.p.Send(bg, record.Record{Topic: benchTopic, Value: rec})
	return err
}

func (s *strataPS) Close() error {
	if err := s.p.Close(); err != nil {
		return err
	}
	if err := s.r.Close(); err != nil {
		return err
	}
	<-s.done
	return s.c.Close()
}
