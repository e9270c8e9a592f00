package interop

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/IBM/sarama"
	"github.com/confluentinc/confluent-kafka-go/v2/kafka"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Transactional producers: committed records are read once, aborted ones never. Of ten
// transactions of ten records every third is aborted.
const (
	txnRounds = 10
	txnSize   = 10
)

func aborts(round int) bool { return round%3 == 2 }

// committedValues returns the values that a ReadCommitted reader sees.
func committedValues() (want []string) {
	for i := range txnRounds {
		for j := range txnSize {
			if !aborts(i) {
				want = append(want, string(value(i*txnSize+j)))
			}
		}
	}
	return want
}

// requireCommitted checks a topic to which all transactions were written. ReadCommitted readers
// see the committed records, others all.
func requireCommitted(t *testing.T, k target, topic string) {
	t.Helper()
	require.Equal(t, committedValues(), readAllCommitted(t, k, topic))
	require.Len(t, readValues(t, k, topic, txnRounds*txnSize), txnRounds*txnSize)
}

// readAllCommitted is readCommitted of partition 0.
func readAllCommitted(t *testing.T, k target, topic string) (seen []string) {
	t.Helper()
	return readCommitted(t, k, topic, 0)
}

// readCommitted reads a partition to its last stable offset, once no transaction is open.
func readCommitted(t *testing.T, k target, topic string, partition int32) (seen []string) {
	t.Helper()
	cl := franz(t, k, kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords(),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {partition: kgo.NewOffset().AtStart()}}))
	eventually(t, "no transaction is open", func() bool {
		ends, err := admin(t, k).ListEndOffsets(within(t), topic)
		require.NoError(t, err)
		stable, err := admin(t, k).ListCommittedOffsets(within(t), topic)
		require.NoError(t, err)
		return ends[topic][partition].Offset == stable[topic][partition].Offset
	})
	ends, err := admin(t, k).ListEndOffsets(within(t), topic)
	require.NoError(t, err)
	for at := int64(0); at < ends[topic][partition].Offset; {
		f := cl.PollFetches(within(t))
		require.NoError(t, f.Err())
		f.EachRecord(func(r *kgo.Record) {
			if at = r.Offset + 1; !r.Attrs.IsControl() {
				seen = append(seen, string(r.Value))
			}
		})
	}
	return seen
}

var _ = add("franz-go/transactions", func(t *testing.T, k target) {
	topic := newTopic(t, k, 1)
	cl := franz(t, k, kgo.DefaultProduceTopic(topic), kgo.TransactionalID(fresh("txn")))
	for i := range txnRounds {
		require.NoError(t, cl.BeginTransaction())
		for j := range txnSize {
			cl.Produce(within(t), &kgo.Record{Value: value(i*txnSize + j)}, nil)
		}
		require.NoError(t, cl.Flush(within(t)))
		require.NoError(t, cl.EndTransaction(within(t), kgo.TransactionEndTry(!aborts(i))))
	}
	requireCommitted(t, k, topic)
})

var _ = add("franz-go/transactions-fence-each-other", func(t *testing.T, k target) {
	topic, id := newTopic(t, k, 1), fresh("txn")
	begin := func(v string) *kgo.Client {
		cl := franz(t, k, kgo.DefaultProduceTopic(topic), kgo.TransactionalID(id))
		require.NoError(t, cl.BeginTransaction())
		require.NoError(t, cl.ProduceSync(within(t), kgo.StringRecord(v)).FirstErr())
		return cl
	}
	old := begin("old")
	next := begin("next")
	require.Error(t, old.EndTransaction(within(t), kgo.TryCommit))
	require.NoError(t, next.EndTransaction(within(t), kgo.TryCommit))
	require.Equal(t, []string{"next"}, readAllCommitted(t, k, topic))
})

// transform copies a topic in transactions until n records are copied. Each transaction has the
// offsets of its input. The sessions of the group's members start and end meanwhile.
func transform(t *testing.T, k target, from, to string, members, n int) {
	stop := startTransforming(t, k, from, to, members)
	defer stop()
	requireCopiedOnce(t, k, to, n)
}

// startTransforming has members copy a topic until stop is called.
func startTransforming(t *testing.T, k target, from, to string, members int) (stop func()) {
	group := fresh("group")
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	for i := range members {
		all.Go(func() {
			for ctx.Err() == nil {
				transformOnce(ctx, k, fmt.Sprint(group, "-", i), group, from, to, 30)
			}
		})
	}
	stop = func() {
		cancel()
		all.Wait()
	}
	t.Cleanup(stop)
	return stop
}

// requireCopiedOnce waits until n different records are in partition 0 of a topic, and fails if
// one is there twice.
func requireCopiedOnce(t *testing.T, k target, to string, n int) {
	t.Helper()
	cl := franz(t, k, kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{to: {0: kgo.NewOffset().AtStart()}}))
	seen := map[string]int{}
	for len(seen) < n {
		f := cl.PollFetches(within(t))
		require.NoError(t, f.Err())
		f.EachRecord(func(r *kgo.Record) { seen[string(r.Value)]++ })
	}
	for v, times := range seen {
		require.Equal(t, 1, times, "%s was copied more than once", v)
	}
}

// transformOnce runs a member for some transactions.
func transformOnce(ctx context.Context, k target, id, group, from, to string, rounds int) {
	s, err := kgo.NewGroupTransactSession(kgo.SeedBrokers(seeds(k)...), kgo.TransactionalID(id), kgo.ConsumerGroup(group), kgo.ConsumeTopics(from), kgo.DefaultProduceTopic(to),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.HeartbeatInterval(200*time.Millisecond),
		kgo.MetadataMinAge(10*time.Millisecond), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.SessionTimeout(10*time.Second), kgo.TransactionTimeout(10*time.Second))
	if err != nil {
		return
	}
	defer s.Close()
	for range rounds {
		f := s.PollRecords(ctx, 50)
		if ctx.Err() != nil || f.IsClientClosed() {
			return
		}
		if err := s.Begin(); err != nil {
			return
		}
		f.EachRecord(func(r *kgo.Record) { s.Produce(ctx, &kgo.Record{Value: r.Value}, nil) })
		if _, err := s.End(ctx, kgo.TryCommit); err != nil {
			return
		}
	}
}

var _ = add("franz-go/transform-exactly-once", func(t *testing.T, k target) {
	from, to := newTopic(t, k, 3), newTopic(t, k, 1)
	cl := franz(t, k, kgo.DefaultProduceTopic(from))
	const n = 2000
	for i := range n {
		cl.Produce(within(t), &kgo.Record{Key: value(i), Value: value(i)}, nil)
	}
	require.NoError(t, cl.Flush(within(t)))
	transform(t, k, from, to, 3, n)
})

// TestTransformIsExactlyOnceWhileLeadersAreKilled kills three brokers in turn while a topic is
// copied. They lead the input and the output, and coordinate the transactions and the group.
func TestTransformIsExactlyOnceWhileLeadersAreKilled(t *testing.T) {
	t.Parallel()
	s, k := startReplicated(t, t.TempDir())
	from, to := fresh("from"), fresh("to")
	for name, partitions := range map[string]int32{from: partitionsRidden, to: 1} {
		_, err := admin(t, k).CreateTopic(within(t), partitions, -1, nil, name)
		require.NoError(t, err)
	}
	const n = 6000
	var fed sync.WaitGroup
	defer fed.Wait()
	fed.Go(func() {
		cl, err := kgo.NewClient(kgo.SeedBrokers(seeds(k)...), kgo.DefaultProduceTopic(from), kgo.MetadataMinAge(10*time.Millisecond))
		if err != nil {
			t.Error(err)
			return
		}
		defer cl.Close()
		for i := range n {
			cl.Produce(t.Context(), &kgo.Record{Key: value(i), Value: value(i)}, nil)
			time.Sleep(2 * time.Millisecond) // the pace of the records
		}
		if err := cl.Flush(t.Context()); err != nil {
			t.Error(err)
		}
	})
	startTransforming(t, k, from, to, 3)
	through := make(chan struct{})
	time.AfterFunc(8*killEvery, func() { close(through) })
	require.GreaterOrEqual(t, killLeaders(s, killEvery, through), 4)
	requireCopiedOnce(t, k, to, n)
}

var _ = add("sarama/transactions", func(t *testing.T, k target) {
	topic := newTopic(t, k, 1)
	c := saramaConfig()
	c.Producer.Idempotent, c.Net.MaxOpenRequests, c.Producer.Transaction.ID = true, 1, fresh("txn")
	p, err := sarama.NewSyncProducer([]string{k.addr}, c)
	require.NoError(t, err)
	defer p.Close()
	for i := range txnRounds {
		require.NoError(t, p.BeginTxn())
		for j := range txnSize {
			_, _, err := p.SendMessage(&sarama.ProducerMessage{Topic: topic, Value: sarama.ByteEncoder(value(i*txnSize + j))})
			require.NoError(t, err)
		}
		group := fresh("group")
		require.NoError(t, p.AddOffsetsToTxn(map[string][]*sarama.PartitionOffsetMetadata{topic: {{Partition: 0, Offset: 5}}}, group))
		if aborts(i) {
			require.NoError(t, p.AbortTxn())
		} else {
			require.NoError(t, p.CommitTxn())
		}
		requireTxnOffset(t, k, group, topic, i)
	}
	requireCommitted(t, k, topic)
})

// requireTxnOffset checks that the group's offset of partition 0 is 5 if its transaction was
// committed.
func requireTxnOffset(t *testing.T, k target, group, topic string, round int) {
	t.Helper()
	r, g := kmsg.NewPtrOffsetFetchRequest(), kmsg.NewOffsetFetchRequestGroup()
	r.RequireStable, r.Group, g.Group = true, group, group
	r.Topics = []kmsg.OffsetFetchRequestTopic{{Topic: topic, Partitions: []int32{0}}}
	g.Topics = []kmsg.OffsetFetchRequestGroupTopic{{Topic: topic, Partitions: []int32{0}}}
	r.Groups = append(r.Groups, g)
	cl := franz(t, k, kgo.MetadataMinAge(10*time.Millisecond))
	var got kmsg.OffsetFetchResponseGroupTopicPartition
	eventually(t, "the offset is stable", func() bool {
		resp, err := r.RequestWith(within(t), cl)
		require.NoError(t, err)
		if len(resp.Groups) == 0 || resp.Groups[0].ErrorCode != 0 {
			return false
		}
		got = resp.Groups[0].Topics[0].Partitions[0]
		return got.ErrorCode == 0
	})
	want := int64(5)
	if aborts(round) {
		want = -1
	}
	require.Equal(t, want, got.Offset)
}

var _ = add("librdkafka/transactions", func(t *testing.T, k target) {
	topic := newTopic(t, k, 1)
	p := rdProducer(t, k, kafka.ConfigMap{"transactional.id": fresh("txn")})
	require.NoError(t, p.InitTransactions(within(t)))
	go func() {
		for range p.Events() {
		}
	}()
	for i := range txnRounds {
		require.NoError(t, p.BeginTransaction())
		for j := range txnSize {
			require.NoError(t, p.Produce(&kafka.Message{TopicPartition: kafka.TopicPartition{Topic: &topic, Partition: 0}, Value: value(i*txnSize + j)}, nil))
		}
		group := fresh("group")
		meta, err := kafka.NewTestConsumerGroupMetadata(group)
		require.NoError(t, err)
		require.NoError(t, p.SendOffsetsToTransaction(within(t), []kafka.TopicPartition{{Topic: &topic, Partition: 0, Offset: 5}}, meta))
		if aborts(i) {
			require.Zero(t, p.Flush(30_000)) // an abort drops records that were not sent yet
			require.NoError(t, p.AbortTransaction(within(t)))
		} else {
			require.NoError(t, p.CommitTransaction(within(t)))
		}
		requireTxnOffset(t, k, group, topic, i)
	}
	requireCommitted(t, k, topic)
})

var _ = add("tools/transactions", func(t *testing.T, k target) {
	topic, id := newTopic(t, k, 1), fresh("txn")
	cl := franz(t, k, kgo.DefaultProduceTopic(topic), kgo.TransactionalID(id), kgo.TransactionTimeout(10*time.Minute))
	require.NoError(t, cl.BeginTransaction())
	require.NoError(t, cl.ProduceSync(within(t), kgo.StringRecord("open")).FirstErr())
	pid, epoch, err := cl.ProducerID(within(t))
	require.NoError(t, err)
	require.Regexp(t, id+`\s+\S+\s+\d+\s+Ongoing`, tool(t, k, "transactions", "list"))
	described := tool(t, k, "transactions", "describe", "--transactional-id", id)
	require.Regexp(t, fmt.Sprintf(`%s\s+%d\s+%d\s+Ongoing`, id, pid, epoch), described)
	require.Contains(t, described, topic+"-0")
	require.Regexp(t, fmt.Sprintf(`(?m)^\s*%d\s`, pid), tool(t, k, "transactions", "describe-producers", "--topic", topic, "--partition", "0"))
	// A transaction that its coordinator has does not hang.
	hanging := tool(t, k, "transactions", "find-hanging", "--topic", topic, "--partition", "0", "--max-transaction-timeout", "0")
	require.NotContains(t, strings.Join(slices.DeleteFunc(strings.Split(hanging, "\n"), func(l string) bool { return strings.Contains(l, "Topic") }), "\n"), fmt.Sprint(pid))
	require.Empty(t, readCommittedNow(t, k, topic))
	tool(t, k, "transactions", "abort", "--topic", topic, "--partition", "0", "--start-offset", "0")
	eventually(t, "nothing is open", func() bool {
		stable, err := admin(t, k).ListCommittedOffsets(within(t), topic)
		return err == nil && stable[topic][0].Offset == 2
	})
})

// readCommittedNow returns the records that a ReadCommitted reader finds before the last stable
// offset.
func readCommittedNow(t *testing.T, k target, topic string) []string {
	stable, err := admin(t, k).ListCommittedOffsets(within(t), topic)
	require.NoError(t, err)
	if stable[topic][0].Offset == 0 {
		return nil
	}
	return readAllCommitted(t, k, topic)
}
