package interop

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/consumer"
	"github.com/stratalog/strata/producer"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/remote"
	"github.com/stratalog/strata/topic"
)

// Packages producer and consumer over package remote.
var (
	_ = add("remote/codecs", func(t *testing.T, k target) {
		c := connect(t, k)
		for _, codec := range []record.Codec{record.None, record.Gzip, record.Snappy, record.LZ4, record.Zstd} {
			name := create(t, c, 3)
			send(t, c, producer.Config{Compression: codec}, name, 500)
			require.Len(t, readAll(t, c, name), 500)
		}
	})
	_ = add("remote/acks", func(t *testing.T, k target) {
		c := connect(t, k)
		for _, acks := range []record.Acks{record.AcksNone, record.AcksLeader, record.AcksAll} {
			name := create(t, c, 1)
			send(t, c, producer.Config{Acks: acks}, name, 50)
			eventually(t, "all records arrive", func() bool { return len(readAll(t, c, name)) == 50 })
		}
	})
	_ = add("remote/group-classic", func(t *testing.T, k target) { remoteGroup(t, k, consumer.ProtocolClassic) })
	_ = add("remote/group-consumer", func(t *testing.T, k target) { remoteGroup(t, k, consumer.ProtocolConsumer) })
	_ = add("remote/transform", remoteTransform)
	_ = add("remote/topics", remoteTopics)
)

func connect(t *testing.T, k target) *remote.Cluster {
	t.Helper()
	c, err := remote.Open(within(t), remote.Config{Brokers: seeds(k)})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

func create(t *testing.T, c *remote.Cluster, partitions int) string {
	t.Helper()
	name := fresh("remote")
	require.NoError(t, c.CreateTopic(within(t), name, topic.Config{Partitions: partitions}))
	return name
}

// send writes the values v0, v1, ... to a topic.
func send(t *testing.T, c *remote.Cluster, cfg producer.Config, name string, n int) {
	t.Helper()
	p, err := producer.New(c, cfg)
	require.NoError(t, err)
	var rs []record.Record
	for i := range n {
		rs = append(rs, record.Record{Topic: name, Key: value(i), Value: value(i)})
	}
	_, err = p.Send(within(t), rs...)
	require.NoError(t, err)
	require.NoError(t, p.Close())
}

// readAll returns how often each value is in a topic, and requires that each key's are in order.
func readAll(t *testing.T, c *remote.Cluster, name string) map[string]int {
	t.Helper()
	got := map[string]int{}
	for r, err := range consumer.Read(within(t), c, consumer.ReadConfig{Topic: name}) {
		require.NoError(t, err)
		got[string(r.Value)]++
	}
	return got
}

// remoteGroup reads a topic with three members of one client, one after the other joining.
func remoteGroup(t *testing.T, k target, protocol consumer.Protocol) {
	c := connect(t, k)
	name, group, n := create(t, c, 6), fresh("group"), 3000
	send(t, c, producer.Config{}, name, n)
	values := make(chan string, n)
	ctx, stop := context.WithTimeout(within(t), time.Minute)
	defer stop()
	ended := make(chan error, 3)
	for range 3 {
		m, err := consumer.New(c, consumer.Config{Group: group, Topics: []string{name}, Protocol: protocol})
		require.NoError(t, err)
		go func() {
			for r, err := range m.Records(ctx) {
				if err != nil {
					ended <- err
					return
				}
				values <- string(r.Value)
			}
			ended <- m.Close()
		}()
	}
	eachOnce(t, ctx, n, values, ended)
	stop()
	for range 3 {
		require.NoError(t, <-ended)
	}
	info, err := c.Group(within(t), group)
	require.NoError(t, err)
	require.Zero(t, info.Lag())
}

// eachOnce waits for n different values, and requires that each has come once. Until then no reader
// may end.
func eachOnce(t *testing.T, ctx context.Context, n int, values <-chan string, ended <-chan error) {
	t.Helper()
	got := map[string]int{}
	for len(got) < n {
		select {
		case v := <-values:
			got[v]++
			require.Equal(t, 1, got[v], v)
		case err := <-ended:
			require.NoError(t, err)
		case <-ctx.Done():
			t.Fatalf("%d of %d records", len(got), n)
		}
	}
}

func remoteTransform(t *testing.T, k target) {
	c := connect(t, k)
	in, out, n := create(t, c, 3), create(t, c, 2), 2000
	send(t, c, producer.Config{}, in, n)
	m, err := consumer.New(c, consumer.Config{Group: fresh("group"), Topics: []string{in}})
	require.NoError(t, err)
	p, err := producer.New(c, producer.Config{TransactionalID: fresh("id")})
	require.NoError(t, err)
	done := 0
	err = consumer.Transform(within(t), m, p, func(r record.Record, emit func(record.Record)) error {
		emit(record.Record{Topic: out, Key: r.Key, Value: r.Value})
		if done++; done == n {
			m.Wakeup()
		}
		return nil
	})
	require.NoError(t, err)
	require.NoError(t, m.Close())
	require.NoError(t, p.Close())
	var got map[string]int
	eventually(t, "readers see what was committed", func() bool {
		got = readAll(t, c, out)
		return len(got) >= n
	})
	require.Equal(t, n, len(got))
	for v, times := range got {
		require.Equal(t, 1, times, v)
	}
}

func remoteTopics(t *testing.T, k target) {
	c := connect(t, k)
	ctx := within(t)
	name := fresh("remote")
	cfg := topic.Config{Partitions: 2, Properties: map[string]string{"retention.ms": "3600000"}}
	require.NoError(t, c.EnsureTopic(ctx, name, cfg))
	require.NoError(t, c.EnsureTopic(ctx, name, cfg))
	cfg.Partitions = 3
	require.Error(t, c.EnsureTopic(ctx, name, cfg))
	require.NoError(t, c.AddPartitions(ctx, name, 4))
	require.NoError(t, c.AlterTopic(ctx, name, map[string]string{"retention.ms": "7200000"}))
	send(t, c, producer.Config{}, name, 100)
	eventually(t, "the topic is described with its new setting", func() bool {
		info, err := c.Topic(ctx, name)
		require.NoError(t, err)
		value, _ := info.Settings.Value("retention.ms")
		return value == "7200000"
	})
	info, err := c.Topic(ctx, name)
	require.NoError(t, err)
	require.Len(t, info.Partitions, 4)
	var total int64
	before := map[record.TopicPartition]int64{}
	for _, p := range info.Partitions {
		total += p.HighWatermark
		before[record.TopicPartition{Topic: name, Partition: p.Partition}] = -1
	}
	require.EqualValues(t, 100, total)
	starts, err := c.DeleteRecords(ctx, before)
	require.NoError(t, err)
	for _, p := range info.Partitions {
		require.Equal(t, p.HighWatermark, starts[record.TopicPartition{Topic: name, Partition: p.Partition}])
	}
	require.NoError(t, c.DeleteTopic(ctx, name))
	_, err = c.Topic(ctx, name)
	require.Error(t, err)
}

var _ = add("remote/share", func(t *testing.T, k target) {
	c := connect(t, k)
	if c.Supports(remote.ShareGroups) != nil {
		t.Skip("the brokers have no share groups")
	}
	name, group, n := create(t, c, 3), fresh("share"), 300
	send(t, c, producer.Config{}, name, n)
	values := make(chan string, n)
	ctx, stop := context.WithTimeout(within(t), time.Minute)
	defer stop()
	ended := make(chan error, 2)
	for range 2 {
		s, err := consumer.NewShare(c, consumer.ShareConfig{Group: group, Topics: []string{name}})
		require.NoError(t, err)
		go func() {
			for r, err := range s.Records(ctx) {
				if err != nil {
					ended <- err
					return
				}
				values <- string(r.Value)
			}
			ended <- s.Close()
		}()
	}
	eachOnce(t, ctx, n, values, ended)
	stop()
	for range 2 {
		require.NoError(t, <-ended)
	}
})
