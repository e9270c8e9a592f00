package group

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/group/assignor"
	"github.com/stratalog/strata/internal/coordinator"
	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/record"
)

func TestHeartbeatsNeverWaitForTheDisk(t *testing.T) {
	partitions := map[string]int32{"t": 2}
	store := newFakeStore(partitions)
	inBubble(t, store, Config{}, func(t *testing.T, c *Coordinator) {
		a := newClient(c, "g", assignor.Range(), partitions).start()
		waitGroup(t, c, StableWith(1))
		blocked := make(chan struct{})
		store.with(func(f *fakeStore) { f.blocked = blocked })
		result := make(chan error)
		generation, _ := a.state()
		go func() {
			r := commitOf("g", record.Offsets{{Topic: "t"}: 1})
			r.MemberID, r.Generation = a.memberID(), generation
			_, err := c.CommitOffsets(ctx, r)
			result <- err
		}()
		begin := time.Now()
		time.Sleep(10 * time.Minute) // the disk hangs
		require.NoError(t, c.Heartbeat(ctx, HeartbeatRequest{Group: "g", MemberID: a.memberID(), Generation: generation}))
		require.Equal(t, 10*time.Minute, time.Since(begin))
		select {
		case <-result:
			t.Fatal("a commit was confirmed that is not on disk")
		default:
		}
		close(blocked)
		require.NoError(t, <-result)
		a.stop(t)
	})
}

func TestRepliesWaitUntilTheRecordsAreCommitted(t *testing.T) {
	store := newFakeStore(map[string]int32{"t": 1})
	store.syncTime = time.Second
	inBubble(t, store, Config{}, func(t *testing.T, c *Coordinator) {
		begin := time.Now()
		commit(t, c, commitOf("g", record.Offsets{{Topic: "t"}: 1}))
		require.Equal(t, time.Second, time.Since(begin))
		done := make(chan struct{})
		go func() {
			commit(t, c, commitOf("g", record.Offsets{{Topic: "t"}: 2}))
			close(done)
		}()
		synctest.Wait()
		// the values read are committed, too
		require.EqualValues(t, 2, committed(t, c, "g", record.TopicPartition{Topic: "t"}))
		require.Equal(t, 2*time.Second, time.Since(begin))
		<-done
	})
}

func TestFailedAppendLoadsTheGroupsAgain(t *testing.T) {
	partitions := map[string]int32{"t": 2}
	store, tp := newFakeStore(partitions), record.TopicPartition{Topic: "t"}
	inBubble(t, store, Config{}, func(t *testing.T, c *Coordinator) {
		a := newClient(c, "g", assignor.Range(), partitions).start()
		waitGroup(t, c, StableWith(1))
		generation, _ := a.state()
		r := commitOf("g", record.Offsets{tp: 1})
		r.MemberID, r.Generation = a.memberID(), generation
		commit(t, c, r)

		full := errors.New("disk full")
		store.with(func(f *fakeStore) { f.appendErr = full })
		r.Offsets[tp] = record.Committed{Offset: 2}
		_, err := c.CommitOffsets(ctx, r)
		require.ErrorIs(t, err, ErrNotCoordinator)
		require.ErrorIs(t, err, full)
		require.EqualValues(t, 1, committed(t, c, "g", tp), "the refused offset must not be seen")
		require.EqualValues(t, 1, c.Stats().AppendFailures)

		store.with(func(f *fakeStore) { f.appendErr = nil })
		commit(t, c, r) // it is still a member of the same generation
		require.EqualValues(t, 2, committed(t, c, "g", tp))
		time.Sleep(time.Minute)
		info, err := c.Group(ctx, "g")
		require.NoError(t, err)
		require.Equal(t, generation, info.Generation)
		a.stop(t)
	})
}

func TestJoinsAndSyncsUnderWayAreSentAwayWhenAnAppendFails(t *testing.T) {
	partitions := map[string]int32{"t": 2}
	store := newFakeStore(partitions)
	inBubble(t, store, Config{}, func(t *testing.T, c *Coordinator) {
		a, b := newClient(c, "g", assignor.Range(), partitions).start(), newClient(c, "g", assignor.Range(), partitions).start()
		store.with(func(f *fakeStore) { f.appendErr = errors.New("broken") })
		time.Sleep(time.Minute)
		store.with(func(f *fakeStore) { f.appendErr = nil })
		waitGroup(t, c, StableWith(2)) // both join again
		a.stop(t)
		b.stop(t)
	})
}

func TestGroupsThatCannotBeLoadedAreTriedAgain(t *testing.T) {
	store, tp := newFakeStore(map[string]int32{"t": 1}), record.TopicPartition{Topic: "t"}
	inBubble(t, store, Config{}, func(t *testing.T, c *Coordinator) { commit(t, c, commitOf("g", record.Offsets{tp: 1})) })
	store.readErr = errors.New("broken")
	inBubble(t, store, Config{}, func(t *testing.T, c *Coordinator) {
		_, err := c.FetchOffsets(ctx, "g", nil)
		require.ErrorIs(t, err, ErrCoordinatorNotAvailable)
		require.NoError(t, c.Heartbeat(ctx, HeartbeatRequest{Group: "g", MemberID: "m"}), "as Kafka answers while loading")
		store.with(func(f *fakeStore) { f.readErr = nil })
		time.Sleep(coordinator.RetryLoadAfter)
		require.EqualValues(t, 1, committed(t, c, "g", tp))
	})
}

// The log of a full or broken disk accepts no append, and callers retry at once.
func TestCoordinatorWhoseLogTakesNothingLoadsAfterPauses(t *testing.T) {
	store, tp := newFakeStore(map[string]int32{"t": 1}), record.TopicPartition{Topic: "t"}
	var logged bytes.Buffer
	logger := slog.New(slog.NewTextHandler(&logged, &slog.HandlerOptions{Level: slog.LevelError}))
	inBubble(t, store, Config{Logger: logger}, func(t *testing.T, c *Coordinator) {
		commit(t, c, commitOf("g", record.Offsets{tp: 1}))
		store.with(func(f *fakeStore) { f.appendErr = errors.New("disk full") })
		for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
			_, err := c.CommitOffsets(ctx, commitOf("g", record.Offsets{tp: 2}))
			require.Error(t, err)
		}
		require.LessOrEqual(t, c.Stats().Loads, int64(25))
		require.Equal(t, 1, strings.Count(logged.String(), "append failed"), "%s", logged.String())

		store.with(func(f *fakeStore) { f.appendErr = nil })
		time.Sleep(time.Second)
		commit(t, c, commitOf("g", record.Offsets{tp: 3}))
		require.EqualValues(t, 3, committed(t, c, "g", tp))
	})
}
