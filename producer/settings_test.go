package producer_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/internal/wired"
	"github.com/stratalog/strata/producer"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/topic"
	"github.com/stratalog/strata/vfs"
)

// withCluster runs fn in virtual time with topic "a" of the given number of partitions.
func withCluster(t *testing.T, partitions int, fn func(t *testing.T, c *strata.Cluster)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := openCluster(t, strata.Config{}, partitions)
		fn(t, c)
		require.NoError(t, c.Close())
	})
}

// sendTo sends records one by one and returns their partitions.
func sendTo(t *testing.T, p *producer.Producer, rs ...record.Record) (partitions []int32) {
	t.Helper()
	for _, r := range rs {
		acks, err := p.Send(t.Context(), r)
		require.NoError(t, err)
		partitions = append(partitions, acks[0].Partition)
	}
	return partitions
}

func start(t *testing.T, c *strata.Cluster, cfg producer.Config) *producer.Producer {
	t.Helper()
	p, err := producer.New(over(t, c), cfg)
	require.NoError(t, err)
	t.Cleanup(func() { _ = p.Close() })
	return p
}

func keyless(n int) []record.Record {
	rs := make([]record.Record, n)
	for i := range rs {
		rs[i] = record.Record{Topic: "a", Value: fmt.Append(nil, i)}
	}
	return rs
}

func TestKeylessRecordsGoToThePartitionsInTurn(t *testing.T) {
	withCluster(t, 4, func(t *testing.T, c *strata.Cluster) {
		p := start(t, c, producer.Config{})
		got := sendTo(t, p, keyless(12)...)
		for i, partition := range got {
			require.Equal(t, (got[0]+int32(i))%4, partition, "%v", got)
		}
		for i := range int32(4) {
			require.Len(t, read(t, c, i), 3, "partition %d", i)
		}
		require.NoError(t, p.Close())
	})
}

// byShop is a partitioner of an application. It uses a header.
type byShop map[string]int

func (s byShop) Partition(r record.Record, n int) int {
	shop, _ := r.Header("shop")
	return s[string(shop)] % n
}

func TestApplicationsPartitionerDecidesWhereEachRecordIsStored(t *testing.T) {
	withCluster(t, 3, func(t *testing.T, c *strata.Cluster) {
		p := start(t, c, producer.Config{Partitioner: byShop{"oslo": 2, "rome": 1, "bonn": 5}})
		of := func(shop, v string) record.Record {
			r := record.String("a", "one key for all", v)
			r.Headers = []record.Header{{Key: "shop", Value: []byte(shop)}}
			return r
		}
		got := sendTo(t, p, of("oslo", "0"), of("rome", "1"), of("bonn", "2"), of("lima", "3"), of("rome", "4"))
		require.Equal(t, []int32{2, 1, 2, 0, 1}, got)
		for i, want := range [][]string{{"3"}, {"1", "4"}, {"0", "2"}} {
			require.Equal(t, want, read(t, c, int32(i)), "the broker has no say in it")
		}
		require.NoError(t, p.Close())
	})
}

func TestAddedPartitionsTakeRecordsWithoutAnybodysHelp(t *testing.T) {
	withCluster(t, 1, func(t *testing.T, c *strata.Cluster) {
		p := start(t, c, producer.Config{})
		sendTo(t, p, keyless(3)...)
		require.NoError(t, c.AddPartitions(t.Context(), "a", 4))
		wired.Settle(t) // the producer has seen the change
		sendTo(t, p, keyless(8)...)
		for i, want := range []int{3 + 2, 2, 2, 2} {
			require.Len(t, read(t, c, int32(i)), want, "partition %d", i)
		}
		require.NoError(t, p.Close())
	})
}

func TestKeysMoveToOtherPartitionsWhenATopicGrowsButWhatIsWrittenStays(t *testing.T) {
	withCluster(t, 2, func(t *testing.T, c *strata.Cluster) {
		p := start(t, c, producer.Config{})
		var keyed []record.Record
		for i := range 20 {
			keyed = append(keyed, record.String("a", fmt.Sprint("key-", i), fmt.Sprint(i)))
		}
		before := sendTo(t, p, keyed...)
		require.Equal(t, before, sendTo(t, p, keyed...), "a key keeps its partition")
		old := [][]string{read(t, c, 0), read(t, c, 1)}
		require.NoError(t, c.AddPartitions(t.Context(), "a", 5))
		wired.Settle(t)
		after := sendTo(t, p, keyed...)
		moved := 0
		for i, r := range keyed {
			require.Equal(t, int32(topic.Hash().Partition(r, 2)), before[i])
			require.Equal(t, int32(topic.Hash().Partition(r, 5)), after[i])
			if before[i] != after[i] {
				moved++
			}
		}
		require.Greater(t, moved, 5)
		for i, want := range old {
			require.Equal(t, want, read(t, c, int32(i))[:len(want)], "what was written before stays where it was")
		}
		require.NotEmpty(t, read(t, c, 4))
		require.NoError(t, p.Close())
	})
}

// slowDisk is a disk in memory whose syncs of log files take d.
func slowDisk(d time.Duration) vfs.FS {
	fs := vfs.Mem()
	fs.Inject(vfs.Fault{Ops: vfs.OpSync, Pattern: "*.log", Times: vfs.Always, Delay: d})
	return fs
}

func TestAcksDecideWhetherSendWaitsForTheDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := openCluster(t, strata.Config{FS: slowDisk(time.Second)}, 1)
		for _, want := range []struct {
			acks   record.Acks
			takes  time.Duration
			offset int64
		}{{record.AcksAll, time.Second, 1}, {record.AcksLeader, time.Second, 3}, {record.AcksNone, 0, -1}} {
			p := start(t, c, producer.Config{Acks: want.acks})
			// creates the partition's files
			_, err := p.Send(t.Context(), record.String("a", "", "first"))
			require.NoError(t, err)
			before := p.Stats()
			time.Sleep(time.Minute) // in the bubble: the disk is idle
			start := time.Now()
			acks, err := p.Send(t.Context(), record.String("a", "", "second"))
			require.NoError(t, err)
			require.Equal(t, want.takes, time.Since(start), "acks %v", want.acks)
			require.Equal(t, want.offset, acks[0].Offset, "acks %v", want.acks)
			stats := p.Stats()
			require.Equal(t, want.takes, stats.RequestTime-before.RequestTime, "what acks %v cost is told", want.acks)
			require.Equal(t, []int64{1, 2}, []int64{before.Answered, stats.Answered})
			require.Equal(t, stats.RequestTime/2, stats.RequestLatency())
			require.NoError(t, p.Close())
		}
		require.NoError(t, c.Close())
	})
}

// A power cut at the moment of each confirmation finds the record on the disk.
func TestAcksAllConfirmsOnlyWhatAPowerCutCannotTake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := vfs.Mem()
		c := openCluster(t, strata.Config{FS: fs}, 1)
		p := start(t, c, producer.Config{})
		for i, r := range keyless(20) {
			sendTo(t, p, r)
			disk := fs.CrashWith(vfs.CrashOptions{Data: vfs.CrashLost, Sizes: vfs.CrashLost, Entries: vfs.CrashLost})
			again := openCluster(t, strata.Config{FS: disk}, 1)
			require.Equal(t, numbered(i+1), read(t, again, 0))
			require.NoError(t, again.Close())
		}
		require.NoError(t, p.Close())
		require.NoError(t, c.Close())
	})
}

func TestProducersSideBySideKeepTheirOwnSettings(t *testing.T) {
	withCluster(t, 2, func(t *testing.T, c *strata.Cluster) {
		last := topic.PartitionerFunc(func(_ record.Record, n int) int { return n - 1 })
		first := topic.PartitionerFunc(func(record.Record, int) int { return 0 })
		small := start(t, c, producer.Config{Partitioner: first, BatchBytes: 1})
		large := start(t, c, producer.Config{Partitioner: last, Properties: map[string]string{"linger.ms": "60000", "acks": "0"}})
		begin := time.Now()
		acks, err := small.Send(t.Context(), keyless(10)...)
		require.NoError(t, err)
		require.Equal(t, int64(9), acks[9].Offset)
		require.Zero(t, time.Since(begin), "it does not linger")
		acks, err = large.Send(t.Context(), keyless(10)...)
		require.NoError(t, err)
		require.Equal(t, int64(-1), acks[9].Offset, "it waits for no confirmation")
		require.Equal(t, time.Minute, time.Since(begin), "it lingers")
		synctest.Wait()
		require.Equal(t, numbered(10), read(t, c, 0))
		require.Equal(t, numbered(10), read(t, c, 1))
		require.Equal(t, []int64{10, 1}, []int64{small.Stats().Batches, large.Stats().Batches})
		ids := func(i int32) []int64 {
			states, err := c.Backend().Producers(t.Context(), record.TopicPartition{Topic: "a", Partition: i})
			require.NoError(t, err)
			var ids []int64
			for _, s := range states {
				ids = append(ids, s.ProducerID)
			}
			return ids
		}
		require.Len(t, ids(0), 1, "an idempotent producer")
		require.Empty(t, ids(1), "one that is not")
		require.NoError(t, small.Close())
		require.NoError(t, large.Close())
	})
}

func TestOrderIsKeptInAPartitionButNotInTheTopic(t *testing.T) {
	withCluster(t, 2, func(t *testing.T, c *strata.Cluster) {
		p := start(t, c, producer.Config{BatchBytes: 100}) // several batches a partition
		var offsets [40]int64
		for i := range int32(40) {
			p.SendAsync(t.Context(), record.Record{Topic: "a", Value: fmt.Append(nil, i)}.To(i%2), func(r record.Record, err error) {
				require.NoError(t, err)
				offsets[i] = r.Offset
			})
		}
		require.NoError(t, p.Flush(t.Context()))
		for half := range int32(2) {
			var want []string
			for i := half; i < 40; i += 2 {
				want = append(want, fmt.Sprint(i))
				require.Equal(t, int64(i/2), offsets[i], "an offset counts in its partition only")
			}
			require.Equal(t, want, read(t, c, half), "partition 1 can be read first, and 39 before 0")
		}
		require.NoError(t, p.Close())
	})
}
