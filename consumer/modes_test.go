package consumer_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/consumer"
	"github.com/stratalog/strata/group"
	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/record"
)

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

// A partition that was added while the group was active is read from its first record. This also
// holds for a member that gets it later and has another Reset.
func TestGroupThatHadAPartitionFromItsFirstRecordOnGoesOnThere(t *testing.T) {
	for _, how := range []string{"added", "created again"} {
		t.Run(how, func(t *testing.T) {
			bubble(t, 1, func(t *testing.T, b *strata.Cluster) {
				send(t, b, 0, "before", 2)
				cfg := config(consumer.CommitProcessed)
				cfg.Reset = consumer.Latest()
				m := poll(t, open(t, b, cfg), nil)
				time.Sleep(20 * time.Second)
				last := int32(0)
				if how == "added" {
					require.NoError(t, b.AddPartitions(t.Context(), "t", 2))
					last = 1
				} else {
					recreate(t, b, 1, 0)
				}
				time.Sleep(20 * time.Second)
				m.leave(t)
				send(t, b, last, "meanwhile", 1)
				c := open(t, b, cfg)
				require.Equal(t, fmt.Sprintf("meanwhile-%d-0", last), string(read(t, c, 1)[0].Value))
				require.NoError(t, c.Close())
			})
		})
	}
}

// A partition that appeared while the whole group was away begins where Reset points, as in Kafka.
// It looks like a partition that is older than the group.
func TestPartitionsThatCameWhileTheGroupWasAwayBeginWhereResetSays(t *testing.T) {
	for name, reset := range map[string]consumer.Reset{"earliest": consumer.Earliest(), "latest": consumer.Latest()} {
		for _, how := range []string{"added", "created again"} {
			t.Run(name+"/"+how, func(t *testing.T) {
				bubble(t, 1, func(t *testing.T, b *strata.Cluster) {
					cfg := config(consumer.CommitProcessed)
					cfg.Reset = reset
					m := poll(t, open(t, b, cfg), nil)
					send(t, b, 0, "before", 2)
					time.Sleep(20 * time.Second)
					m.leave(t)
					last := int32(0)
					if how == "added" {
						require.NoError(t, b.AddPartitions(t.Context(), "t", 2))
						last = 1
					} else {
						recreate(t, b, 1, 0)
					}
					send(t, b, last, "meanwhile", 1)
					var mu sync.Mutex
					var seen []string
					m = poll(t, open(t, b, cfg), func(r record.Record) {
						mu.Lock()
						defer mu.Unlock()
						seen = append(seen, string(r.Value))
					})
					time.Sleep(20 * time.Second)
					send(t, b, last, "after", 1)
					time.Sleep(20 * time.Second)
					m.leave(t)
					want := []string{fmt.Sprintf("meanwhile-%d-0", last), fmt.Sprintf("after-%d-0", last)}
					if name == "latest" {
						want = want[1:]
					}
					require.Equal(t, want, seen)
				})
			})
		}
	}
}

// A group that began at the end has an offset, although it read no record. Records written while
// it is away are read.
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
		go func() { // the caller of Run continues with other work
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

// loner is a backend that fails the test at every group call.
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

func (l loner) FetchStableOffsets(context.Context, string, []record.TopicPartition) (map[record.TopicPartition]record.Committed, map[record.TopicPartition]error, error) {
	l.t.Error("a free consumer asked for committed offsets")
	return nil, nil, nil
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
		// The consumers are not polled: no partition is taken from them.
		time.Sleep(10 * consumer.DefaultMaxPollInterval)
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
