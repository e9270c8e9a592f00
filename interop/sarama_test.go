package interop

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/IBM/sarama"
	"github.com/stretchr/testify/require"
)

func saramaConfig() *sarama.Config {
	c := sarama.NewConfig()
	c.Version = sarama.V4_0_0_0
	c.ClientID = "sarama"
	c.Producer.Return.Successes = true
	c.Producer.RequiredAcks = sarama.WaitForAll
	c.Consumer.Return.Errors = true
	c.Consumer.Offsets.Initial = sarama.OffsetOldest
	c.Consumer.Group.Heartbeat.Interval = 200 * time.Millisecond
	c.Consumer.Group.Rebalance.Timeout = 10 * time.Second
	c.Consumer.Group.Rebalance.GroupStrategies = []sarama.BalanceStrategy{sarama.NewBalanceStrategyRange()}
	return c
}

var _ = func() bool {
	for name, codec := range map[string]sarama.CompressionCodec{"none": sarama.CompressionNone, "gzip": sarama.CompressionGZIP, "snappy": sarama.CompressionSnappy, "lz4": sarama.CompressionLZ4, "zstd": sarama.CompressionZSTD} {
		add("sarama/produce-and-consume-"+name, func(t *testing.T, k target) {
			c := saramaConfig()
			c.Producer.Compression = codec
			saramaRoundTrip(t, k, c)
		})
	}
	add("sarama/idempotent", func(t *testing.T, k target) {
		c := saramaConfig()
		c.Producer.Idempotent, c.Net.MaxOpenRequests = true, 1
		saramaRoundTrip(t, k, c)
	})
	for name, v := range map[string]sarama.KafkaVersion{"0.11": sarama.V0_11_0_0, "1.0": sarama.V1_0_0_0, "2.0": sarama.V2_0_0_0, "2.8": sarama.V2_8_0_0, "3.6": sarama.V3_6_0_0} {
		add("sarama/speaking-"+name, func(t *testing.T, k target) {
			c := saramaConfig()
			c.Version = v
			if name == "0.11" || name == "1.0" || name == "2.0" {
				t.Log("protocol versions from before 2.1 are gone from Kafka 4.0: only what both know is used")
			}
			saramaRoundTrip(t, k, c)
		})
	}
	return true
}()

func saramaRoundTrip(t *testing.T, k target, c *sarama.Config) {
	topic := newTopic(t, k, 1)
	p, err := sarama.NewSyncProducer([]string{k.addr}, c)
	require.NoError(t, err)
	defer p.Close()
	var msgs []*sarama.ProducerMessage
	for i := range 200 {
		msgs = append(msgs, &sarama.ProducerMessage{Topic: topic, Key: sarama.StringEncoder("k"), Value: sarama.ByteEncoder(value(i)), Headers: []sarama.RecordHeader{{Key: []byte("h"), Value: []byte("x")}}})
	}
	require.NoError(t, p.SendMessages(msgs))
	cl, err := sarama.NewConsumer([]string{k.addr}, c)
	require.NoError(t, err)
	defer cl.Close()
	pc, err := cl.ConsumePartition(topic, 0, sarama.OffsetOldest)
	require.NoError(t, err)
	defer pc.Close()
	ctx := within(t)
	for i := range 200 {
		select {
		case m := <-pc.Messages():
			require.EqualValues(t, i, m.Offset)
			require.Equal(t, []string{"k", string(value(i)), "h", "x"}, []string{string(m.Key), string(m.Value), string(m.Headers[0].Key), string(m.Headers[0].Value)})
		case err := <-pc.Errors():
			t.Fatal(err)
		case <-ctx.Done():
			t.Fatal(ctx.Err())
		}
	}
}

// A saramaHandler counts a member's records and partitions.
type saramaHandler struct {
	mu    sync.Mutex
	owned int
	seen  map[string]int
}

func (h *saramaHandler) Setup(s sarama.ConsumerGroupSession) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.owned = 0
	for _, ps := range s.Claims() {
		h.owned += len(ps)
	}
	return nil
}

func (h *saramaHandler) Cleanup(sarama.ConsumerGroupSession) error { return nil }

func (h *saramaHandler) ConsumeClaim(s sarama.ConsumerGroupSession, c sarama.ConsumerGroupClaim) error {
	for {
		select {
		case m, ok := <-c.Messages():
			if !ok {
				return nil
			}
			h.mu.Lock()
			h.seen[string(m.Value)]++
			h.mu.Unlock()
			s.MarkMessage(m, "")
		case <-s.Context().Done():
			return nil
		}
	}
}

func (h *saramaHandler) get() (owned, seen int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.owned, len(h.seen)
}

func saramaMember(t *testing.T, k target, topic, group string, c *sarama.Config) (*saramaHandler, func()) {
	g, err := sarama.NewConsumerGroup([]string{k.addr}, group, c)
	require.NoError(t, err)
	h := &saramaHandler{seen: map[string]int{}}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			g.Consume(ctx, []string{topic}, h) // returns at every rebalance
		}
	}()
	go func() {
		for range g.Errors() {
		}
	}()
	stop := sync.OnceFunc(func() { cancel(); <-done; g.Close() })
	t.Cleanup(stop)
	return h, stop
}

var _ = func() bool {
	for name, s := range map[string]sarama.BalanceStrategy{"range": sarama.NewBalanceStrategyRange(), "round-robin": sarama.NewBalanceStrategyRoundRobin(), "sticky": sarama.NewBalanceStrategySticky()} {
		add("sarama/group-"+name, func(t *testing.T, k target) {
			topic, group := newTopic(t, k, 4), fresh("group")
			seed(t, k, topic, 100)
			c := saramaConfig()
			c.Consumer.Group.Rebalance.GroupStrategies = []sarama.BalanceStrategy{s}
			a, stopA := saramaMember(t, k, topic, group, c)
			eventually(t, "one member reads everything", func() bool { o, n := a.get(); return o == 4 && n == 100 })
			b, _ := saramaMember(t, k, topic, group, c)
			eventually(t, "two members share", func() bool { oa, _ := a.get(); ob, _ := b.get(); return oa == 2 && ob == 2 })
			stopA()
			eventually(t, "the other takes over", func() bool { o, _ := b.get(); return o == 4 })
		})
	}
	return true
}()

var _ = add("sarama/admin", func(t *testing.T, k target) {
	a, err := sarama.NewClusterAdmin([]string{k.addr}, saramaConfig())
	require.NoError(t, err)
	defer a.Close()
	topic, group := fresh("topic"), fresh("group")
	retention := "1234567"
	require.NoError(t, a.CreateTopic(topic, &sarama.TopicDetail{NumPartitions: 2, ReplicationFactor: 1, ConfigEntries: map[string]*string{"retention.ms": &retention}}, false))
	require.ErrorIs(t, a.CreateTopic(topic, &sarama.TopicDetail{NumPartitions: 2, ReplicationFactor: 1}, false), sarama.ErrTopicAlreadyExists)
	eventually(t, "the topic is listed", func() bool { ts, err := a.ListTopics(); _, ok := ts[topic]; return err == nil && ok })
	seed(t, k, topic, 10)
	described, err := a.DescribeConfigs([]*sarama.ConfigResource{{Type: sarama.TopicResource, Name: topic, ConfigNames: []string{"retention.ms"}}}, sarama.DescribeConfigsOptions{})
	require.NoError(t, err)
	require.Equal(t, retention, described[0].Configs[0].Value)
	longer := "7654321"
	require.NoError(t, a.IncrementalAlterConfig(sarama.TopicResource, topic, map[string]sarama.IncrementalAlterConfigsEntry{"retention.ms": {Operation: sarama.IncrementalAlterConfigsOperationSet, Value: &longer}}, false))
	require.NoError(t, a.CreatePartitions(topic, 3, nil, false))
	require.NoError(t, a.DeleteRecords(topic, map[int32]int64{0: 4}))
	eventually(t, "the topic has grown", func() bool {
		md, err := a.DescribeTopics([]string{topic})
		return err == nil && len(md[0].Partitions) == 3
	})
	_, controller, err := a.DescribeCluster()
	require.NoError(t, err)
	require.GreaterOrEqual(t, controller, int32(0))
	_, err = a.DescribeLogDirs([]int32{controller})
	require.NoError(t, err)

	h, stop := saramaMember(t, k, topic, group, saramaConfig())
	eventually(t, "the group reads", func() bool { _, n := h.get(); return n == 6 })
	groups, err := a.DescribeConsumerGroups([]string{group})
	require.NoError(t, err)
	require.Equal(t, "Stable", groups[0].State)
	require.Len(t, groups[0].Members, 1)
	stop()
	all, err := a.ListConsumerGroups()
	require.NoError(t, err)
	require.Contains(t, all, group)
	offsets, err := a.ListConsumerGroupOffsets(group, map[string][]int32{topic: {0}})
	require.NoError(t, err)
	require.EqualValues(t, 10, offsets.GetBlock(topic, 0).Offset)
	require.NoError(t, a.DeleteConsumerGroup(group))
	require.NoError(t, a.DeleteTopic(topic))
})
