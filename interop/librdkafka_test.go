package interop

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/confluentinc/confluent-kafka-go/v2/kafka"
	"github.com/stretchr/testify/require"
)

// librdkafka, on which most clients in other languages are built, through confluent-kafka-go.

func rdProducer(t *testing.T, k target, conf kafka.ConfigMap) *kafka.Producer {
	c := kafka.ConfigMap{"bootstrap.servers": k.addr, "linger.ms": 5}
	for key, v := range conf {
		c[key] = v
	}
	p, err := kafka.NewProducer(&c)
	require.NoError(t, err)
	t.Cleanup(p.Close)
	return p
}

func rdConsumer(t *testing.T, k target, conf kafka.ConfigMap) *kafka.Consumer {
	c := kafka.ConfigMap{"bootstrap.servers": k.addr, "auto.offset.reset": "earliest", "session.timeout.ms": 10000, "heartbeat.interval.ms": 200,
		"topic.metadata.refresh.interval.ms": 500, "check.crcs": true}
	for key, v := range conf {
		c[key] = v
	}
	cl, err := kafka.NewConsumer(&c)
	require.NoError(t, err)
	return cl
}

var _ = func() bool {
	for _, codec := range []string{"none", "gzip", "snappy", "lz4", "zstd"} {
		for _, idempotent := range []bool{false, true} {
			name := "librdkafka/produce-and-consume-" + codec
			if idempotent {
				name += "-idempotent"
			}
			add(name, func(t *testing.T, k target) {
				rdRoundTrip(t, k, kafka.ConfigMap{"compression.type": codec, "enable.idempotence": idempotent})
			})
		}
	}
	return true
}()

func rdRoundTrip(t *testing.T, k target, conf kafka.ConfigMap) {
	topic := newTopic(t, k, 1)
	p := rdProducer(t, k, conf)
	acks := make(chan kafka.Event, 500)
	for i := range 500 {
		require.NoError(t, p.Produce(&kafka.Message{TopicPartition: kafka.TopicPartition{Topic: &topic, Partition: 0}, Key: []byte("k"), Value: value(i),
			Headers: []kafka.Header{{Key: "h", Value: []byte("x")}}}, acks))
	}
	for range 500 {
		m := (<-acks).(*kafka.Message)
		require.NoError(t, m.TopicPartition.Error)
	}
	c := rdConsumer(t, k, kafka.ConfigMap{"group.id": fresh("group"), "enable.auto.commit": false})
	defer c.Close()
	require.NoError(t, c.Assign([]kafka.TopicPartition{{Topic: &topic, Partition: 0, Offset: kafka.OffsetBeginning}}))
	for i := range 500 {
		m, err := c.ReadMessage(30 * time.Second)
		require.NoError(t, err)
		require.Equal(t, []any{kafka.Offset(i), "k", string(value(i)), "h", "x"}, []any{m.TopicPartition.Offset, string(m.Key), string(m.Value), m.Headers[0].Key, string(m.Headers[0].Value)})
	}
	low, high, err := c.QueryWatermarkOffsets(topic, 0, 10000)
	require.NoError(t, err)
	require.Equal(t, []int64{0, 500}, []int64{low, high})
	at, err := c.OffsetsForTimes([]kafka.TopicPartition{{Topic: &topic, Partition: 0, Offset: 1}}, 10000)
	require.NoError(t, err)
	require.EqualValues(t, 0, at[0].Offset)
}

// rdMember polls a member of a group in the background.
type rdMember struct {
	c    *kafka.Consumer
	stop func()

	mu    sync.Mutex
	owned int
	seen  int
}

func newRdMember(t *testing.T, k target, topic string, conf kafka.ConfigMap) *rdMember {
	m := &rdMember{c: rdConsumer(t, k, conf)}
	cooperative := conf["partition.assignment.strategy"] == "cooperative-sticky"
	require.NoError(t, m.c.SubscribeTopics([]string{topic}, func(c *kafka.Consumer, ev kafka.Event) error {
		m.mu.Lock()
		defer m.mu.Unlock()
		switch e := ev.(type) {
		case kafka.AssignedPartitions:
			if !cooperative {
				m.owned = 0
			}
			m.owned += len(e.Partitions)
		case kafka.RevokedPartitions:
			m.owned -= len(e.Partitions)
		}
		return nil
	}))
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			if ev, ok := m.c.Poll(100).(*kafka.Message); ok && ev.TopicPartition.Error == nil {
				m.mu.Lock()
				m.seen++
				m.mu.Unlock()
			}
		}
	}()
	m.stop = sync.OnceFunc(func() { cancel(); <-done; m.c.Close() })
	t.Cleanup(m.stop)
	return m
}

func (m *rdMember) get() (owned, seen int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.owned, m.seen
}

var _ = func() bool {
	for _, strategy := range []string{"range", "roundrobin", "cooperative-sticky"} {
		add("librdkafka/group-"+strategy, func(t *testing.T, k target) {
			topic := newTopic(t, k, 4)
			seed(t, k, topic, 100)
			conf := kafka.ConfigMap{"group.id": fresh("group"), "partition.assignment.strategy": strategy}
			a := newRdMember(t, k, topic, conf)
			eventually(t, "one member reads everything", func() bool { o, n := a.get(); return o == 4 && n == 100 })
			b := newRdMember(t, k, topic, conf)
			eventually(t, "two members share", func() bool { oa, _ := a.get(); ob, _ := b.get(); return oa == 2 && ob == 2 })
			a.stop()
			eventually(t, "the other takes over", func() bool { o, _ := b.get(); return o == 4 })
		})
	}
	return true
}()

var _ = add("librdkafka/group-static", func(t *testing.T, k target) {
	topic := newTopic(t, k, 2)
	conf := kafka.ConfigMap{"group.id": fresh("group"), "group.instance.id": "one"}
	a := newRdMember(t, k, topic, conf)
	eventually(t, "it has everything", func() bool { o, _ := a.get(); return o == 2 })
	a.stop() // stays a member
	again := newRdMember(t, k, topic, conf)
	eventually(t, "it has everything again", func() bool { o, _ := again.get(); return o == 2 })
	state, err := admin(t, k).DescribeGroups(within(t), conf["group.id"].(string))
	require.NoError(t, err)
	require.Len(t, state.Sorted()[0].Members, 1)
	require.True(t, strings.HasPrefix(state.Sorted()[0].Members[0].MemberID, "one-"))
})

var _ = add("librdkafka/admin", func(t *testing.T, k target) {
	a, err := kafka.NewAdminClient(&kafka.ConfigMap{"bootstrap.servers": k.addr})
	require.NoError(t, err)
	defer a.Close()
	topic, group := fresh("topic"), fresh("group")
	made, err := a.CreateTopics(within(t), []kafka.TopicSpecification{{Topic: topic, NumPartitions: 2, ReplicationFactor: 1, Config: map[string]string{"retention.ms": "1234567"}}})
	require.NoError(t, err)
	require.Equal(t, kafka.ErrNoError, made[0].Error.Code())
	again, err := a.CreateTopics(within(t), []kafka.TopicSpecification{{Topic: topic, NumPartitions: 2, ReplicationFactor: 1}})
	require.NoError(t, err)
	require.Equal(t, kafka.ErrTopicAlreadyExists, again[0].Error.Code())
	eventually(t, "the topic is known", func() bool {
		md, err := a.GetMetadata(&topic, false, 5000)
		return err == nil && len(md.Topics[topic].Partitions) == 2
	})
	seed(t, k, topic, 10)
	configs, err := a.DescribeConfigs(within(t), []kafka.ConfigResource{{Type: kafka.ResourceTopic, Name: topic}})
	require.NoError(t, err)
	require.Equal(t, "1234567", configs[0].Config["retention.ms"].Value)
	altered, err := a.IncrementalAlterConfigs(within(t), []kafka.ConfigResource{{Type: kafka.ResourceTopic, Name: topic, Config: []kafka.ConfigEntry{{Name: "retention.ms", Value: "7654321", IncrementalOperation: kafka.AlterConfigOpTypeSet}}}})
	require.NoError(t, err)
	require.Equal(t, kafka.ErrNoError, altered[0].Error.Code())
	_, err = a.CreatePartitions(within(t), []kafka.PartitionsSpecification{{Topic: topic, IncreaseTo: 3}})
	require.NoError(t, err)
	deleted, err := a.DeleteRecords(within(t), []kafka.TopicPartition{{Topic: &topic, Partition: 0, Offset: 4}})
	require.NoError(t, err)
	require.NoError(t, deleted.DeleteRecordsResults[0].TopicPartition.Error)
	described, err := a.DescribeTopics(within(t), kafka.NewTopicCollectionOfTopicNames([]string{topic}))
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(described.TopicDescriptions[0].Partitions), 2)
	cluster, err := a.DescribeCluster(within(t))
	require.NoError(t, err)
	require.NotEmpty(t, cluster.Nodes)
	listed, err := a.ListOffsets(within(t), map[kafka.TopicPartition]kafka.OffsetSpec{{Topic: &topic, Partition: 0}: kafka.LatestOffsetSpec})
	require.NoError(t, err)
	for _, r := range listed.ResultInfos {
		require.EqualValues(t, 10, r.Offset)
	}

	m := newRdMember(t, k, topic, kafka.ConfigMap{"group.id": group})
	eventually(t, "the group reads", func() bool { _, n := m.get(); return n == 6 })
	m.stop()
	groups, err := a.DescribeConsumerGroups(within(t), []string{group})
	require.NoError(t, err)
	require.Equal(t, kafka.ConsumerGroupStateEmpty, groups.ConsumerGroupDescriptions[0].State)
	offsets, err := a.ListConsumerGroupOffsets(within(t), []kafka.ConsumerGroupTopicPartitions{{Group: group}})
	require.NoError(t, err)
	require.NotEmpty(t, offsets.ConsumerGroupsTopicPartitions[0].Partitions)
	set, err := a.AlterConsumerGroupOffsets(within(t), []kafka.ConsumerGroupTopicPartitions{{Group: group, Partitions: []kafka.TopicPartition{{Topic: &topic, Partition: 0, Offset: 5}}}})
	require.NoError(t, err)
	require.NoError(t, set.ConsumerGroupsTopicPartitions[0].Partitions[0].Error)
	all, err := a.ListConsumerGroups(within(t))
	require.NoError(t, err)
	require.NotEmpty(t, all.Valid)
	gone, err := a.DeleteConsumerGroups(within(t), []string{group})
	require.NoError(t, err)
	require.Equal(t, kafka.ErrNoError, gone.ConsumerGroupResults[0].Error.Code())
	removed, err := a.DeleteTopics(within(t), []string{topic})
	require.NoError(t, err)
	require.Equal(t, kafka.ErrNoError, removed[0].Error.Code())
})
