package systest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/consumer"
	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/producer"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/topic"
	"github.com/stratalog/strata/vfs"
)

// Tests of the first rows of the checklist, as applications see them.

func orders(p int32) record.TopicPartition {
	return record.TopicPartition{Topic: "orders", Partition: p}
}

// inBubble runs fn on a cluster in memory with the topic "orders", in virtual time.
func inBubble(t *testing.T, cfg topic.Config, fn func(t *testing.T, c *strata.Cluster, p *producer.Producer)) {
	synctest.Test(t, func(t *testing.T) {
		c, err := strata.Open(strata.Config{})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, c.Close()) })
		require.NoError(t, c.CreateTopic(t.Context(), "orders", cfg))
		p, err := producer.New(c, producer.Config{})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, p.Close()) })
		fn(t, c, p)
	})
}

// sendTo sends the values to a partition, one after the other, and returns their offsets.
func sendTo(t *testing.T, p *producer.Producer, partition int32, values ...string) (offsets []int64) {
	t.Helper()
	for _, v := range values {
		ack, err := p.Send(t.Context(), record.String("orders", "k", v).To(partition))
		require.NoError(t, err)
		offsets = append(offsets, ack[0].Offset)
	}
	return offsets
}

// reader opens a consumer that is closed when the test ends, if not earlier.
func reader(t *testing.T, c *strata.Cluster, cfg consumer.Config) *consumer.Consumer {
	t.Helper()
	r, err := consumer.New(c, cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, r.Close()) })
	return r
}

func free(t *testing.T, c *strata.Cluster, from record.Offsets) *consumer.Consumer {
	t.Helper()
	return reader(t, c, consumer.Config{Assign: from})
}

// take reads the next n records of a consumer, as "offset:value"; fewer if they do not arrive
// within a minute.
func take(t *testing.T, c *consumer.Consumer, n int) (got []string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for r, err := range c.Records(ctx) {
		require.NoError(t, err)
		got = append(got, fmt.Sprintf("%d:%s", r.Offset, r.Value))
		if len(got) == n {
			break
		}
	}
	return got
}

// numbered returns "0:0", "1:1" and so on: the result of take for the values of numbers.
func numbered(from, to int) (vs []string) {
	for i := from; i < to; i++ {
		vs = append(vs, fmt.Sprintf("%d:%d", i, i))
	}
	return vs
}

func numbers(from, to int) (vs []string) {
	for i := from; i < to; i++ {
		vs = append(vs, fmt.Sprint(i))
	}
	return vs
}

// Row 5.
func TestEachPartitionCountsItsOwnOffsets(t *testing.T) {
	inBubble(t, topic.Config{Partitions: 3}, func(t *testing.T, c *strata.Cluster, p *producer.Producer) {
		require.Equal(t, []int64{0, 1, 2}, sendTo(t, p, 0, "a", "b", "c"))
		require.Equal(t, []int64{0}, sendTo(t, p, 2, "d"))
		require.Equal(t, []int64{3}, sendTo(t, p, 0, "e"))
		require.Equal(t, []int64{1, 2}, sendTo(t, p, 2, "f", "g"))
		_, err := c.DeleteRecords(t.Context(), map[record.TopicPartition]int64{orders(0): 2})
		require.NoError(t, err)
		require.Equal(t, []int64{4}, sendTo(t, p, 0, "h"))
		require.Equal(t, []int64{0}, sendTo(t, p, 1, "i"))
		starts, err := c.Offsets(t.Context(), "orders", strata.Earliest)
		require.NoError(t, err)
		require.Equal(t, record.Offsets{orders(0): 2, orders(1): 0, orders(2): 0}, starts)
		ends, err := c.Offsets(t.Context(), "orders", strata.Latest)
		require.NoError(t, err)
		require.Equal(t, record.Offsets{orders(0): 5, orders(1): 1, orders(2): 3}, ends)
	})
}

// Row 10: each reader continues at its own position, whatever other readers read, seek or close
// meanwhile.
func TestReadersOfOnePartitionGoTheirOwnWay(t *testing.T) {
	inBubble(t, topic.Config{Partitions: 1}, func(t *testing.T, c *strata.Cluster, p *producer.Producer) {
		sendTo(t, p, 0, numbers(0, 60)...)
		var readers []*consumer.Consumer
		next := []int{0, 10, 20, 30}
		for _, from := range next {
			readers = append(readers, free(t, c, record.Offsets{orders(0): int64(from)}))
		}
		for round := range 5 {
			for i, r := range readers {
				n := 1 + (i+round)%3
				require.Equal(t, numbered(next[i], next[i]+n), take(t, r, n), "reader %d, round %d", i, round)
				next[i] += n - 1 // the loop ended at the last record, which is returned again
			}
		}
		require.NoError(t, readers[1].Seek(orders(0), 50))
		require.NoError(t, readers[3].Close())
		require.Equal(t, numbered(next[0], next[0]+9), take(t, readers[0], 9))
		require.Equal(t, numbered(50, 60), take(t, readers[1], 10))
		require.Equal(t, numbered(next[2], next[2]+9), take(t, readers[2], 9))
	})
}

// Row 11: records that were read and committed are still there days later, for the same reader and
// for others.
func TestRecordsCanBeReadAgainDaysLater(t *testing.T) {
	inBubble(t, topic.Config{Partitions: 1}, func(t *testing.T, c *strata.Cluster, p *producer.Producer) {
		sendTo(t, p, 0, numbers(0, 20)...)
		first := free(t, c, record.Offsets{orders(0): 0})
		require.Equal(t, numbered(0, 20), take(t, first, 20))
		g := reader(t, c, consumer.Config{Group: "billing", Topics: []string{"orders"}})
		require.Equal(t, numbered(0, 20), take(t, g, 20))
		require.NoError(t, g.Close())

		time.Sleep(5 * 24 * time.Hour)
		require.NoError(t, first.Seek(orders(0), 0))
		require.Equal(t, numbered(0, 20), take(t, first, 20), "the same reader once more")
		second := free(t, c, record.Offsets{orders(0): 0})
		require.Equal(t, numbered(0, 20), take(t, second, 20))
	})
}

// Row 12: slow readers are at the start of a long backlog; one takes an hour for each record. A
// sent record is still acknowledged, and reaches a reader at the end, without delay. In virtual
// time this means at once.
func TestSlowReadersDoNotDelayTheirPeersOrTheLog(t *testing.T) {
	inBubble(t, topic.Config{Partitions: 1}, func(t *testing.T, c *strata.Cluster, p *producer.Producer) {
		sendTo(t, p, 0, numbers(0, 2000)...)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		for i := range 3 {
			slow := free(t, c, record.Offsets{orders(0): 0})
			go func() {
				for _, err := range slow.Records(ctx) {
					if err != nil {
						return
					}
					select {
					case <-time.After(time.Duration(i+1) * time.Hour):
					case <-ctx.Done():
					}
				}
			}()
		}
		peer := free(t, c, record.Offsets{orders(0): 2000})
		arrived := make(chan time.Time, 1)
		go func() {
			for _, err := range peer.Records(ctx) {
				if err != nil {
					return
				}
				arrived <- time.Now()
			}
		}()
		for i := range 50 {
			if i%5 == 0 {
				time.Sleep(time.Minute)
			} // else at once: the reader has to fetch again first
			start := time.Now()
			sendTo(t, p, 0, fmt.Sprint(2000+i))
			require.Less(t, time.Since(start), time.Millisecond, "acknowledged")
			select {
			case at := <-arrived:
				require.Less(t, at.Sub(start), time.Millisecond, "received")
			case <-time.After(time.Hour):
				require.Fail(t, "not received")
			}
		}
	})
}

// Row 13: no reader of any kind changes the topic. Only the broker's retention does.
func TestOnlyProducersAndHousekeepingChangeATopic(t *testing.T) {
	cfg := topic.Config{Partitions: 1, Properties: map[string]string{"retention.ms": "3600000", "segment.ms": "600000"}}
	inBubble(t, cfg, func(t *testing.T, c *strata.Cluster, p *producer.Producer) {
		sendTo(t, p, 0, numbers(0, 20)...)
		before, err := c.Topic(t.Context(), "orders")
		require.NoError(t, err)
		status := c.Backend().Status("orders", 0)

		r := free(t, c, record.Offsets{orders(0): 0})
		require.Equal(t, numbered(0, 20), take(t, r, 20))
		require.NoError(t, r.Seek(orders(0), 5))
		require.Equal(t, numbered(5, 6), take(t, r, 1))
		require.NoError(t, r.Close())
		g := reader(t, c, consumer.Config{Group: "billing", Topics: []string{"orders"}, Commit: consumer.CommitManual})
		require.Equal(t, numbered(0, 20), take(t, g, 20))
		require.NoError(t, g.CommitOffsets(t.Context(), record.Offsets{orders(0): 20}))
		require.NoError(t, g.Close())
		after, err := c.Topic(t.Context(), "orders")
		require.NoError(t, err)
		require.Equal(t, before, after)
		require.Equal(t, status, c.Backend().Status("orders", 0))

		time.Sleep(2 * time.Hour)
		require.Equal(t, []int64{20}, sendTo(t, p, 0, "20"))
		status = c.Backend().Status("orders", 0)
		require.Equal(t, int64(20), status.LogStartOffset, "expired, though nobody asked for it")
		require.Equal(t, int64(21), status.LogEndOffset)
	})
}

// segmentSizes returns the sizes of the .log files of a partition of "orders", oldest first.
func segmentSizes(t *testing.T, disk vfs.FS, p int32) (sizes []int) {
	t.Helper()
	var dir string
	require.NoError(t, walk(disk, "data", func(path string, d fs.DirEntry) {
		if d.IsDir() && strings.HasPrefix(d.Name(), fmt.Sprintf("orders-%d", p)) {
			dir = path
		}
	}))
	require.NotEmpty(t, dir)
	entries, err := disk.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), ".log") {
			data, err := vfs.ReadFile(disk, filepath.Join(dir, e.Name()))
			require.NoError(t, err)
			sizes = append(sizes, len(data))
		}
	}
	return sizes
}

func walk(disk vfs.FS, dir string, fn func(path string, d fs.DirEntry)) error {
	entries, err := disk.ReadDir(dir)
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		fn(path, e)
		if e.IsDir() {
			err = errors.Join(err, walk(disk, path, fn))
		}
	}
	return err
}

// withSegments opens a cluster on a disk in memory with the topic "orders" of two partitions.
// Segments have size bytes by default.
func withSegments(t *testing.T, size string, props map[string]string) (*strata.Cluster, *producer.Producer, *vfs.MemFS) {
	t.Helper()
	disk := vfs.Mem()
	c, err := strata.Open(strata.Config{Dir: "data", FS: disk, Defaults: topic.Config{Properties: map[string]string{"segment.bytes": size}}})
	require.NoError(t, err)
	require.NoError(t, c.CreateTopic(t.Context(), "orders", topic.Config{Partitions: 2, Properties: props}))
	p, err := producer.New(c, producer.Config{})
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, p.Close())
		require.NoError(t, c.Close())
	})
	return c, p, disk
}

// Row 23.
func TestSegmentSizeIsSetForTheClusterAndForATopic(t *testing.T) {
	payload := slices.Repeat([]string{strings.Repeat("x", 300<<10)}, 14) // 4.1 MiB
	for name, c := range map[string]struct {
		cluster string
		topic   map[string]string
		files   int
	}{
		"the cluster's": {"2097152", nil, 3},
		"the topic's":   {"2097152", map[string]string{"segment.bytes": "1048576"}, 5},
		"the larger":    {"1048576", map[string]string{"segment.bytes": "2097152"}, 3},
	} {
		t.Run(name, func(t *testing.T) {
			_, p, disk := withSegments(t, c.cluster, c.topic)
			sendTo(t, p, 0, payload...)
			require.Len(t, segmentSizes(t, disk, 0), c.files)
		})
	}
}

// Row 24: while records are sent to the topic.
func TestSegmentSettingsOfALiveTopicAreChanged(t *testing.T) {
	c, p, disk := withSegments(t, "67108864", nil)
	payload := slices.Repeat([]string{strings.Repeat("x", 300<<10)}, 8)
	sendTo(t, p, 0, payload...)
	require.Len(t, segmentSizes(t, disk, 0), 1)
	require.NoError(t, c.AlterTopic(t.Context(), "orders", map[string]string{"segment.bytes": "1048576"}))
	sendTo(t, p, 0, payload...)
	require.Len(t, segmentSizes(t, disk, 0), 4, "three records to a segment, from the next one on")
	require.NoError(t, c.AlterTopic(t.Context(), "orders", map[string]string{"segment.bytes": "1048576", "segment.ms": "1800000"}))
	r := record.String("orders", "k", "later").To(0)
	r.Timestamp = time.Now().Add(50 * time.Minute)
	_, err := p.Send(t.Context(), r)
	require.NoError(t, err)
	require.Len(t, segmentSizes(t, disk, 0), 5)
}

// Row 25: a partition that receives five times as many bytes has five times as many segments.
// Larger segments are fewer.
func TestSegmentsFollowTheRateAndTheSegmentSize(t *testing.T) {
	count := func(size string) (slow, busy int) {
		_, p, disk := withSegments(t, size, nil)
		for range 6 {
			sendTo(t, p, 0, strings.Repeat("x", 500<<10))
			sendTo(t, p, 1, slices.Repeat([]string{strings.Repeat("x", 500<<10)}, 5)...)
		}
		return len(segmentSizes(t, disk, 0)), len(segmentSizes(t, disk, 1))
	}
	slow, busy := count("1048576") // two records to a segment
	require.Equal(t, []int{3, 15}, []int{slow, busy})
	slow, busy = count("3145728") // six
	require.Equal(t, []int{1, 5}, []int{slow, busy})
}

// poll polls until it has n records, and returns the number of each partition.
func poll(t *testing.T, c *consumer.Consumer, n int) map[int32]int {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	got := map[int32]int{}
	for n > 0 {
		batch, err := c.Poll(ctx)
		require.NoError(t, err)
		for tp, rs := range batch.Partitions() {
			got[tp.Partition] += len(rs)
		}
		n -= batch.Len()
	}
	return got
}

// Row 8: each reader has a position of its own for each partition. Other readers and new records
// do not change it.
func TestPositionsAreTheReadersOwn(t *testing.T) {
	inBubble(t, topic.Config{Partitions: 2}, func(t *testing.T, c *strata.Cluster, p *producer.Producer) {
		sendTo(t, p, 0, numbers(0, 10)...)
		sendTo(t, p, 1, numbers(0, 6)...)
		one := free(t, c, record.Offsets{orders(0): 2, orders(1): 0})
		other := free(t, c, record.Offsets{orders(0): 7})
		require.Equal(t, map[int32]int{0: 8, 1: 6}, poll(t, one, 14))
		require.Equal(t, []int64{10, 6}, []int64{one.Position(orders(0)), one.Position(orders(1))})
		require.Equal(t, []string{"7:7"}, take(t, other, 1))
		require.Equal(t, int64(7), other.Position(orders(0)), "the record in hand comes again")
		require.Equal(t, int64(-1), other.Position(orders(1)), "not its own")
		sendTo(t, p, 0, "10")
		require.Equal(t, int64(10), one.Position(orders(0)), "the end has moved, the reader has not")
		require.NoError(t, one.Seek(orders(0), 4))
		require.Equal(t, []int64{4, 6}, []int64{one.Position(orders(0)), one.Position(orders(1))})
		require.Equal(t, int64(7), other.Position(orders(0)))
	})
}

// Row 9.
func TestLagIsTheEndLessThePositionOfEachPartition(t *testing.T) {
	inBubble(t, topic.Config{Partitions: 3}, func(t *testing.T, c *strata.Cluster, p *producer.Producer) {
		sendTo(t, p, 0, numbers(0, 10)...)
		sendTo(t, p, 1, numbers(0, 6)...)
		r := reader(t, c, consumer.Config{Assign: record.Offsets{orders(0): 3, orders(1): 0, orders(2): 0}, MaxPollRecords: 4})
		lag := func() []int64 {
			l := r.Lag()
			return []int64{l[orders(0)], l[orders(1)], l[orders(2)]}
		}
		left := []int64{7, 6, 0}
		for read := 0; read < 13; {
			batch, err := r.Poll(t.Context())
			require.NoError(t, err)
			read += batch.Len()
			for tp, rs := range batch.Partitions() {
				left[tp.Partition] -= int64(len(rs))
			}
			require.Equal(t, left, lag(), "after %d records", read)
		}
		require.Equal(t, []int64{0, 0, 0}, lag())
		require.NoError(t, r.Seek(orders(1), 2))
		require.Equal(t, map[int32]int{1: 4}, poll(t, r, 4))
		require.Equal(t, []int64{0, 0, 0}, lag())
		require.NoError(t, r.Seek(orders(0), 1))
		require.Equal(t, int64(9), r.Lag()[orders(0)], "counted from where it will go on")
	})
}
