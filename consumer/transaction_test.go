package consumer_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/stratalog/strata/consumer"
	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/replication"
	"github.com/stratalog/strata/topic"
)

// A history writes plain and transactional batches of several producers to partition 0 of "t", and
// keeps the records that a reader must see.
type history struct {
	t     require.TestingT
	c     *replication.Cluster
	next  int                 // number of the next record, which is its value
	seqs  map[int64]int32     // by producer
	open  map[int64][]string  // values of transactions under way
	first map[int64]int64     // their first offset
	all   []written           // data records in order of offset
	gone  map[string]struct{} // values of aborted transactions
}

type written struct {
	offset int64
	value  string
}

func newHistory(t require.TestingT) *history {
	c, err := replication.Open(replication.Config{})
	require.NoError(t, err)
	require.NoError(t, c.CreateTopic(context.Background(), "t", topic.Config{Partitions: 1}))
	return &history{t: t, c: c, seqs: map[int64]int32{}, open: map[int64][]string{}, first: map[int64]int64{}, gone: map[string]struct{}{}}
}

// write appends a batch of n records. A pid of 0 means a plain batch.
func (h *history) write(pid int64, n int) {
	var b record.Builder
	if pid != 0 {
		b.SetProducer(pid, 0, h.seqs[pid])
		b.SetTransactional(true)
		h.seqs[pid] += int32(n)
	}
	var values []string
	for range n {
		values = append(values, fmt.Sprint(h.next))
		b.AppendKV(1000, nil, []byte(values[len(values)-1]), nil)
		h.next++
	}
	bytes, err := b.Build(record.None)
	require.NoError(h.t, err)
	done := make(chan partition.ProduceResult, 1)
	h.c.Produce(&partition.ProduceRequest{TopicPartition: tp(0), Batch: bytes, TransactionalID: "tx", Done: func(r partition.ProduceResult) { done <- r }})
	r := <-done
	require.NoError(h.t, r.Err)
	for i, v := range values {
		h.all = append(h.all, written{r.BaseOffset + int64(i), v})
	}
	if pid != 0 {
		if len(h.open[pid]) == 0 {
			h.first[pid] = r.BaseOffset
		}
		h.open[pid] = append(h.open[pid], values...)
	}
}

// end commits or aborts the transaction of pid.
func (h *history) end(pid int64, commit bool) {
	p, err := h.c.Partition(tp(0))
	require.NoError(h.t, err)
	done := make(chan partition.ProduceResult, 1)
	p.EndTransaction(partition.TxnMarker{ProducerID: pid, Commit: commit}, func(r partition.ProduceResult) { done <- r })
	require.NoError(h.t, (<-done).Err)
	if !commit {
		for _, v := range h.open[pid] {
			h.gone[v] = struct{}{}
		}
	}
	delete(h.open, pid)
	delete(h.first, pid)
}

// visible returns the records that a reader sees from offset from on.
func (h *history) visible(from int64, isolation consumer.Isolation) (out []written) {
	stable := int64(1<<63 - 1)
	for _, first := range h.first {
		stable = min(stable, first)
	}
	for _, w := range h.all {
		_, aborted := h.gone[w.value]
		if w.offset >= from && (isolation == consumer.ReadUncommitted || w.offset < stable && !aborted) {
			out = append(out, w)
		}
	}
	return out
}

// read reads until the consumer would have to wait, by Records or by Poll.
func (h *history) read(cfg consumer.Config, byPoll bool) (got []written, position int64) {
	c, err := consumer.New(h.c, cfg)
	require.NoError(h.t, err)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil && byPoll {
			b, err := c.Poll(ctx)
			if err != nil {
				return
			}
			for r := range b.All() {
				got = append(got, written{r.Offset, string(r.Value)})
			}
		}
		for r, err := range c.Records(ctx) {
			if err != nil {
				return
			}
			got = append(got, written{r.Offset, string(r.Value)})
		}
	}()
	synctest.Wait()
	cancel()
	<-done
	position = c.Position(tp(0))
	require.NoError(h.t, c.Close())
	return got, position
}

func TestReadersSeeWhatTheirIsolationLevelShows(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		steps := rapid.SliceOfN(rapid.IntRange(0, 11), 1, 60).Draw(rt, "steps")
		partitionBytes := rapid.SampledFrom([]int{1, 150, 400, 1 << 20}).Draw(rt, "bytes of a fetch")
		most := rapid.IntRange(1, 20).Draw(rt, "records of a poll")
		byPoll := rapid.Bool().Draw(rt, "by Poll")
		from := rapid.Int64Range(0, 10).Draw(rt, "from")
		var want, got [2][]written
		synctest.Test(t, func(t *testing.T) {
			h := newHistory(t)
			defer func() { require.NoError(t, h.c.Close()) }()
			for i, s := range steps {
				pid := int64(s%2) + 1
				switch {
				case s >= 9:
					h.write(0, 1+i%3)
				case s < 5:
					h.write(pid, 1+i%3)
				case len(h.open[pid]) > 0:
					h.end(pid, i%2 == 0)
				}
			}
			if len(h.all) == 0 {
				return
			}
			from := min(from, h.all[len(h.all)-1].offset)
			for i, isolation := range []consumer.Isolation{consumer.ReadCommitted, consumer.ReadUncommitted} {
				cfg := consumer.Config{Assign: record.Offsets{tp(0): from}, Isolation: isolation, PartitionBytes: partitionBytes, MaxPollRecords: most}
				want[i] = h.visible(from, isolation)
				got[i], _ = h.read(cfg, byPoll)
			}
		})
		// outside the bubble: rapid cannot shrink a failure in a bubble
		require.Equal(rt, want, got, "read committed, read uncommitted")
	})
}

func TestPositionGoesPastMarkersAndAbortedRecords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHistory(t)
		h.write(0, 1)   // offset 0
		h.write(7, 2)   // 1, 2
		h.end(7, false) // marker at 3
		got, position := h.read(consumer.Config{Assign: record.Offsets{tp(0): 0}}, false)
		require.Equal(t, []written{{0, "0"}}, got)
		require.Equal(t, int64(4), position, "nothing of the aborted transaction is asked for again")
		require.NoError(t, h.c.Close())
	})
}

func TestRecordsOfAnOpenTransactionComeOnceItIsCommitted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHistory(t)
		h.write(7, 1)
		h.write(0, 1)
		c := open(t, h.c, consumer.Config{Assign: record.Offsets{tp(0): 0}})
		var got []string
		done := make(chan struct{})
		ctx, stop := context.WithCancel(t.Context())
		go func() {
			defer close(done)
			for r, err := range c.Records(ctx) {
				if err != nil {
					t.Error(err)
					return
				}
				got = append(got, string(r.Value))
			}
		}()
		synctest.Wait()
		require.Empty(t, got, "a plain record behind an open transaction waits as well")
		h.end(7, true)
		synctest.Wait()
		require.Equal(t, []string{"0", "1"}, got)
		stop()
		<-done
		require.NoError(t, c.Close())
		require.NoError(t, h.c.Close())
	})
}
