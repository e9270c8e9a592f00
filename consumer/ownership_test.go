package consumer_test

import (
	"context"
	"errors"
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
	"github.com/stratalog/strata/replication"
	"github.com/stratalog/strata/topic"
)

// owners returns, by partition of "t", the number of consumers that have it.
func owners(cs ...*consumer.Consumer) map[record.TopicPartition]int {
	n := map[record.TopicPartition]int{}
	for _, c := range cs {
		for _, tp := range c.Assignment() {
			n[tp]++
		}
	}
	return n
}

func requireOneOwnerEach(t *testing.T, partitions int32, cs ...*consumer.Consumer) {
	t.Helper()
	n := owners(cs...)
	require.Len(t, n, int(partitions))
	for tp, owners := range n {
		require.Equal(t, 1, owners, "owners of %v", tp)
	}
}

// A member that never polled is assigned partitions and stays away too long. Another member gets
// them.
func TestMemberThatWasNotPolledInTimeHoldsNothingOfItsFormerMembership(t *testing.T) {
	for name, assignors := range map[string][]assignor.Assignor{"eager": {assignor.Range()}, "cooperative": {assignor.CooperativeSticky()}} {
		t.Run(name, func(t *testing.T) {
			bubble(t, 8, func(t *testing.T, b *strata.Cluster) {
				for p := range int32(8) {
					fill(t, b, p, 10)
				}
				cfg := config(consumer.CommitManual)
				cfg.Assignors = assignors
				away := open(t, b, cfg)
				waitStable(t, b, "g", 1)
				time.Sleep(consumer.DefaultMaxPollInterval + time.Minute)
				cfg.Commit = consumer.CommitProcessed
				present := poll(t, open(t, b, cfg), nil)
				time.Sleep(time.Minute)
				require.Len(t, present.Assignment(), 8)
				back := poll(t, away, func(r record.Record) {
					if present.Position(record.TopicPartition{Topic: r.Topic, Partition: r.Partition}) >= 0 {
						t.Errorf("%d of partition %d came to a member that does not have it", r.Offset, r.Partition)
					}
				})
				time.Sleep(time.Minute)
				requireOneOwnerEach(t, 8, away, present.Consumer)
				back.leave(t)
				present.leave(t)
			})
		})
	}
}

// A member stays in a loop body for too long while the group is about to assign it more
// partitions.
func TestMemberThatStayedAwayWhileItGainedPartitionsHoldsNothingAndCannotCommit(t *testing.T) {
	bubble(t, 8, func(t *testing.T, b *strata.Cluster) {
		for p := range int32(8) {
			fill(t, b, p, 100)
		}
		manual := config(consumer.CommitManual)
		manual.Assignors = []assignor.Assignor{assignor.CooperativeSticky()}
		first := poll(t, open(t, b, manual), nil)
		time.Sleep(10 * time.Second)
		zombie := open(t, b, manual)
		waitStable(t, b, "g", 2)
		for r, err := range zombie.Records(t.Context()) {
			require.NoError(t, err)
			first.leave(t) // the group is about to assign all partitions to the zombie
			time.Sleep(consumer.DefaultMaxPollInterval + 2*time.Minute)
			cfg := manual
			cfg.Commit = consumer.CommitProcessed
			next := poll(t, open(t, b, cfg), nil)
			time.Sleep(time.Minute)
			require.Len(t, next.Assignment(), 8)
			require.Empty(t, zombie.Assignment())
			before := committed(t, b, "g")
			require.ErrorIs(t, zombie.Commit(t.Context(), r), consumer.ErrRebalanced)
			require.ErrorIs(t, zombie.CommitReturned(t.Context()), consumer.ErrRebalanced)
			require.ErrorIs(t, zombie.CommitOffsets(t.Context(), record.Offsets{tp(r.Partition): 7}), consumer.ErrRebalanced)
			done := make(chan error, 1)
			zombie.CommitAsync(record.Offsets{tp(r.Partition): 7}, func(_ record.Offsets, err error) { done <- err })
			require.ErrorIs(t, <-done, consumer.ErrRebalanced)
			require.Equal(t, before, committed(t, b, "g"))
			defer next.leave(t)
			break
		}
		back := poll(t, zombie, nil)
		time.Sleep(time.Minute)
		require.Len(t, zombie.Assignment(), 4)
		back.leave(t)
	})
}

// Records read before a partition was lost are not committed after the member gets it again: other
// members may have read further.
func TestRecordsOfAnEarlierAssignmentAreNotCommittedWhenThePartitionComesBack(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *strata.Cluster) {
		fill(t, b, 0, 100)
		slow := open(t, b, config(consumer.CommitManual))
		old := read(t, slow, 8)[7]
		time.Sleep(consumer.DefaultMaxPollInterval + time.Minute)
		other := poll(t, open(t, b, config(consumer.CommitProcessed)), nil)
		time.Sleep(time.Minute)
		other.leave(t)
		require.Equal(t, record.Offsets{tp(0): 100}, committed(t, b, "g"))
		fill(t, b, 0, 1)
		require.Equal(t, int64(100), read(t, slow, 1)[0].Offset, "the partition is back")
		require.ErrorIs(t, slow.Commit(t.Context(), old), consumer.ErrRebalanced)
		require.ErrorIs(t, slow.CommitOffsets(t.Context(), record.Offsets{tp(0): 8}), consumer.ErrRebalanced)
		require.ErrorIs(t, slow.CommitMetadata(t.Context(), map[record.TopicPartition]record.Committed{tp(0): {Offset: 8}}), consumer.ErrRebalanced)
		done := make(chan error, 1)
		slow.CommitAsync(record.Offsets{tp(0): 8}, func(_ record.Offsets, err error) { done <- err })
		require.ErrorIs(t, <-done, consumer.ErrRebalanced)
		require.Equal(t, record.Offsets{tp(0): 100}, committed(t, b, "g"))
		require.NoError(t, slow.Seek(tp(0), 8))
		require.NoError(t, slow.CommitOffsets(t.Context(), record.Offsets{tp(0): 8}), "sought back on purpose")
		require.Equal(t, record.Offsets{tp(0): 8}, committed(t, b, "g"))
		require.NoError(t, slow.Close())
	})
}

func TestPartitionsOfADeletedTopicGo(t *testing.T) {
	for name, cfg := range map[string]consumer.Config{
		"free": {Topics: []string{"t", "u"}}, "group": {Group: "g", Topics: []string{"t", "u"}},
		"assigned": {Assign: record.Offsets{tp(0): 0, tp(1): 0, {Topic: "u"}: 0}},
	} {
		for _, early := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				bubble(t, 2, func(t *testing.T, b *strata.Cluster) {
					require.NoError(t, b.CreateTopic(t.Context(), "u", topic.Config{Partitions: 1}))
					var mu sync.Mutex
					var lost []record.TopicPartition
					cfg.OnLost = func(_ context.Context, tps []record.TopicPartition) {
						mu.Lock()
						defer mu.Unlock()
						lost = append(lost, tps...)
					}
					c := open(t, b, cfg)
					time.Sleep(10 * time.Second)
					if early { // no member has polled: the assignment waits
						require.NoError(t, b.DeleteTopic(t.Context(), "t"))
						time.Sleep(10 * time.Second)
					}
					m := poll(t, c, nil)
					time.Sleep(10 * time.Second)
					if !early {
						require.Len(t, c.Assignment(), 3)
						require.NoError(t, b.DeleteTopic(t.Context(), "t"))
						time.Sleep(10 * time.Second)
						mu.Lock()
						require.Equal(t, []record.TopicPartition{tp(0), tp(1)}, lost)
						mu.Unlock()
					}
					require.Equal(t, []record.TopicPartition{{Topic: "u"}}, c.Assignment())
					require.ErrorIs(t, c.Seek(tp(0), 0), consumer.ErrNotAssigned)
					require.Equal(t, int64(-1), c.Position(tp(0)))
					m.leave(t)
				})
			})
		}
	}
}

// join opens n members that poll, and returns them. After each it waits 20 s, so that the group is
// stable.
func join(t *testing.T, b *strata.Cluster, n int, assignors ...assignor.Assignor) (ms []*member) {
	t.Helper()
	for range n {
		cfg := config(consumer.CommitProcessed)
		cfg.Assignors = assignors
		ms = append(ms, poll(t, open(t, b, cfg), nil))
		time.Sleep(20 * time.Second)
	}
	return ms
}

func TestSurvivorsOfALeaverKeepWhatTheyHave(t *testing.T) {
	for name, assignors := range map[string][]assignor.Assignor{"default": nil, "sticky": {assignor.Sticky()}, "cooperative": {assignor.CooperativeSticky()}} {
		t.Run(name, func(t *testing.T) {
			bubble(t, 12, func(t *testing.T, b *strata.Cluster) {
				ms := join(t, b, 4, assignors...)
				var before [][]record.TopicPartition
				for _, m := range ms {
					require.Len(t, m.Assignment(), 3)
					before = append(before, m.Assignment())
				}
				ms[1].leave(t)
				time.Sleep(time.Minute)
				for _, i := range []int{0, 2, 3} {
					require.Len(t, ms[i].Assignment(), 4)
					require.Subset(t, ms[i].Assignment(), before[i])
				}
				for _, i := range []int{0, 2, 3} {
					ms[i].leave(t)
				}
			})
		})
	}
}

func TestOnlyTheNewcomersShareMoves(t *testing.T) {
	for name, assignors := range map[string][]assignor.Assignor{"default": nil, "sticky": {assignor.Sticky()}} {
		t.Run(name, func(t *testing.T) {
			bubble(t, 12, func(t *testing.T, b *strata.Cluster) {
				ms := join(t, b, 3, assignors...)
				before := map[record.TopicPartition]int{}
				for i, m := range ms {
					for _, tp := range m.Assignment() {
						before[tp] = i
					}
				}
				ms = append(ms, join(t, b, 1, assignors...)...)
				time.Sleep(time.Minute)
				moved := 0
				for i, m := range ms {
					require.Len(t, m.Assignment(), 3)
					for _, tp := range m.Assignment() {
						if before[tp] != i {
							moved++
						}
					}
				}
				require.Equal(t, 3, moved)
				for _, m := range ms {
					m.leave(t)
				}
			})
		})
	}
}

// forgetful is a backend that fails one call of Metadata, the failAt-th after it was armed.
type forgetful struct {
	consumer.Backend
	calls  atomic.Int64 // number of calls since it was armed; negative before
	failAt int64
}

func (b *forgetful) Metadata(ctx context.Context, topics ...string) (replication.Metadata, error) {
	if b.calls.Load() >= 0 && b.calls.Add(1) == b.failAt {
		return replication.Metadata{}, errors.New("no broker answers")
	}
	return b.Backend.Metadata(ctx, topics...)
}

// A member processes a record while another joins. One of its calls of Metadata fails, in turn
// each of them. No other member is handed the record that it processes.
func TestPartitionsStayWithTheirOwnerWhenTheMetadataIsOutOfReachInARebalance(t *testing.T) {
	for name, assignors := range map[string][]assignor.Assignor{"eager": {assignor.Range()}, "cooperative": {assignor.CooperativeSticky()}} {
		for i := range int64(8 * 4) {
			failAt, busy := i/4, int32(i%4)
			t.Run(fmt.Sprintf("%s/call %d/partition %d", name, failAt, busy), func(t *testing.T) {
				bubble(t, 4, func(t *testing.T, b *strata.Cluster) {
					fill(t, b, busy, 1)
					back := &forgetful{Backend: b, failAt: failAt}
					back.calls.Store(-1)
					cfg := config(consumer.CommitProcessed)
					cfg.Assignors = assignors
					var working atomic.Bool
					owner := poll(t, open(t, back, cfg), func(record.Record) {
						working.Store(true)
						time.Sleep(10 * time.Second)
						working.Store(false)
					})
					time.Sleep(time.Second)
					require.True(t, working.Load())
					back.calls.Store(0)
					next := poll(t, open(t, b, cfg), func(record.Record) {
						if working.Load() {
							t.Error("a record is handed to two members")
						}
					})
					time.Sleep(2 * time.Minute)
					requireOneOwnerEach(t, 4, owner.Consumer, next.Consumer)
					owner.leave(t)
					next.leave(t)
				})
			})
		}
	}
}
