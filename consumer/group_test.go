package consumer_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/consumer"
	"github.com/stratalog/strata/group"
	"github.com/stratalog/strata/group/assignor"
	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/internal/wired"
	"github.com/stratalog/strata/record"
)

func config(commit consumer.CommitMode) consumer.Config {
	return consumer.Config{Group: "g", Topics: []string{"t"}, Commit: commit}
}

func TestTwoMembersShareThePartitionsEvenlyAndEachRecordHasOneReader(t *testing.T) {
	bubble(t, 6, func(t *testing.T, b *strata.Cluster) {
		var mu sync.Mutex
		seen := map[record.TopicPartition]int{}
		count := func(r record.Record) {
			mu.Lock()
			defer mu.Unlock()
			seen[record.TopicPartition{Topic: r.Topic, Partition: r.Partition}]++
		}
		m1 := poll(t, open(t, b, config(consumer.CommitProcessed)), count)
		m2 := poll(t, open(t, b, config(consumer.CommitProcessed)), count)
		waitStable(t, b, "g", 2)
		// a moving partition is revoked in one generation and assigned in the next
		time.Sleep(10 * time.Second)
		require.Len(t, m1.Assignment(), 3)
		require.Len(t, m2.Assignment(), 3)
		require.NotContains(t, m1.Assignment(), m2.Assignment()[0])
		for p := range int32(6) {
			fill(t, b, p, 5)
		}
		time.Sleep(5 * time.Second)
		mu.Lock()
		for p := range int32(6) {
			require.Equal(t, 5, seen[tp(p)])
		}
		mu.Unlock()
		m1.leave(t)
		m2.leave(t)
		for p := range int32(6) {
			require.Equal(t, int64(5), committed(t, b, "g")[tp(p)])
		}
	})
}

func TestSurplusMemberIdlesAndTakesOverFromALeaver(t *testing.T) {
	bubble(t, 4, func(t *testing.T, b *strata.Cluster) {
		var ms []*member
		for range 5 {
			ms = append(ms, poll(t, open(t, b, config(consumer.CommitProcessed)), nil))
		}
		waitStable(t, b, "g", 5)
		time.Sleep(10 * time.Second)
		idle := slices.IndexFunc(ms, func(m *member) bool { return len(m.Assignment()) == 0 })
		require.GreaterOrEqual(t, idle, 0)
		leaver := (idle + 1) % 5
		ms[leaver].leave(t)
		waitStable(t, b, "g", 4)
		time.Sleep(10 * time.Second)
		require.Len(t, ms[idle].Assignment(), 1)
		for i, m := range ms {
			if i != leaver {
				m.leave(t)
			}
		}
	})
}

func TestPartitionIsNotTakenAwayWhileARecordIsInHand(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *strata.Cluster) {
		fill(t, b, 0, 2)
		var revoked []record.TopicPartition
		cfg := config(consumer.CommitManual)
		cfg.Assignors = []assignor.Assignor{assignor.Range()} // eager: every partition is revoked
		eager := cfg
		cfg.OnRevoked = func(_ context.Context, tps []record.TopicPartition) { revoked = append(revoked, tps...) }
		c := open(t, b, cfg)
		var other *member
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		defer cancel()
		for r, err := range c.Records(ctx) {
			require.NoError(t, err)
			if other == nil {
				other = poll(t, open(t, b, eager), nil)
				time.Sleep(20 * time.Second) // heartbeats report that the group rebalances
				require.Empty(t, revoked)
				require.NoError(t, c.Commit(t.Context(), r), "still ours")
			}
		}
		require.Equal(t, []record.TopicPartition{tp(0)}, revoked, "given up when the loop came back")
		require.NoError(t, c.Close())
		other.leave(t)
	})
}

func TestSlowApplicationLosesItsPartitionsAndItsCommitIsRefused(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *strata.Cluster) {
		fill(t, b, 0, 3)
		var lost []record.TopicPartition
		cfg := config(consumer.CommitManual)
		cfg.OnLost = func(_ context.Context, tps []record.TopicPartition) { lost = append(lost, tps...) }
		slow := open(t, b, cfg)
		var fast *member
		for r, err := range slow.Records(t.Context()) {
			require.NoError(t, err)
			time.Sleep(10 * time.Minute) // beyond MaxPollInterval
			fast = poll(t, open(t, b, config(consumer.CommitProcessed)), nil)
			time.Sleep(time.Minute)
			require.Equal(t, record.Offsets{tp(0): 3}, committed(t, b, "g"), "its partition has moved on")
			err := slow.Commit(t.Context(), r)
			require.ErrorIs(t, err, consumer.ErrRebalanced)
			require.ErrorIs(t, err, consumer.ErrPollTimeout)
			err = slow.CommitReturned(t.Context())
			require.ErrorIs(t, err, consumer.ErrRebalanced)
			require.ErrorIs(t, err, consumer.ErrPollTimeout)
			break
		}
		require.Equal(t, record.Offsets{tp(0): 3}, committed(t, b, "g"), "nothing was overwritten")
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		_, err := slow.Poll(ctx)
		cancel()
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, []record.TopicPartition{tp(0)}, lost)
		require.NoError(t, slow.Close())
		fast.leave(t)
	})
}

func TestMemberWhoseHeartbeatsDoNotGetThroughGivesUpItsPartitions(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *strata.Cluster) {
		cut := &cutOff{Backend: b}
		lost := make(chan []record.TopicPartition, 1)
		cfg := config(consumer.CommitProcessed)
		cfg.OnLost = func(_ context.Context, tps []record.TopicPartition) { lost <- tps }
		m := poll(t, open(t, cut, cfg), nil)
		waitStable(t, b, "g", 1)
		start := time.Now()
		cut.off.Store(true)
		select {
		case tps := <-lost:
			require.Equal(t, []record.TopicPartition{tp(0)}, tps)
		case <-time.After(10 * consumer.DefaultSessionTimeout):
			require.Fail(t, "it still holds its partition, which others may have by now")
		}
		require.InDelta(t, consumer.DefaultSessionTimeout.Seconds(), time.Since(start).Seconds(), 2*consumer.DefaultHeartbeatInterval.Seconds())
		cut.off.Store(false)
		m.leave(t)
	})
}

func TestCooperativeMembersKeepReadingWhatTheyKeep(t *testing.T) {
	bubble(t, 4, func(t *testing.T, b *strata.Cluster) {
		var mu sync.Mutex
		var gone []record.TopicPartition
		cfg := config(consumer.CommitProcessed)
		cfg.Assignors = []assignor.Assignor{assignor.CooperativeSticky()}
		cfg.OnRevoked = func(_ context.Context, tps []record.TopicPartition) {
			mu.Lock()
			defer mu.Unlock()
			gone = append(gone, tps...)
		}
		m1 := poll(t, open(t, b, cfg), nil)
		waitStable(t, b, "g", 1)
		synctest.Wait()
		require.Len(t, m1.Assignment(), 4)
		cfg2 := cfg
		cfg2.OnRevoked = nil
		m2 := poll(t, open(t, b, cfg2), nil)
		time.Sleep(time.Minute)
		mu.Lock()
		require.Len(t, gone, 2, "only what moves is revoked")
		mu.Unlock()
		require.Len(t, m1.Assignment(), 2)
		require.Len(t, m2.Assignment(), 2)
		m1.leave(t)
		m2.leave(t)
	})
}

func TestStaticMemberComesBackWithoutARebalance(t *testing.T) {
	bubble(t, 2, func(t *testing.T, b *strata.Cluster) {
		cfg := config(consumer.CommitProcessed)
		cfg.InstanceID = "one"
		m := poll(t, open(t, b, cfg), nil)
		before := waitStable(t, b, "g", 1)
		m.leave(t)
		m = poll(t, open(t, b, cfg), nil)
		time.Sleep(5 * time.Second)
		require.Equal(t, before.Generation, waitStable(t, b, "g", 1).Generation)
		require.Len(t, m.Assignment(), 2)
		m.leave(t)
	})
}

func TestNewPartitionsAreAssignedWithoutHelp(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *strata.Cluster) {
		m := poll(t, open(t, b, config(consumer.CommitProcessed)), nil)
		waitStable(t, b, "g", 1)
		require.NoError(t, b.AddPartitions(t.Context(), "t", 3))
		time.Sleep(time.Minute)
		require.Len(t, m.Assignment(), 3)
		m.leave(t)
	})
}

func TestEnforceRebalanceStartsANewGeneration(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *strata.Cluster) {
		m := poll(t, open(t, b, config(consumer.CommitProcessed)), nil)
		before := waitStable(t, b, "g", 1)
		m.EnforceRebalance()
		time.Sleep(time.Second)
		require.Greater(t, waitStable(t, b, "g", 1).Generation, before.Generation)
		m.leave(t)
	})
}

func TestTwoGroupsEachGetEveryRecord(t *testing.T) {
	bubble(t, 2, func(t *testing.T, b *strata.Cluster) {
		fill(t, b, 0, 5)
		fill(t, b, 1, 5)
		for _, g := range []string{"a", "b"} {
			c := open(t, b, consumer.Config{Group: g, Topics: []string{"t"}, Commit: consumer.CommitManual})
			require.Len(t, read(t, c, 10), 10)
			require.NoError(t, c.Close())
		}
	})
}

// cutOff is a backend whose group calls fail while off is set.
type cutOff struct {
	consumer.Backend
	off atomic.Bool
}

var errCutOff = errors.New("cut off")

func (c *cutOff) Heartbeat(ctx context.Context, req group.HeartbeatRequest) error {
	if c.off.Load() {
		return errCutOff
	}
	return c.Backend.Heartbeat(ctx, req)
}

func (c *cutOff) ConsumerHeartbeat(ctx context.Context, req group.ConsumerHeartbeatRequest) (group.ConsumerHeartbeatResponse, error) {
	if c.off.Load() {
		return group.ConsumerHeartbeatResponse{}, errCutOff
	}
	return c.Backend.ConsumerHeartbeat(ctx, req)
}

func (c *cutOff) Join(ctx context.Context, req group.JoinRequest) (group.JoinResponse, error) {
	if c.off.Load() {
		return group.JoinResponse{}, errCutOff
	}
	return c.Backend.Join(ctx, req)
}

func (c *cutOff) CommitOffsets(ctx context.Context, req group.CommitRequest) (map[record.TopicPartition]error, error) {
	if c.off.Load() {
		return nil, errCutOff
	}
	return c.Backend.CommitOffsets(ctx, req)
}

func (c *cutOff) Leave(ctx context.Context, req group.LeaveRequest) ([]error, error) {
	if c.off.Load() {
		return nil, errCutOff
	}
	return c.Backend.Leave(ctx, req)
}

// Members in the coordinator's process do not wait for their next heartbeat. A new member gets its
// share at once, and the others get the partitions of a member that leaves.
func TestMembersInProcessRebalanceBeforeTheirNextHeartbeat(t *testing.T) {
	wired.InProcess(t, "a member learns of a rebalance with its next heartbeat")
	bubble(t, 4, func(t *testing.T, b *strata.Cluster) {
		a := poll(t, open(t, b, config(consumer.CommitProcessed)), nil)
		time.Sleep(time.Minute + time.Millisecond)
		require.Len(t, a.Assignment(), 4)
		other := poll(t, open(t, b, config(consumer.CommitProcessed)), nil)
		time.Sleep(50 * time.Millisecond)
		require.Len(t, a.Assignment(), 2)
		require.Len(t, other.Assignment(), 2)
		other.leave(t)
		time.Sleep(50 * time.Millisecond)
		require.Len(t, a.Assignment(), 4)
		a.leave(t)
	})
}
