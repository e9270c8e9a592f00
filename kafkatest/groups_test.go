package kafkatest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata/group"
	"github.com/stratalog/strata/internal/synctest"
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
		// the client stops waiting for the answer and retries
		require.NoError(t, cl.CommitRecords(t.Context(), fs.Records()...))
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

func TestErrorOfAHeartbeatMakesMembersJoinAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(t, Config{Pipe: true, Topics: map[string]int{"a": 1}})
		cl, err := kgo.NewClient(kgo.SeedBrokers(s.Addrs()...), kgo.Dialer(s.Dial), kgo.ConsumerGroup("g"), kgo.ConsumeTopics("a"))
		require.NoError(t, err)
		defer cl.Close()
		before := s.WaitGroup("g", group.StableWith(1))
		s.Fault(Fault{APIs: []kafka.Key{kafka.Heartbeat}, Group: "other", Code: kafka.UnknownMemberID})
		s.Fault(Fault{APIs: []kafka.Key{kafka.Heartbeat}, Group: "g", Code: kafka.UnknownMemberID})
		s.WaitGroup("g", func(i group.Info) bool { return group.StableWith(1)(i) && i.Generation > before.Generation })
	})
}

func TestCommitFailsForOnePartitionAndHoldsForTheOther(t *testing.T) {
	s := New(t, Config{Pipe: true, Topics: map[string]int{"a": 2}})
	s.Fault(Fault{APIs: []kafka.Key{kafka.OffsetCommit}, Topic: "a", Partitions: []int32{1}, Code: kafka.OffsetMetadataTooLarge})
	w := dial(t, s)
	find := kmsg.NewPtrFindCoordinatorRequest()
	find.Version, find.CoordinatorKeys = 4, []string{"g"}
	require.Empty(t, Codes(w.ask(find)))
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Version, req.Group, req.Generation = 8, "g", -1
	topic := kmsg.NewOffsetCommitRequestTopic()
	topic.Topic = "a"
	for p := range int32(2) {
		part := kmsg.NewOffsetCommitRequestTopicPartition()
		part.Partition, part.Offset = p, 5
		topic.Partitions = append(topic.Partitions, part)
	}
	req.Topics = append(req.Topics, topic)
	resp := w.ask(req).(*kmsg.OffsetCommitResponse)
	require.Len(t, resp.Topics, 1)
	codes := map[int32]int16{}
	for _, p := range resp.Topics[0].Partitions {
		codes[p.Partition] = p.ErrorCode
	}
	require.Equal(t, map[int32]int16{0: 0, 1: int16(kafka.OffsetMetadataTooLarge)}, codes)
	s.WaitCommitted("g", record.TopicPartition{Topic: "a"}, 5)
	info, err := s.Cluster().Group(t.Context(), "g")
	require.NoError(t, err)
	require.EqualValues(t, 5, info.Offsets[record.TopicPartition{Topic: "a"}].Offset)
	require.EqualValues(t, -1, info.Offsets[record.TopicPartition{Topic: "a", Partition: 1}].Offset, "none")
}

func TestCoordinatorErrorIsRetriedByTheClient(t *testing.T) {
	s := New(t, Config{Topics: map[string]int{"a": 1}})
	moved := s.Fault(Fault{APIs: []kafka.Key{kafka.FindCoordinator}, Group: "g", Code: kafka.CoordinatorNotAvailable, Times: 2})
	loading := s.Fault(Fault{APIs: []kafka.Key{kafka.JoinGroup}, Group: "g", Code: kafka.NotCoordinator})
	client(t, s, kgo.ConsumerGroup("g"), kgo.ConsumeTopics("a"))
	s.WaitGroup("g", group.StableWith(1))
	require.Equal(t, 2, moved.Hits())
	require.Equal(t, 1, loading.Hits())
}
