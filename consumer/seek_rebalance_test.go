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
	"github.com/stratalog/strata/group/assignor"
	"github.com/stratalog/strata/record"
)

// eager is config with an assignor that revokes all partitions in each rebalance.
func eager(commit consumer.CommitMode) consumer.Config {
	cfg := config(commit)
	cfg.Assignors = []assignor.Assignor{assignor.Range()}
	cfg.HeartbeatInterval, cfg.MaxPollRecords, cfg.MaxWait = 100*time.Millisecond, 10, time.Hour
	return cfg
}

var commitModes = map[string]consumer.CommitMode{
	"processed": consumer.CommitProcessed, "manual": consumer.CommitManual, "before delivery": consumer.CommitBeforeDelivery,
}

// Between a seek and the next record, an eager rebalance revokes the partition and assigns it
// again. For every target, commit mode and way of reading, the record sought to is read next.
func TestASeekOutlastsARebalanceThatGivesThePartitionBack(t *testing.T) {
	targets := map[string]int64{"back": 5, "forward": 60, "start": consumer.StartEarliest, "end": consumer.StartLatest}
	wants := map[string]int64{"back": 5, "forward": 60, "start": 0, "end": 100}
	for mode, commit := range commitModes {
		for _, way := range []string{"Records", "Batches", "Poll", "Run"} {
			if way == "Run" && commit == consumer.CommitBeforeDelivery {
				continue
			}
			for name, to := range targets {
				t.Run(fmt.Sprintf("%s/%s/%s", mode, way, name), func(t *testing.T) {
					bubble(t, 1, func(t *testing.T, b *strata.Cluster) {
						fill(t, b, 0, 100)
						c := open(t, b, eager(commit))
						ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
						defer cancel()
						later := make(chan struct{})
						n, sought := 0, false
						next := int64(-1)
						readBy(t, way, ctx, c, func(r record.Record) {
							n++
							switch {
							case sought && next < 0:
								next = r.Offset
								cancel()
							case n == 10:
								time.Sleep(3 * time.Second) // some offsets are committed
							case n == 20:
								sought = true
								if err := c.Seek(tp(0), to); err != nil {
									t.Error(err)
								}
								// Run fetches there, and the records wait for the handler
								time.Sleep(time.Second)
								c.EnforceRebalance()
								time.Sleep(time.Second) // the rebalance begins; it ends when the body has returned
								go func() {
									defer close(later)
									time.Sleep(10 * time.Second)
									fill(t, b, 0, 1)
								}()
							}
						})
						<-later
						require.Equal(t, wants[name], next)
						require.NoError(t, c.Close())
					})
				})
			}
		}
	}
}

// A seek whose offset is known waits at the end of its partition. It outlasts one rebalance after
// the other, and records that are added during one are not skipped.
func TestASeekThatWaitsForARecordOutlastsRebalances(t *testing.T) {
	for mode, commit := range commitModes {
		for _, way := range []string{"Records", "Batches", "Poll", "Run"} {
			if way == "Run" && commit == consumer.CommitBeforeDelivery {
				continue
			}
			t.Run(mode+"/"+way, func(t *testing.T) {
				bubble(t, 1, func(t *testing.T, b *strata.Cluster) {
					fill(t, b, 0, 100)
					var c *consumer.Consumer
					cfg := eager(commit)
					assigned := 0
					cfg.OnAssigned = func(context.Context, []record.TopicPartition) { assigned++ }
					cfg.OnRevoked = func(context.Context, []record.TopicPartition) {
						if assigned == 3 {
							fill(t, b, 0, 5)
						}
					}
					c = open(t, b, cfg)
					require.Equal(t, int64(0), read(t, c, 1)[0].Offset)
					require.NoError(t, c.SeekToEnd())
					ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
					defer cancel()
					done := make(chan struct{})
					go func() {
						defer close(done)
						for range 3 {
							time.Sleep(10 * time.Second)
							c.EnforceRebalance()
						}
					}()
					var seen []int64
					readBy(t, way, ctx, c, func(r record.Record) { seen = append(seen, r.Offset) })
					<-done
					require.Equal(t, []int64{100, 101, 102, 103, 104}, seen)
					require.Equal(t, 4, assigned)
					require.NoError(t, c.Close())
				})
			})
		}
	}
}

// A seek ends once another member has had the partition. The next owner starts at the committed
// offset, also if it is the member that sought.
func TestASeekEndsWhenSomebodyElseHasHadThePartition(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *strata.Cluster) {
		fill(t, b, 0, 100)
		var c *consumer.Consumer
		var reads atomic.Bool
		cfg := eager(consumer.CommitManual)
		cfg.OnAssigned = func(_ context.Context, tps []record.TopicPartition) {
			if !reads.Load() {
				c.Pause(tps...)
			}
		}
		reads.Store(true)
		c = open(t, b, cfg)
		require.NoError(t, c.Commit(t.Context(), read(t, c, 10)...))
		require.NoError(t, c.Seek(tp(0), 60))
		c.Pause()
		reads.Store(false)
		var mu sync.Mutex
		var seen []int64
		m := poll(t, c, func(r record.Record) {
			mu.Lock()
			defer mu.Unlock()
			seen = append(seen, r.Offset)
		})
		time.Sleep(10 * time.Second)
		var others []*member
		// member ids are random: members join until one of them sorts first
		for len(m.Assignment()) > 0 {
			others = append(others, poll(t, open(t, b, eager(consumer.CommitManual)), nil))
			time.Sleep(10 * time.Second)
		}
		mu.Lock()
		require.Empty(t, seen)
		mu.Unlock()
		reads.Store(true)
		for _, o := range others {
			o.leave(t)
		}
		time.Sleep(10 * time.Second)
		mu.Lock()
		require.Equal(t, int64(10), seen[0])
		mu.Unlock()
		m.leave(t)
	})
}

// The offset belonged to the deleted topic.
func TestASeekEndsWithItsTopic(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *strata.Cluster) {
		fill(t, b, 0, 100)
		c := open(t, b, eager(consumer.CommitProcessed))
		read(t, c, 10)
		require.NoError(t, c.Seek(tp(0), 60))
		recreate(t, b, 1, 0)
		fill(t, b, 0, 100)
		c.EnforceRebalance()
		require.Equal(t, int64(0), read(t, c, 1)[0].Offset)
		require.NoError(t, c.Close())
	})
}

// The group continues at the position that a member sought, once its offset is known, although the
// member left before it read a record.
func TestWhatASeekFindsIsCommittedLikeAnOffset(t *testing.T) {
	for to, want := range map[int64]int64{60: 60, consumer.StartEarliest: 0, consumer.StartLatest: 100} {
		t.Run(fmt.Sprint(to), func(t *testing.T) {
			bubble(t, 1, func(t *testing.T, b *strata.Cluster) {
				fill(t, b, 0, 100)
				c := open(t, b, config(consumer.CommitProcessed))
				read(t, c, 10)
				require.NoError(t, c.Seek(tp(0), to))
				if to != consumer.StartLatest {
					read(t, c, 1) // the record is in hand, and returned
				} else {
					ctx, cancel := context.WithTimeout(t.Context(), time.Second)
					defer cancel()
					_, err := c.Poll(ctx)
					require.ErrorIs(t, err, context.DeadlineExceeded)
				}
				require.NoError(t, c.Close())
				require.Equal(t, record.Offsets{tp(0): want}, committed(t, b, "g"))
			})
		})
	}
}
