package kafkatest

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stratalog/strata/group"
	"github.com/stratalog/strata/kafka"
	"github.com/stratalog/strata/record"
)

func TestGroupOfTwoSharesATopic(t *testing.T) {
	s := New(t, Config{Topics: map[string]int{"a": 4}})
	opts := []kgo.Opt{kgo.ConsumerGroup("g"), kgo.ConsumeTopics("a"), kgo.DisableAutoCommit()}
	one, two := client(t, s, opts...), client(t, s, opts...)
	info := s.WaitGroup("g", func(i group.Info) bool {
		return group.StableWith(2)(i) && len(i.Members[0].Assignment) == 2 && len(i.Members[1].Assignment) == 2
	})
	require.Equal(t, group.ProtocolTypeConsumer, info.ProtocolType)
	for p := range int32(4) {
		s.Fill("a", record.String("a", "", "x").To(p))
	}
	for _, cl := range []*kgo.Client{one, two} {
		got := consume(t, cl, 2)
		require.NoError(t, cl.CommitRecords(testContext(t), got...))
	}
	for p := range int32(4) {
		s.WaitCommitted("g", record.TopicPartition{Topic: "a", Partition: p}, 1)
	}
}

func TestEveryReleaseServesAClient(t *testing.T) {
	for r := Latest; r <= Redpanda24; r++ {
		s := New(t, Config{Release: r, Topics: map[string]int{"a": 1}})
		cl := client(t, s, kgo.ConsumerGroup("g"), kgo.ConsumeTopics("a"), kgo.DefaultProduceTopic("a"), kgo.DisableAutoCommit())
		require.NoError(t, cl.ProduceSync(testContext(t), kgo.StringRecord("x")).FirstErr(), "release %d", r)
		require.NoError(t, cl.CommitRecords(testContext(t), consume(t, cl, 1)...), "release %d", r)
		s.WaitCommitted("g", record.TopicPartition{Topic: "a"}, 1)
	}
}

func TestLostCommitReplyInVirtualTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(t, Config{Pipe: true, Topics: map[string]int{"orders": 2}})
		cl, err := kgo.NewClient(kgo.SeedBrokers(s.Addrs()...), kgo.Dialer(s.Dial), kgo.ConsumerGroup("billing"), kgo.ConsumeTopics("orders"), kgo.DisableAutoCommit())
		require.NoError(t, err)
		defer cl.Close()
		s.WaitGroup("billing", group.StableWith(1))
		lost := s.Fault(Fault{APIs: []kafka.Key{kafka.OffsetCommit}, Group: "billing", DropReply: true})
		s.Fill("orders", record.String("orders", "", "paid").To(1))
		fs := cl.PollFetches(t.Context())
		require.Len(t, fs.Records(), 1)
		start := time.Now()
		require.NoError(t, cl.CommitRecords(t.Context(), fs.Records()...)) // the client gives the answer up and asks again
		require.Greater(t, time.Since(start), 5*time.Second)
		lost.Wait(1)
		s.WaitCommitted("billing", record.TopicPartition{Topic: "orders", Partition: 1}, 1)
		require.Len(t, s.WaitRequests(2, func(x kafka.Exchange) bool { return kafka.Key(x.Key) == kafka.OffsetCommit }), 2)
	})
}

func TestSessionTimeoutCostsNoTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(t, Config{Pipe: true, Topics: map[string]int{"a": 1}})
		cl, err := kgo.NewClient(kgo.SeedBrokers(s.Addrs()...), kgo.Dialer(s.Dial), kgo.ConsumerGroup("g"), kgo.ConsumeTopics("a"), kgo.SessionTimeout(45*time.Second))
		require.NoError(t, err)
		defer cl.Close()
		s.WaitGroup("g", group.StableWith(1))
		start := time.Now()
		s.Fault(Fault{APIs: []kafka.Key{kafka.Heartbeat}, Group: "g", DropRequest: true, Times: Always})
		s.WaitGroup("g", func(i group.Info) bool { return len(i.Members) == 0 })
		require.InDelta(t, 45, time.Since(start).Seconds(), 4)
	})
}
