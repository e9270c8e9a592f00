package interop

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

func itoa(i int) string { return strconv.Itoa(i) }

// franz-go: producing.
var _ = func() bool {
	for name, codec := range map[string]kgo.CompressionCodec{"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(), "lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression()} {
		add("franz-go/produce-"+name, func(t *testing.T, k target) { franzRoundTrip(t, k, kgo.ProducerBatchCompression(codec)) })
	}
	add("franz-go/produce-acks-leader", func(t *testing.T, k target) {
		franzRoundTrip(t, k, kgo.RequiredAcks(kgo.LeaderAck()), kgo.DisableIdempotentWrite())
	})
	add("franz-go/produce-acks-none", func(t *testing.T, k target) {
		franzRoundTrip(t, k, kgo.RequiredAcks(kgo.NoAck()), kgo.DisableIdempotentWrite())
	})
	add("franz-go/produce-not-idempotent", func(t *testing.T, k target) { franzRoundTrip(t, k, kgo.DisableIdempotentWrite()) })
	return true
}()

// franzRoundTrip writes records with everything a record can have and reads the same back.
func franzRoundTrip(t *testing.T, k target, opts ...kgo.Opt) {
	topic := newTopic(t, k, 1)
	cl := franz(t, k, append(opts, kgo.DefaultProduceTopic(topic), kgo.ProducerLinger(5*time.Millisecond))...)
	var sent []*kgo.Record
	start := time.UnixMilli(1_700_000_000_000)
	for i := range 500 {
		r := &kgo.Record{Value: value(i), Key: []byte(fmt.Sprint("key", i%7)), Timestamp: start.Add(time.Duration(i) * time.Millisecond),
			Headers: []kgo.RecordHeader{{Key: "a", Value: []byte("1")}, {Key: "a", Value: nil}, {Key: "empty", Value: []byte{}}}}
		switch i % 5 {
		case 1:
			r.Key = nil
		case 2:
			r.Value = nil
		case 3:
			r.Headers = nil
		}
		sent = append(sent, r)
		cl.Produce(within(t), r, func(_ *kgo.Record, err error) {
			if err != nil {
				t.Errorf("record %d: %v", i, err)
			}
		})
	}
	require.NoError(t, cl.Flush(within(t)))
	got := readBack(t, k, topic, len(sent))
	require.Len(t, got, len(sent))
	for i, r := range got {
		require.EqualValues(t, i, r.Offset)
		require.Equal(t, sent[i].Key, r.Key)
		require.Equal(t, sent[i].Value, r.Value)
		require.Equal(t, len(sent[i].Headers), len(r.Headers))
		for h := range r.Headers {
			require.Equal(t, sent[i].Headers[h], r.Headers[h])
		}
		require.True(t, sent[i].Timestamp.Equal(r.Timestamp), "record %d: %v and %v", i, sent[i].Timestamp, r.Timestamp)
	}
}

var _ = add("franz-go/produce-large-records", func(t *testing.T, k target) {
	topic := newTopic(t, k, 1, "max.message.bytes=8000000")
	cl := franz(t, k, kgo.DefaultProduceTopic(topic), kgo.ProducerBatchMaxBytes(8_000_000), kgo.ProducerBatchCompression(kgo.NoCompression()))
	for _, size := range []int{1 << 20, 3 << 20, 10} {
		v := make([]byte, size)
		v[size-1] = byte(size)
		require.NoError(t, cl.ProduceSync(within(t), &kgo.Record{Value: v}).FirstErr())
	}
	got := readBack(t, k, topic, 3)
	require.Equal(t, []int{1 << 20, 3 << 20, 10}, []int{len(got[0].Value), len(got[1].Value), len(got[2].Value)})
})

var _ = add("franz-go/produce-too-large-is-refused", func(t *testing.T, k target) {
	topic := newTopic(t, k, 1, "max.message.bytes=1000")
	cl := franz(t, k, kgo.DefaultProduceTopic(topic), kgo.ProducerBatchCompression(kgo.NoCompression()))
	require.ErrorIs(t, cl.ProduceSync(within(t), &kgo.Record{Value: make([]byte, 2000)}).FirstErr(), kerr.MessageTooLarge)
})

var _ = add("franz-go/topics-are-created-on-first-use", func(t *testing.T, k target) {
	cl := franz(t, k, kgo.AllowAutoTopicCreation(), kgo.UnknownTopicRetries(-1))
	topic := fresh("auto")
	require.NoError(t, cl.ProduceSync(within(t), &kgo.Record{Topic: topic, Value: []byte("v")}).FirstErr())
	require.Equal(t, []string{"v"}, readValues(t, k, topic, 1))
})

// franz-go: consuming.
var _ = add("franz-go/consume-waits-for-new-records", func(t *testing.T, k target) {
	topic := newTopic(t, k, 1)
	cl := franz(t, k, kgo.ConsumeTopics(topic), kgo.FetchMaxWait(5*time.Second))
	go func() { // some time into the first fetch
		p := franz(t, k, kgo.DefaultProduceTopic(topic))
		for i := range 20 {
			p.ProduceSync(context.Background(), &kgo.Record{Value: value(i)})
		}
	}()
	var got []string
	for len(got) < 20 {
		f := cl.PollFetches(within(t))
		require.NoError(t, f.Err())
		for _, r := range f.Records() {
			got = append(got, string(r.Value))
		}
	}
	require.Equal(t, values(20), got)
})

var _ = add("franz-go/consume-from-a-time-and-an-offset", func(t *testing.T, k target) {
	topic := newTopic(t, k, 1)
	p := franz(t, k, kgo.DefaultProduceTopic(topic))
	start := time.UnixMilli(1_700_000_000_000)
	for i := range 10 {
		require.NoError(t, p.ProduceSync(within(t), &kgo.Record{Value: value(i), Timestamp: start.Add(time.Duration(i) * time.Second)}).FirstErr())
	}
	for name, at := range map[string]kgo.Offset{
		"time": kgo.NewOffset().AfterMilli(start.Add(3500 * time.Millisecond).UnixMilli()), "offset": kgo.NewOffset().At(4),
		"from the end": kgo.NewOffset().AtEnd().Relative(-6), "from the start": kgo.NewOffset().AtStart().Relative(4),
	} {
		cl := franz(t, k, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {0: at}}))
		f := cl.PollFetches(within(t))
		require.NoError(t, f.Err(), name)
		require.Equal(t, "v4", string(f.Records()[0].Value), name)
	}
})

var _ = add("franz-go/consume-many-partitions-in-small-fetches", func(t *testing.T, k target) {
	topic := newTopic(t, k, 8)
	p := franz(t, k, kgo.DefaultProduceTopic(topic), kgo.RecordPartitioner(kgo.RoundRobinPartitioner()))
	var rs []*kgo.Record
	for i := range 800 {
		rs = append(rs, &kgo.Record{Value: value(i)})
	}
	require.NoError(t, p.ProduceSync(within(t), rs...).FirstErr())
	cl := franz(t, k, kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchMaxBytes(2000), kgo.FetchMaxPartitionBytes(300))
	seen := map[string]bool{}
	next := map[int32]int64{}
	for len(seen) < 800 {
		f := cl.PollFetches(within(t))
		require.NoError(t, f.Err())
		for _, r := range f.Records() {
			require.Equal(t, next[r.Partition], r.Offset)
			next[r.Partition]++
			seen[string(r.Value)] = true
		}
	}
})
