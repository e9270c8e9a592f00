package consumer_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/consumer"
	"github.com/stratalog/strata/group"
	"github.com/stratalog/strata/group/assignor"
	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/topic"
	"github.com/stratalog/strata/vfs"
)

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
		synctest.Wait() // the first commit waits for the disk
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

// putOut removes c from its group, as an operator does, and waits until c has noticed.
func putOut(t *testing.T, b *strata.Cluster, c *consumer.Consumer) {
	t.Helper()
	errs, err := b.Backend().Leave(t.Context(), group.LeaveRequest{Group: "g", Members: []group.LeaveMember{{MemberID: c.Metadata().MemberID}}})
	require.NoError(t, errors.Join(append(errs, err)...))
	time.Sleep(consumer.DefaultSessionTimeout / 2)
	require.Empty(t, c.Assignment())
}

// Lost partitions may have another owner. After Close no Poll can report the loss.
func TestWhatWasLostSinceTheLastPollIsToldWhenAConsumerIsClosed(t *testing.T) {
	for _, cfg := range []consumer.Config{config(consumer.CommitProcessed), newer(consumer.CommitProcessed)} {
		bubble(t, 2, func(t *testing.T, b *strata.Cluster) {
			fill(t, b, 0, 1)
			var told []string
			tell := func(what string) func(context.Context, []record.TopicPartition) {
				return func(_ context.Context, tps []record.TopicPartition) { told = append(told, fmt.Sprint(what, tps)) }
			}
			cfg.OnAssigned, cfg.OnRevoked, cfg.OnLost = tell("assigned "), tell("revoked "), tell("lost ")
			c := open(t, b, cfg)
			read(t, c, 1)
			putOut(t, b, c)
			require.NoError(t, c.Close())
			require.Equal(t, []string{"assigned [{t 0} {t 1}]", "lost [{t 0} {t 1}]"}, told)
		})
	}
}

func TestWhatWasLostIsNotToldBesideALoopBody(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *strata.Cluster) {
		fill(t, b, 0, 1)
		cfg := config(consumer.CommitProcessed)
		cfg.OnLost = func(context.Context, []record.TopicPartition) { t.Error("OnLost beside a loop body") }
		c := open(t, b, cfg)
		release, ended := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(ended)
			for range c.Records(context.Background()) {
				<-release
			}
		}()
		synctest.Wait()
		putOut(t, b, c)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		require.ErrorIs(t, c.Shutdown(ctx), context.DeadlineExceeded)
		close(release)
		<-ended
	})
}
