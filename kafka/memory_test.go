package kafka

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// measurable skips a test where the memory of a process is not meaningful or cannot be read.
func measurable(t *testing.T) {
	if raceEnabled || runtime.GOOS != "linux" {
		t.Skip("needs Linux's figures of a process, without the race detector, which takes memory of its own")
	}
}

func TestMemoryDoesNotGrowWithTheData(t *testing.T) {
	measurable(t)
	total := 256 << 20
	if gigabytes, _ := strconv.Atoi(os.Getenv(longVariable)); gigabytes > 0 {
		total = gigabytes << 30
	}
	p := startProcess(t, t.TempDir())
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	throughWire(ctx, t, p.addr, 1<<20) // topic, connections, code
	base := p.usage("reset")
	throughWire(ctx, t, p.addr, total)
	end := p.usage("")
	t.Logf("%d MiB produced and consumed: resident %d MiB before, at most %d MiB (%d MiB at the end, heap %d MiB)", total>>20, base.rss>>10, end.peak>>10, end.rss>>10, end.heap>>10)
	require.Less(t, (end.peak-base.rss)>>10, 64, "MiB on top of what it takes before")
}

// throughWire produces total bytes, all different, from two producers, while two consumers read
// all of them.
func throughWire(ctx context.Context, t *testing.T, addr string, total int) {
	t.Helper()
	const size, partitions = 10 << 10, 4
	name := fmt.Sprint("data-", total)
	createTopic(t, addr, name, partitions)
	results := make(chan error, 4)
	each := total / 2 / size
	for i := range 2 {
		go func() { results <- produceRandom(ctx, addr, name, uint64(i), each, size) }()
		go func() { results <- consumeAll(ctx, addr, name, 2*each) }()
	}
	for range 4 {
		require.NoError(t, <-results)
	}
}

func createTopic(t *testing.T, addr, name string, partitions int32) {
	t.Helper()
	req := kmsg.NewPtrCreateTopicsRequest()
	ct := kmsg.NewCreateTopicsRequestTopic()
	ct.Topic, ct.NumPartitions, ct.ReplicationFactor = name, partitions, 1
	req.Topics, req.TimeoutMillis = []kmsg.CreateTopicsRequestTopic{ct}, 10_000
	require.Zero(t, ask[*kmsg.CreateTopicsResponse](t, addr, 5, req).Topics[0].ErrorCode)
}

func produceRandom(ctx context.Context, addr, name string, seed uint64, records, size int) error {
	cl, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.DefaultProduceTopic(name), kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.MaxBufferedRecords(2000))
	if err != nil {
		return err
	}
	defer cl.Close()
	random := rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8)})
	var failed atomic.Pointer[error]
	for range records {
		value := make([]byte, size)
		random.Read(value)
		cl.Produce(ctx, &kgo.Record{Value: value}, func(_ *kgo.Record, err error) {
			if err != nil {
				failed.Store(&err)
			}
		})
	}
	if err := cl.Flush(ctx); err != nil {
		return err
	}
	if err := failed.Load(); err != nil {
		return *err
	}
	return nil
}

func consumeAll(ctx context.Context, addr, name string, records int) error {
	cl, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.ConsumeTopics(name), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		return err
	}
	defer cl.Close()
	for records > 0 {
		fetches := cl.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return err
		}
		records -= fetches.NumRecords()
	}
	return nil
}

func TestIdleConnectionsTakeLittleMemory(t *testing.T) {
	measurable(t)
	const connections = 2000
	p := startProcess(t, t.TempDir())
	throughWire(t.Context(), t, p.addr, 1<<20)
	createTopic(t, p.addr, "idle", 1)
	base := p.usage("reset")
	records := batch("key", string(make([]byte, 40<<10)))
	var all []*client
	for range connections { // each has sent and received more than an idle one needs
		c := dial(t, p.addr)
		require.Zero(t, c.ask(produceOne(9, "idle", records)).(*kmsg.ProduceResponse).Topics[0].Partitions[0].ErrorCode)
		read := fetchFrom("idle", 0, 1<<20)
		require.NotEmpty(t, c.ask(read).(*kmsg.FetchResponse).Topics[0].Partitions[0].RecordBatches)
		all = append(all, c)
	}
	var end usage
	require.Eventually(t, func() bool {
		end = p.usage("")
		return (end.heap-base.heap)/connections < 6
	}, 10*time.Second, 250*time.Millisecond, "KiB of heap a connection, when it sleeps")
	require.GreaterOrEqual(t, end.sockets, connections)
	t.Logf("%d idle connections: resident %d MiB before, at most %d MiB (%d MiB at the end, heap %d MiB and %d MiB)",
		connections, base.rss>>10, end.peak>>10, end.rss>>10, base.heap>>10, end.heap>>10)
	require.Less(t, (end.peak-base.rss)>>10, 100, "MiB on top of what it takes before")
	for _, c := range all {
		c.nc.Close()
	}
}

// fetchFrom fetches records of partition 0 from an offset without waiting.
func fetchFrom(name string, offset int64, maxBytes int32) *kmsg.FetchRequest {
	req := kmsg.NewPtrFetchRequest()
	ft := kmsg.NewFetchRequestTopic()
	ft.Topic = name
	fp := kmsg.NewFetchRequestTopicPartition()
	fp.FetchOffset, fp.PartitionMaxBytes = offset, maxBytes
	ft.Partitions = []kmsg.FetchRequestTopicPartition{fp}
	req.Topics, req.MaxBytes, req.SessionEpoch = []kmsg.FetchRequestTopic{ft}, maxBytes, -1
	req.SetVersion(11)
	return req
}
