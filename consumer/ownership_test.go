package consumer_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/consumer"
	"github.com/stratalog/strata/group"
	"github.com/stratalog/strata/group/assignor"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/topic"
	"github.com/stratalog/strata/vfs"
)

// owners returns how many of the consumers have each partition of "t".
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

// A member that never polled is given partitions, stays away too long, and somebody else gets them.
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

// A member stays in a loop body for too long while the group is about to give it more partitions.
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
			first.leave(t) // the zombie is to get everything
			time.Sleep(consumer.DefaultMaxPollInterval + 2*time.Minute)
			cfg := manual
			cfg.Commit = consumer.CommitProcessed
			next := poll(t, open(t, b, cfg), nil)
			time.Sleep(time.Minute)
			require.Len(t, next.Assignment(), 8)
			require.Empty(t, zombie.Assignment())
			before := committed(t, b, "g")
			require.ErrorIs(t, zombie.Commit(t.Context(), r), consumer.ErrRebalanced)
			require.ErrorIs(t, zombie.CommitReturned(t.Context()), nil, "it has nothing to commit")
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

// What was handed out before a partition was lost is not committed after it came back: others may
// be further.
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
					if early { // nobody has polled: the assignment waits
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

// moves opens members that poll, lets the group settle and returns them.
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

// hooked is a backend with hooks before its calls.
type hooked struct {
	consumer.Backend
	join, sync func(ctx context.Context) error
}

func (h *hooked) Join(ctx context.Context, req group.JoinRequest) (group.JoinResponse, error) {
	if h.join != nil {
		if err := h.join(ctx); err != nil {
			return group.JoinResponse{}, err
		}
	}
	return h.Backend.Join(ctx, req)
}

func (h *hooked) Sync(ctx context.Context, req group.SyncRequest) (group.SyncResponse, error) {
	if h.sync != nil {
		if err := h.sync(ctx); err != nil {
			return group.SyncResponse{}, err
		}
	}
	return h.Backend.Sync(ctx, req)
}

func TestCloseBetweenJoinAndSyncIsShortAndKeepsItsCommit(t *testing.T) {
	for name, others := range map[string]int{"alone": 0, "with others": 2} {
		t.Run(name, func(t *testing.T) {
			bubble(t, 3, func(t *testing.T, b *strata.Cluster) {
				for p := range int32(3) {
					fill(t, b, p, 5)
				}
				stuck := make(chan struct{})
				var mu sync.Mutex
				armed := false
				h := &hooked{Backend: b, sync: func(ctx context.Context) error {
					mu.Lock()
					first := armed
					armed = false
					mu.Unlock()
					if !first {
						return nil
					}
					close(stuck)
					<-ctx.Done()
					return ctx.Err()
				}}
				cfg := config(consumer.CommitProcessed)
				cfg.CommitInterval, cfg.Assignors = time.Hour, []assignor.Assignor{assignor.CooperativeSticky()}
				m := poll(t, open(t, h, cfg), nil)
				time.Sleep(20 * time.Second)
				ms := join(t, b, others, cfg.Assignors...)
				want := record.Offsets{}
				for _, tp := range m.Assignment() {
					want[tp] = 5
				}
				mu.Lock()
				armed = true
				mu.Unlock()
				m.EnforceRebalance()
				<-stuck
				begun := time.Now()
				require.NoError(t, m.Close())
				require.LessOrEqual(t, time.Since(begun), consumer.DefaultHeartbeatInterval)
				got := committed(t, b, "g")
				for tp, offset := range want {
					require.Equal(t, offset, got[tp], "%v", tp)
				}
				for _, m := range ms {
					m.leave(t)
				}
			})
		})
	}
}

func TestQueuedCommitsAreSentBeforeTheConsumerCloses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := vfs.Mem()
		b, err := strata.Open(strata.Config{FS: disk})
		require.NoError(t, err)
		require.NoError(t, b.CreateTopic(t.Context(), "t", topic.Config{Partitions: 1}))
		fill(t, b, 0, 10)
		c := open(t, b, config(consumer.CommitManual))
		read(t, c, 10)
		remove := disk.Inject(vfs.Fault{Ops: vfs.OpSync, Times: vfs.Always, Delay: 100 * time.Millisecond})
		results := make(chan error, 10)
		for i := range int64(10) {
			c.CommitAsync(record.Offsets{tp(0): i + 1}, func(_ record.Offsets, err error) { results <- err })
		}
		synctest.Wait() // the first one waits for the disk
		require.NoError(t, c.Close())
		for range 10 {
			require.NoError(t, <-results)
		}
		require.Equal(t, record.Offsets{tp(0): 10}, committed(t, b, "g"))
		remove()
		require.NoError(t, b.Close())
	})
}

func TestCloseFromACallbackEndsTheReadingLoop(t *testing.T) {
	for _, from := range []string{"OnAssigned", "OnRevoked", "OnLost", "StartAt", "CommitAsync", "body"} {
		t.Run(from, func(t *testing.T) {
			bubble(t, 2, func(t *testing.T, b *strata.Cluster) {
				fill(t, b, 0, 3)
				fill(t, b, 1, 3)
				var c *consumer.Consumer
				revoked := map[record.TopicPartition]int{}
				closed := make(chan time.Duration, 10)
				closeNow := func() {
					begun := time.Now()
					if err := c.Close(); err != nil {
						t.Error(err)
					}
					closed <- time.Since(begun)
				}
				callback := func(name string) func(context.Context, []record.TopicPartition) {
					return func(_ context.Context, tps []record.TopicPartition) {
						if name == "OnRevoked" {
							for _, tp := range tps {
								revoked[tp]++
							}
						}
						if name == from && len(closed) == 0 {
							closeNow()
						}
					}
				}
				cfg := config(consumer.CommitProcessed)
				cfg.OnAssigned, cfg.OnRevoked, cfg.OnLost = callback("OnAssigned"), callback("OnRevoked"), callback("OnLost")
				if from == "StartAt" {
					cfg.StartAt = func(context.Context, []record.TopicPartition) (record.Offsets, error) {
						closeNow()
						return nil, nil
					}
				}
				c = open(t, b, cfg)
				ended := make(chan struct{})
				go func() {
					defer close(ended)
					queued := false
					for r, err := range c.Records(context.Background()) {
						if err != nil {
							t.Error(err)
						}
						switch {
						case from == "body":
							closeNow()
						case from == "CommitAsync" && !queued:
							queued = true
							c.CommitAsync(record.Offsets{tp(r.Partition): r.Offset + 1}, func(record.Offsets, error) { closeNow() })
						case from == "OnLost" && len(closed) == 0:
							time.Sleep(consumer.DefaultMaxPollInterval + time.Minute)
						}
					}
				}()
				var other *member
				if from == "OnRevoked" {
					time.Sleep(10 * time.Second)
					other = poll(t, open(t, b, config(consumer.CommitProcessed)), nil)
				}
				<-ended
				require.LessOrEqual(t, <-closed, time.Second, "Close does not wait for its caller")
				begun := time.Now()
				require.NoError(t, c.Close())
				require.LessOrEqual(t, time.Since(begun), time.Second)
				_, err := c.Poll(t.Context())
				require.ErrorIs(t, err, consumer.ErrClosed)
				for tp, n := range revoked {
					require.Equal(t, 1, n, "%v was revoked once", tp)
				}
				if other != nil {
					time.Sleep(time.Minute)
					require.Len(t, other.Assignment(), 2)
					other.leave(t)
				}
			})
		})
	}
}

func TestCloseWaitsForTheLoopBodyOfAnotherGoroutine(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *strata.Cluster) {
		fill(t, b, 0, 3)
		var mu sync.Mutex
		atWork := false
		cfg := config(consumer.CommitProcessed)
		cfg.OnRevoked = func(context.Context, []record.TopicPartition) {
			mu.Lock()
			defer mu.Unlock()
			if atWork {
				t.Error("OnRevoked beside a loop body")
			}
		}
		c := open(t, b, cfg)
		begun := make(chan struct{})
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			for _, err := range c.Records(context.Background()) {
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				atWork = true
				mu.Unlock()
				close(begun)
				time.Sleep(20 * time.Second)
				mu.Lock()
				atWork = false
				mu.Unlock()
			}
		}()
		<-begun
		other := poll(t, open(t, b, config(consumer.CommitProcessed)), func(r record.Record) {
			mu.Lock()
			defer mu.Unlock()
			if atWork || r.Offset == 0 {
				t.Errorf("record %d came to another member, at work: %t", r.Offset, atWork)
			}
		})
		start := time.Now()
		require.NoError(t, c.Close())
		require.InDelta(t, 20, time.Since(start).Seconds(), 1)
		require.Equal(t, int64(1), committed(t, b, "g")[tp(0)], "the body came back: its record is processed")
		<-ended
		time.Sleep(time.Minute)
		require.Len(t, other.Assignment(), 1)
		other.leave(t)
	})
}

func TestCloseOfABodyThatNeverReturnsIsBoundedAndCallsNothingBesideIt(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *strata.Cluster) {
		fill(t, b, 0, 3)
		cfg := config(consumer.CommitProcessed)
		cfg.OnRevoked = func(context.Context, []record.TopicPartition) { t.Error("OnRevoked beside a loop body") }
		c := open(t, b, cfg)
		release := make(chan struct{})
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			for range c.Records(context.Background()) {
				<-release
			}
		}()
		synctest.Wait()
		start := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		require.ErrorIs(t, c.Shutdown(ctx), context.DeadlineExceeded)
		require.LessOrEqual(t, time.Since(start), 10*time.Second+consumer.DefaultHeartbeatInterval)
		_, err := b.WaitGroup(t.Context(), "g", func(i group.Info) bool { return len(i.Members) == 0 })
		require.NoError(t, err, "it has left")
		close(release)
		<-ended
	})
}
