package kafka

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/producer"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/topic"
	"github.com/stratalog/strata/vfs"
)

// Clients repeat a fetch of a damaged partition at once. The answer comes after a pause, unless the
// client does not want to wait or there are records of other partitions.
func TestFetchOfADamagedPartitionIsAnsweredAfterAPause(t *testing.T) {
	disk := vfs.Mem()
	cluster, err := strata.Open(strata.Config{Dir: "data", FS: disk})
	require.NoError(t, err)
	require.NoError(t, cluster.CreateTopic(t.Context(), "orders", topic.Config{Partitions: 2}))
	p, err := producer.New(cluster, producer.Config{})
	require.NoError(t, err)
	for partition := range int32(2) {
		_, err = p.Send(t.Context(), record.String("orders", "k", "v").To(partition))
		require.NoError(t, err)
	}
	require.NoError(t, p.Close())
	require.NoError(t, cluster.Close())
	f, err := disk.OpenFile("data/broker-1/orders-0/00000000000000000000.log", os.O_RDWR, 0)
	require.NoError(t, err)
	_, err = f.WriteAt([]byte{0xff}, 68)
	require.NoError(t, err)
	require.NoError(t, f.Close())
	cluster, err = strata.Open(strata.Config{Dir: "data", FS: disk})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, cluster.Close()) })
	_, addr := serveCluster(t, cluster, Config{})
	fetch := func(wait int32, partitions ...int32) (codes []Code, took time.Duration) {
		req := kmsg.NewPtrFetchRequest()
		req.MaxWaitMillis, req.MinBytes, req.MaxBytes = wait, 1, 1<<20
		rt := kmsg.NewFetchRequestTopic()
		rt.Topic = "orders"
		for _, n := range partitions {
			rp := kmsg.NewFetchRequestTopicPartition()
			rp.Partition, rp.PartitionMaxBytes = n, 1<<20
			rt.Partitions = append(rt.Partitions, rp)
		}
		req.Topics = append(req.Topics, rt)
		began := time.Now()
		resp := ask[*kmsg.FetchResponse](t, addr, 12, req)
		took = time.Since(began)
		for _, p := range resp.Topics[0].Partitions {
			codes = append(codes, Code(p.ErrorCode))
		}
		return codes, took
	}
	codes, took := fetch(30_000, 0)
	require.Equal(t, []Code{KafkaStorageError}, codes)
	require.GreaterOrEqual(t, took, damagePause)
	require.Less(t, took, 20*time.Second, "the client's own time to wait is no reason to keep the error from it")
	codes, _ = fetch(0, 0)
	require.Equal(t, []Code{KafkaStorageError}, codes)
	codes, _ = fetch(30_000, 0, 1)
	require.Equal(t, []Code{KafkaStorageError, 0}, codes)
}
