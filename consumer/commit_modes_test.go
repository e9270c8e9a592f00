package consumer_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/consumer"
	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/topic"
	"github.com/stratalog/strata/vfs"
)

// slowDisk is bubble with a disk whose syncs take a second once slow is called.
func slowDisk(t *testing.T, fn func(t *testing.T, b *strata.Cluster, slow func())) {
	synctest.Test(t, func(t *testing.T) {
		disk := vfs.Mem()
		b, err := strata.Open(strata.Config{FS: disk})
		require.NoError(t, err)
		require.NoError(t, b.CreateTopic(t.Context(), "t", topic.Config{Partitions: 1}))
		remove := func() {}
		t.Cleanup(func() {
			remove()
			require.NoError(t, b.Close())
		})
		fn(t, b, func() { remove = disk.Inject(vfs.Fault{Ops: vfs.OpSync, Times: vfs.Always, Delay: time.Second}) })
	})
}

func TestPeriodicCommitLeavesOutWhatIsInHand(t *testing.T) {
	for _, way := range []string{"Records", "Batches", "Poll"} {
		t.Run(way, func(t *testing.T) {
			bubble(t, 1, func(t *testing.T, b *strata.Cluster) {
				fill(t, b, 0, 6)
				cfg := config(consumer.CommitProcessed)
				cfg.MaxPollRecords = 3
				c := open(t, b, cfg)
				ctx, stop := context.WithCancel(t.Context())
				readBy(t, way, ctx, c, func(r record.Record) {
					if r.Offset != 4 {
						return
					}
					time.Sleep(10 * time.Second)
					want := int64(4) // 4 is in hand
					if way != "Records" {
						want = 3 // the batch of 3, 4 and 5 is
					}
					require.Equal(t, record.Offsets{tp(0): want}, committed(t, b, "g"))
					stop()
				})
				require.NoError(t, c.Close())
			})
		})
	}
}

func TestPeriodicCommitDoesNotGoBehindTheApplications(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *strata.Cluster) {
		fill(t, b, 0, 3)
		c := open(t, b, config(consumer.CommitProcessed))
		for r, err := range c.Records(t.Context()) {
			require.NoError(t, err)
			if r.Offset == 1 {
				require.NoError(t, c.Commit(t.Context(), r))
				time.Sleep(10 * time.Second)
				require.Equal(t, record.Offsets{tp(0): 2}, committed(t, b, "g"))
				break
			}
		}
		require.NoError(t, c.Close())
		require.Equal(t, record.Offsets{tp(0): 2}, committed(t, b, "g"))
	})
}

func TestRecordInHandAtACrashComesAgain(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *strata.Cluster) {
		fill(t, b, 0, 6)
		link := &cutOff{Backend: b}
		c := open(t, link, config(consumer.CommitProcessed))
		for r, err := range c.Records(t.Context()) {
			require.NoError(t, err)
			if r.Offset == 3 {
				time.Sleep(5 * time.Second) // periodic commits run meanwhile
				link.off.Store(true)        // the process dies with the record in hand
				break
			}
		}
		time.Sleep(2 * time.Minute)
		other := open(t, b, config(consumer.CommitProcessed))
		require.Equal(t, int64(3), read(t, other, 1)[0].Offset)
		require.NoError(t, other.Close())
		link.off.Store(false)
	})
}

func TestEachPollConfirmsTheBatchBeforeItAndNoOther(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *strata.Cluster) {
		fill(t, b, 0, 20)
		cfg := config(consumer.CommitProcessed)
		cfg.MaxPollRecords = 5
		c := open(t, b, cfg)
		for i := range int64(4) {
			batch, err := c.Poll(t.Context())
			require.NoError(t, err)
			require.Equal(t, record.Offsets{tp(0): 5 * (i + 1)}, batch.Offsets())
			time.Sleep(2 * time.Second)
			if i > 0 {
				require.Equal(t, record.Offsets{tp(0): 5 * i}, committed(t, b, "g"))
			} else {
				require.Empty(t, committed(t, b, "g"))
			}
		}
		require.NoError(t, c.Close())
		require.Equal(t, record.Offsets{tp(0): 15}, committed(t, b, "g"), "the last batch was not confirmed")
	})
}

func TestBatchIsProcessedConcurrentlyAndConfirmedWhenAllOfItIsDone(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *strata.Cluster) {
		fill(t, b, 0, 20)
		c := open(t, b, config(consumer.CommitManual))
		batch, err := c.Poll(t.Context())
		require.NoError(t, err)
		var wg sync.WaitGroup
		var rs []record.Record
		var mu sync.Mutex
		for r := range batch.All() {
			wg.Go(func() {
				time.Sleep(time.Duration(rand.IntN(1000)) * time.Millisecond) // in any order
				mu.Lock()
				defer mu.Unlock()
				rs = append(rs, r)
			})
		}
		wg.Wait()
		require.Empty(t, committed(t, b, "g"))
		rand.Shuffle(len(rs), func(i, j int) { rs[i], rs[j] = rs[j], rs[i] })
		require.NoError(t, c.Commit(t.Context(), rs...))
		require.Equal(t, record.Offsets{tp(0): 20}, committed(t, b, "g"))
		require.NoError(t, c.Close())
	})
}

func TestAsyncCommitsDoNotBlockAndCallBackWhenTheyAreDurable(t *testing.T) {
	slowDisk(t, func(t *testing.T, b *strata.Cluster, slow func()) {
		fill(t, b, 0, 5)
		c := open(t, b, config(consumer.CommitManual))
		rs := read(t, c, 5)
		require.NoError(t, c.Commit(t.Context(), rs[0])) // creates the files of the offsets topic
		slow()
		begun := time.Now()
		type confirmation struct {
			offset int64
			after  time.Duration
		}
		confirmed := make(chan confirmation, 5)
		for i := range int64(5) {
			c.CommitAsync(record.Offsets{tp(0): i + 1}, func(o record.Offsets, err error) {
				if err != nil {
					t.Error(err)
				}
				confirmed <- confirmation{o[tp(0)], time.Since(begun)}
			})
			synctest.Wait() // the first commit is on its way before the others are queued
		}
		require.Zero(t, time.Since(begun), "nobody waited")
		// the first commit; the commits queued meanwhile, sent as one
		durable := []time.Duration{time.Second, 2 * time.Second}
		for i := range int64(5) {
			got := <-confirmed
			require.Equal(t, i+1, got.offset, "in the order of the calls")
			require.Equal(t, durable[min(i, 1)], got.after, "when it is durable")
		}
		require.NoError(t, c.Close())
	})
}

func TestCommitReturnsWhenItIsDurable(t *testing.T) {
	slowDisk(t, func(t *testing.T, b *strata.Cluster, slow func()) {
		fill(t, b, 0, 5)
		c := open(t, b, config(consumer.CommitManual))
		rs := read(t, c, 5)
		require.NoError(t, c.Commit(t.Context(), rs[0]))
		slow()
		begun := time.Now()
		require.NoError(t, c.Commit(t.Context(), rs[4]))
		require.GreaterOrEqual(t, time.Since(begun), time.Second)
		require.Equal(t, record.Offsets{tp(0): 5}, committed(t, b, "g"))
		require.NoError(t, c.Close())
	})
}
