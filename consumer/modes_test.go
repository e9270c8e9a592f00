package consumer_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/consumer"
	"github.com/stratalog/strata/group"
	"github.com/stratalog/strata/partition"
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

func TestEachPartitionHasItsPositionWhichIsTheNextRecordHandedOut(t *testing.T) {
	bubble(t, 3, func(t *testing.T, b *strata.Cluster) {
		for p := range int32(3) {
			fill(t, b, p, 10*int(p+1))
		}
		c := open(t, b, consumer.Config{Assign: record.Offsets{tp(0): 0, tp(1): 5, tp(2): 9}, MaxPollRecords: 4})
		next := record.Offsets{tp(0): 0, tp(1): 5, tp(2): 9}
		for next[tp(0)] < 10 || next[tp(1)] < 20 || next[tp(2)] < 30 {
			batch, err := c.Poll(t.Context())
			require.NoError(t, err)
			for at, rs := range batch.Partitions() {
				for _, r := range rs {
					require.Equal(t, next[at], r.Offset)
					next[at]++
				}
			}
			for at, offset := range next {
				if pos := c.Position(at); pos >= 0 {
					require.Equal(t, offset, pos, "%v", at)
				}
			}
		}
		require.NoError(t, c.Close())
	})
}

func TestFirstSubscriptionStartsAtTheEndThatResetNames(t *testing.T) {
	for _, g := range []string{"", "g"} {
		for name, reset := range map[string]consumer.Reset{"earliest": consumer.Earliest(), "latest": consumer.Latest()} {
			t.Run(name+g, func(t *testing.T) {
				bubble(t, 1, func(t *testing.T, b *strata.Cluster) {
					send(t, b, 0, "before", 2)
					var mu sync.Mutex
					var got []string
					m := poll(t, open(t, b, consumer.Config{Group: g, Topics: []string{"t"}, Reset: reset}), func(r record.Record) {
						mu.Lock()
						defer mu.Unlock()
						got = append(got, string(r.Value))
					})
					time.Sleep(20 * time.Second)
					send(t, b, 0, "after", 1)
					time.Sleep(time.Second)
					mu.Lock()
					if name == "earliest" {
						require.Equal(t, []string{"before-0-0", "before-0-1", "after-0-0"}, got)
					} else {
						require.Equal(t, []string{"after-0-0"}, got)
					}
					mu.Unlock()
					m.leave(t)
				})
			})
		}
	}
}

// A group that began at the end has a place, although nothing came: what is written while it is
// away is read.
func TestGroupThatBeganAtTheEndMissesNothingWhileItIsAway(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *strata.Cluster) {
		send(t, b, 0, "before", 2)
		cfg := config(consumer.CommitProcessed)
		cfg.Reset = consumer.Latest()
		m := poll(t, open(t, b, cfg), nil)
		time.Sleep(20 * time.Second)
		m.leave(t)
		send(t, b, 0, "meanwhile", 1)
		c := open(t, b, cfg)
		require.Equal(t, "meanwhile-0-0", string(read(t, c, 1)[0].Value))
		require.NoError(t, c.Close())
	})
}

func TestReadingBlocksUntilARecordComesOrIsPushedToAHandler(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *strata.Cluster) {
		time.AfterFunc(7*time.Second, func() { fill(t, b, 0, 1) })
		c := open(t, b, consumer.Config{Assign: record.Offsets{tp(0): 0}})
		begun := time.Now()
		batch, err := c.Poll(t.Context()) // the caller waits
		require.NoError(t, err)
		require.Equal(t, 1, batch.Len())
		require.Equal(t, 7*time.Second, time.Since(begun))

		handled := make(chan int64, 10)
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { // the caller of Run goes on with something else
			ended <- c.Run(ctx, func(_ context.Context, r record.Record) error { handled <- r.Offset; return nil }, consumer.RunConfig{})
		}()
		time.Sleep(time.Minute)
		require.Empty(t, handled)
		fill(t, b, 0, 2)
		require.ElementsMatch(t, []int64{1, 2}, []int64{<-handled, <-handled})
		stop()
		require.NoError(t, <-ended)
		require.NoError(t, c.Close())
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
				time.Sleep(5 * time.Second) // periodic commits come by
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
		require.NoError(t, c.Commit(t.Context(), rs[0])) // the offsets topic has its files
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
			synctest.Wait() // the first one is on its way before the others come
		}
		require.Zero(t, time.Since(begun), "nobody waited")
		durable := []time.Duration{time.Second, 2 * time.Second} // the first one; those that came meanwhile, sent as one
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

func TestFetchReturnsAsSoonAsMinBytesAreThere(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *strata.Cluster) {
		c := open(t, b, consumer.Config{Assign: record.Offsets{tp(0): 0}, MinBytes: 1000, MaxWait: time.Minute})
		begun := time.Now()
		var sending sync.WaitGroup // a record can be read before its Send has returned
		sending.Go(func() {
			time.Sleep(time.Second)
			sendTo(t, b, "t", "small")
			time.Sleep(time.Until(begun.Add(5 * time.Second)))
			sendTo(t, b, "t", string(make([]byte, 1000)))
		})
		batch, err := c.Poll(t.Context())
		require.NoError(t, err)
		require.Equal(t, 5*time.Second, time.Since(begun), "not with the small one, and not after MaxWait")
		require.Equal(t, 2, batch.Len(), "the small one comes with it")
		sending.Wait()
		require.NoError(t, c.Close())
	})
}

// fetches counts fetches.
type fetches struct {
	*strata.Cluster
	n atomic.Int64
}

func (f *fetches) Fetch(ctx context.Context, req *partition.FetchRequest) (*partition.FetchResponse, error) {
	f.n.Add(1)
	return f.Cluster.Fetch(ctx, req)
}

func TestManyPollsAreServedFromWhatOneFetchBrought(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *strata.Cluster) {
		fill(t, b, 0, 100)
		f := &fetches{Cluster: b}
		c := open(t, f, consumer.Config{Assign: record.Offsets{tp(0): 0}, MaxPollRecords: 10})
		for i := range int64(10) {
			batch, err := c.Poll(t.Context())
			require.NoError(t, err)
			require.Equal(t, 10, batch.Len())
			require.Equal(t, 10*(i+1), batch.Offsets()[tp(0)])
		}
		require.Equal(t, int64(1), f.n.Load())
		require.NoError(t, c.Close())
	})
}

// loner is a backend that no group call may reach.
type loner struct {
	*strata.Cluster
	t *testing.T
}

func (l loner) Join(ctx context.Context, _ group.JoinRequest) (group.JoinResponse, error) {
	l.t.Error("a free consumer joined a group")
	<-ctx.Done()
	return group.JoinResponse{}, ctx.Err()
}

func (l loner) Heartbeat(context.Context, group.HeartbeatRequest) error {
	l.t.Error("a free consumer sent a heartbeat")
	return nil
}

func (l loner) CommitOffsets(context.Context, group.CommitRequest) (map[record.TopicPartition]error, error) {
	l.t.Error("a free consumer committed")
	return nil, nil
}

func (l loner) FetchOffsets(context.Context, string, []record.TopicPartition) (map[record.TopicPartition]record.Committed, error) {
	l.t.Error("a free consumer asked for committed offsets")
	return nil, nil
}

func TestFreeConsumersHaveNoGroupExclusivityHeartbeatOrFailureDetection(t *testing.T) {
	bubble(t, 2, func(t *testing.T, b *strata.Cluster) {
		fill(t, b, 0, 3)
		var cs []*consumer.Consumer
		for _, cfg := range []consumer.Config{{Assign: record.Offsets{tp(0): 0}}, {Topics: []string{"t"}}, {Topics: []string{"t"}}} {
			c := open(t, loner{b, t}, cfg)
			require.Len(t, read(t, c, 3), 3, "every one reads every record")
			cs = append(cs, c)
		}
		time.Sleep(10 * consumer.DefaultMaxPollInterval) // not polled: nobody notices, nobody takes anything away
		fill(t, b, 0, 1)
		for _, c := range cs {
			require.Len(t, read(t, c, 2), 2)
			require.Contains(t, c.Assignment(), tp(0))
			require.NoError(t, c.Close())
		}
		groups, err := b.Groups(t.Context())
		require.NoError(t, err)
		require.Empty(t, groups)
	})
}
