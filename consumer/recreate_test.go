package consumer_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/consumer"
	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/producer"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/topic"
)

// recreate deletes topic "t" and creates it again, after pause, with the given partitions.
func recreate(t *testing.T, b *strata.Cluster, partitions int, pause time.Duration) {
	t.Helper()
	require.NoError(t, b.DeleteTopic(t.Context(), "t"))
	time.Sleep(pause)
	require.NoError(t, b.CreateTopic(t.Context(), "t", topic.Config{Partitions: partitions}))
}

// send produces n records with values prefix-0, prefix-1, … to partition p.
func send(t *testing.T, b *strata.Cluster, p int32, prefix string, n int) {
	t.Helper()
	pr, err := producer.New(b, producer.Config{})
	require.NoError(t, err)
	for i := range n {
		_, err := pr.Send(t.Context(), record.String("t", "", fmt.Sprintf("%s-%d-%d", prefix, p, i)).To(p))
		require.NoError(t, err)
	}
	require.NoError(t, pr.Close())
}

var kinds = map[string]consumer.Config{
	"topics":   {Topics: []string{"t"}},
	"assigned": {Assign: record.Offsets{{Topic: "t"}: consumer.StartEarliest, {Topic: "t", Partition: 1}: 0}},
	"group":    {Group: "g", Topics: []string{"t"}},
	"latest":   {Group: "g", Topics: []string{"t"}, Reset: consumer.Latest()},
	"sought":   {Topics: []string{"t"}, Reset: consumer.Latest()},
}

// A topic is deleted and created again several times, at once or later, shorter or longer than the
// position in the old one. Every record of each new topic is read, in order, and none twice within
// a member.
func TestEveryRecordOfATopicThatWasCreatedAgainIsRead(t *testing.T) {
	for name, cfg := range kinds {
		for seed := range uint64(9) {
			t.Run(fmt.Sprintf("%s/%d", name, seed), func(t *testing.T) {
				bubble(t, 2, func(t *testing.T, b *strata.Cluster) {
					rnd := rand.New(rand.NewPCG(seed, 9))
					cfg.MaxWait, cfg.MaxPollRecords = time.Hour, 1+rnd.IntN(5)
					c := open(t, b, cfg)
					var mu sync.Mutex
					seen := map[string]int{}
					ctx, stop := context.WithCancel(t.Context())
					done := make(chan struct{})
					go func() {
						defer close(done)
						readBy(t, []string{"Records", "Batches", "Run"}[seed%3], ctx, c, func(r record.Record) {
							mu.Lock()
							defer mu.Unlock()
							seen[string(r.Value)]++
						})
					}()
					time.Sleep(20 * time.Second)
					want := map[string]int{}
					for life := range 4 {
						for p := range int32(2) {
							n := 1 + rnd.IntN(12)
							send(t, b, p, fmt.Sprint(life), n)
							for i := range n {
								want[fmt.Sprintf("%d-%d-%d", life, p, i)] = 1
							}
						}
						time.Sleep(time.Duration(rnd.IntN(2)) * time.Minute)
						synctest.Wait()
						if life < 3 {
							mu.Lock()
							// records that were not read are deleted with the topic
							for v := range want {
								if seen[v] == 0 {
									delete(want, v)
								}
							}
							mu.Unlock()
							recreate(t, b, 2, time.Duration(rnd.IntN(3)-1)*time.Minute)
						}
					}
					time.Sleep(5 * time.Minute)
					mu.Lock()
					for v := range want {
						require.Equal(t, 1, seen[v], "record %s", v)
					}
					mu.Unlock()
					stop()
					<-done
					require.NoError(t, c.Close())
				})
			})
		}
	}
}

// Every offset belongs to the topic that it was taken from.
func TestOffsetsOfADeletedTopicDoNotReachTheOneCreatedAfterIt(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *strata.Cluster) {
		send(t, b, 0, "old", 10)
		c := open(t, b, config(consumer.CommitManual))
		rs := read(t, c, 10)
		require.NoError(t, c.Commit(t.Context(), rs[8]))
		c.Pause(tp(0))
		recreate(t, b, 1, 0)
		send(t, b, 0, "new", 3)
		// The loop body has not noticed the new topic yet. None of its offsets may be stored
		// for it.
		require.ErrorIs(t, c.Commit(t.Context(), rs[9]), consumer.ErrRebalanced)
		require.ErrorIs(t, c.CommitOffsets(t.Context(), record.Offsets{tp(0): 10}), consumer.ErrRebalanced)
		async := make(chan error, 1)
		c.CommitAsync(record.Offsets{tp(0): 10}, func(_ record.Offsets, err error) { async <- err })
		require.ErrorIs(t, <-async, consumer.ErrRebalanced)
		time.Sleep(20 * time.Second)
		got, err := c.Committed(t.Context())
		require.NoError(t, err)
		require.Empty(t, got)
		require.Equal(t, "new-0-0", string(read(t, c, 1)[0].Value), "not paused, from the first record on")
		require.Equal(t, int64(0), c.Position(tp(0)))
		require.Equal(t, map[record.TopicPartition]int64{tp(0): 3}, c.Lag())
		require.ErrorIs(t, c.Commit(t.Context(), rs[9]), consumer.ErrRebalanced)
		require.Empty(t, committed(t, b, "g"))
		require.NoError(t, c.SeekTime(t.Context(), time.Now().Add(time.Hour)))
		require.NoError(t, c.Close())
	})
}

func TestShrunkTopicIsReadAndItsMissingPartitionsGo(t *testing.T) {
	for name, cfg := range map[string]consumer.Config{"topics": kinds["topics"], "group": kinds["group"]} {
		t.Run(name, func(t *testing.T) {
			bubble(t, 4, func(t *testing.T, b *strata.Cluster) {
				var mu sync.Mutex
				var seen []string
				m := poll(t, open(t, b, cfg), func(r record.Record) {
					mu.Lock()
					defer mu.Unlock()
					seen = append(seen, string(r.Value))
				})
				time.Sleep(20 * time.Second)
				require.Len(t, m.Assignment(), 4)
				recreate(t, b, 2, 0)
				send(t, b, 1, "new", 2)
				time.Sleep(20 * time.Second)
				require.Equal(t, []record.TopicPartition{tp(0), tp(1)}, m.Assignment())
				mu.Lock()
				require.Equal(t, []string{"new-1-0", "new-1-1"}, seen)
				mu.Unlock()
				m.leave(t)
			})
		})
	}
}

// sendTo produces values to partition 0 of a topic.
func sendTo(t *testing.T, b *strata.Cluster, name string, values ...string) {
	t.Helper()
	pr, err := producer.New(b, producer.Config{})
	require.NoError(t, err)
	for _, v := range values {
		_, err := pr.Send(t.Context(), record.String(name, "", v).To(0))
		require.NoError(t, err)
	}
	require.NoError(t, pr.Close())
}

// A member waits in a join while its topic is created again. It reads the new one before the
// rebalance has ended.
func TestTopicCreatedAgainDuringARebalanceIsReadBeforeItsEnd(t *testing.T) {
	bubble(t, 2, func(t *testing.T, b *strata.Cluster) {
		var seen, slow atomic.Int64
		h := &hooked{Backend: b, join: func(ctx context.Context) error {
			if slow.Load() != 0 {
				select {
				case <-time.After(5 * time.Minute):
				case <-ctx.Done():
				}
			}
			return ctx.Err()
		}}
		m := poll(t, open(t, h, config(consumer.CommitProcessed)), func(r record.Record) {
			if strings.HasPrefix(string(r.Value), "new") {
				seen.Add(1)
			}
		})
		time.Sleep(20 * time.Second)
		send(t, b, 0, "old", 5)
		slow.Store(1)
		m.EnforceRebalance()
		time.Sleep(time.Second)
		recreate(t, b, 2, 0)
		send(t, b, 0, "new", 3)
		time.Sleep(5 * time.Second)
		require.Equal(t, int64(3), seen.Load())
		m.leave(t)
	})
}

// deaf is a cluster whose WaitMetadata reports no change once on is set.
type deaf struct {
	*strata.Cluster
	on atomic.Bool
}

func (d *deaf) WaitMetadata(ctx context.Context, after int64) (int64, error) {
	v, err := d.Cluster.WaitMetadata(ctx, after)
	if d.on.Load() {
		<-ctx.Done()
		return 0, ctx.Err()
	}
	return v, err
}

func TestCommitsBeforeTheConsumerHeardOfTheNewTopicAreRefused(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *strata.Cluster) {
		send(t, b, 0, "old", 10)
		d := &deaf{Cluster: b}
		c := open(t, d, config(consumer.CommitManual))
		rs := read(t, c, 10)
		synctest.Wait() // its goroutines wait for changes
		d.on.Store(true)
		recreate(t, b, 1, 0)
		send(t, b, 0, "new", 20)
		synctest.Wait() // the coordinator has noticed
		require.Equal(t, []record.TopicPartition{tp(0)}, c.Assignment(), "the consumer has not")
		require.ErrorIs(t, c.Commit(t.Context(), rs[9]), consumer.ErrRebalanced)
		require.Empty(t, committed(t, b, "g"))
		require.NoError(t, c.Close())
	})
}
