package group

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/group/assignor"
	"github.com/stratalog/strata/group/offsets"
	"github.com/stratalog/strata/internal/coordinator"
	"github.com/stratalog/strata/record"
)

var ctx = context.Background()

func commitOf(group string, offsets record.Offsets) CommitRequest {
	r := CommitRequest{Group: group, Generation: -1, Offsets: map[record.TopicPartition]record.Committed{}}
	for tp, o := range offsets {
		r.Offsets[tp] = record.Committed{Offset: o, LeaderEpoch: 3, Metadata: "note"}
	}
	return r
}

func commit(t testing.TB, c *Coordinator, r CommitRequest) {
	t.Helper()
	errs, err := c.CommitOffsets(ctx, r)
	require.NoError(t, err)
	for tp, err := range errs {
		require.NoError(t, err, "%v", tp)
	}
}

func committed(t testing.TB, c *Coordinator, group string, tp record.TopicPartition) int64 {
	t.Helper()
	got, err := c.FetchOffsets(ctx, group, []record.TopicPartition{tp})
	require.NoError(t, err)
	return got[tp].Offset
}

func TestNewGroupHasNoOffsets(t *testing.T) {
	inBubble(t, newFakeStore(map[string]int32{"t": 2}), Config{}, func(t *testing.T, c *Coordinator) {
		got, err := c.FetchOffsets(ctx, "g", tps("t", 0, 1))
		require.NoError(t, err)
		none := record.Committed{Offset: -1, LeaderEpoch: -1}
		require.Equal(t, map[record.TopicPartition]record.Committed{tps("t", 0)[0]: none, tps("t", 1)[0]: none}, got)
		require.Nil(t, c.runtime.Known(), "reading makes no offsets topic")
		_, err = c.Group(ctx, "g")
		require.ErrorIs(t, err, ErrGroupNotFound)
	})
}

func TestCommittedOffsetsAreThereAfterARestart(t *testing.T) {
	store, tp := newFakeStore(map[string]int32{"t": 2}), tps("t", 1)[0]
	inBubble(t, store, Config{}, func(t *testing.T, c *Coordinator) {
		commit(t, c, commitOf("g", record.Offsets{tp: 42}))
		commit(t, c, commitOf("h", record.Offsets{tp: 7}))
		commit(t, c, commitOf("g", record.Offsets{tp: 43}))
	})
	inBubble(t, store, Config{}, func(t *testing.T, c *Coordinator) {
		got, err := c.FetchOffsets(ctx, "g", nil)
		require.NoError(t, err)
		require.Equal(t, map[record.TopicPartition]record.Committed{tp: {Offset: 43, LeaderEpoch: 3, Metadata: "note"}}, got)
		require.EqualValues(t, 7, committed(t, c, "h", tp))
		groups, err := c.Groups(ctx)
		require.NoError(t, err)
		require.Len(t, groups, 2)
		require.Equal(t, Info{ID: "g", State: Empty}, groups[0])
	})
}

func TestCommitIsRefusedPartitionByPartition(t *testing.T) {
	inBubble(t, newFakeStore(map[string]int32{"t": 1}), Config{}, func(t *testing.T, c *Coordinator) {
		r := commitOf("g", record.Offsets{{Topic: "t"}: 1, {Topic: "t", Partition: 1}: 1, {Topic: "ghost"}: 1, {Topic: "t", Partition: -1}: 1})
		errs, err := c.CommitOffsets(ctx, r)
		require.NoError(t, err)
		require.Len(t, errs, 4)
		require.NoError(t, errs[record.TopicPartition{Topic: "t"}])
		for _, tp := range []record.TopicPartition{{Topic: "t", Partition: 1}, {Topic: "ghost"}, {Topic: "t", Partition: -1}} {
			require.ErrorIs(t, errs[tp], ErrUnknownTopicOrPartition)
		}
		tp := record.TopicPartition{Topic: "t"}
		r.Offsets = map[record.TopicPartition]record.Committed{tp: {Offset: 9, Metadata: strings.Repeat("é", 4097)}}
		errs, err = c.CommitOffsets(ctx, r)
		require.NoError(t, err)
		require.ErrorIs(t, errs[tp], ErrOffsetMetadataTooLarge)
		var tooLarge *MetadataTooLargeError
		require.ErrorAs(t, errs[tp], &tooLarge)
		require.Equal(t, 4097, tooLarge.Length)
		require.EqualValues(t, 1, committed(t, c, "g", tp))
		r.Offsets = map[record.TopicPartition]record.Committed{tp: {Offset: -5, Metadata: strings.Repeat("é", 4096)}} // offsets are not checked
		commit(t, c, r)
		require.EqualValues(t, -5, committed(t, c, "g", tp))
	})
}

func TestRequestThatDoesNotFitInABatchChangesNothing(t *testing.T) {
	inBubble(t, newFakeStore(map[string]int32{"t": 1000}), Config{MaxBatchBytes: 10_000}, func(t *testing.T, c *Coordinator) {
		all := record.Offsets{}
		for p := range int32(1000) {
			all[record.TopicPartition{Topic: "t", Partition: p}] = 1
		}
		_, err := c.CommitOffsets(ctx, commitOf("g", all))
		require.ErrorIs(t, err, ErrTooLarge)
		_, err = c.Group(ctx, "g")
		require.ErrorIs(t, err, ErrGroupNotFound)
		commit(t, c, commitOf("g", record.Offsets{{Topic: "t"}: 1}))
	})
}

func TestMembersShareAGroupAndStandbyTakesOver(t *testing.T) {
	for _, a := range []assignor.Assignor{assignor.Range(), assignor.CooperativeSticky()} {
		t.Run(a.Name(), func(t *testing.T) {
			partitions := map[string]int32{"t": 4}
			inBubble(t, newFakeStore(partitions), Config{}, func(t *testing.T, c *Coordinator) {
				var members []*client
				for range 5 { // one more than there are partitions
					members = append(members, newClient(c, "g", a, partitions).start())
				}
				info := waitGroup(t, c, func(i Info) bool { return StableWith(5)(i) && assigned(i) == 4 })
				require.Equal(t, a.Name(), info.Protocol)
				idle := 0
				for _, m := range info.Members {
					require.LessOrEqual(t, len(m.Assignment), 1)
					require.Equal(t, []string{"t"}, m.Topics)
					if len(m.Assignment) == 0 {
						idle++
					}
				}
				require.Equal(t, 1, idle)
				for i, m := range members { // one that has something goes
					if _, owned := m.state(); len(owned) > 0 {
						m.stop(t)
						members = append(members[:i:i], members[i+1:]...)
						break
					}
				}
				waitGroup(t, c, func(i Info) bool { return StableWith(4)(i) && assigned(i) == 4 })
				for _, m := range members {
					m.stop(t)
				}
				info, err := c.Group(ctx, "g")
				require.NoError(t, err)
				require.Equal(t, Empty, info.State)
			})
		})
	}
}

// waitGroup waits until pred holds for group g and everybody has taken note.
func waitGroup(t testing.TB, c *Coordinator, pred func(Info) bool) Info {
	t.Helper()
	bounded, cancel := context.WithTimeout(ctx, time.Hour)
	defer cancel()
	info, err := c.WaitGroup(bounded, "g", pred)
	require.NoError(t, err, "%+v", info)
	synctest.Wait()
	return info
}

func assigned(i Info) (n int) {
	for _, m := range i.Members {
		n += len(m.Assignment)
	}
	return n
}

func TestMemberWithoutHeartbeatsIsRemovedAfterItsSession(t *testing.T) {
	partitions := map[string]int32{"t": 2}
	inBubble(t, newFakeStore(partitions), Config{}, func(t *testing.T, c *Coordinator) {
		a, b := newClient(c, "g", assignor.Range(), partitions).start(), newClient(c, "g", assignor.Range(), partitions).start()
		waitGroup(t, c, StableWith(2))
		id := a.memberID()
		time.Sleep(time.Minute) // both send heartbeats
		require.Equal(t, id, a.memberID())
		begin := time.Now()
		b.kill()
		waitGroup(t, c, StableWith(1))
		require.Equal(t, id, a.memberID())
		require.LessOrEqual(t, time.Since(begin), b.session+a.beat)
		require.GreaterOrEqual(t, time.Since(begin), b.session-b.beat)
		_, owned := a.state()
		require.Equal(t, tps("t", 0, 1), owned)
		a.stop(t)
	})
}

func TestZombieCannotCommitAfterItIsFenced(t *testing.T) {
	partitions := map[string]int32{"t": 2}
	inBubble(t, newFakeStore(partitions), Config{}, func(t *testing.T, c *Coordinator) {
		a, b := newClient(c, "g", assignor.Range(), partitions).start(), newClient(c, "g", assignor.Range(), partitions)
		b.session = 6 * time.Second
		b.start()
		waitGroup(t, c, StableWith(2))
		generation, owned := b.state()
		require.Len(t, owned, 1)
		thaw := b.freeze()
		time.Sleep(15 * time.Second)
		synctest.Wait()
		info, err := c.Group(ctx, "g")
		require.NoError(t, err)
		require.Len(t, info.Members, 1)

		gen, _ := a.state()
		mine := commitOf("g", record.Offsets{owned[0]: 100})
		mine.MemberID, mine.Generation = a.memberID(), gen
		commit(t, c, mine)
		zombie := commitOf("g", record.Offsets{owned[0]: 5})
		zombie.MemberID, zombie.Generation = b.memberID(), generation
		_, err = c.CommitOffsets(ctx, zombie)
		require.ErrorIs(t, err, ErrUnknownMember)
		zombie.MemberID = a.memberID() // even under another name
		_, err = c.CommitOffsets(ctx, zombie)
		require.ErrorIs(t, err, ErrIllegalGeneration)
		_, err = c.CommitOffsets(ctx, commitOf("g", record.Offsets{owned[0]: 5})) // nor from outside
		require.ErrorIs(t, err, ErrUnknownMember)
		require.EqualValues(t, 100, committed(t, c, "g", owned[0]))
		thaw()
		waitGroup(t, c, StableWith(2)) // it comes back as a new member
		a.stop(t)
		b.stop(t)
	})
}

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
		require.EqualValues(t, 2, committed(t, c, "g", record.TopicPartition{Topic: "t"})) // what is read is committed too
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
		commit(t, c, r) // still a member, of the same generation
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
		waitGroup(t, c, StableWith(2)) // they come again
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

func TestMembersStayMembersAcrossARestart(t *testing.T) {
	partitions := map[string]int32{"t": 4}
	store := newFakeStore(partitions)
	var ids []string
	var generation int32
	inBubble(t, store, Config{}, func(t *testing.T, c *Coordinator) {
		a, b := newClient(c, "g", assignor.Range(), partitions).start(), newClient(c, "g", assignor.Range(), partitions)
		b.instance = "static"
		b.start()
		waitGroup(t, c, StableWith(2))
		generation, _ = a.state()
		ids = []string{a.memberID(), b.memberID()}
		a.kill()
		b.kill()
	})
	inBubble(t, store, Config{}, func(t *testing.T, c *Coordinator) {
		for range 10 {
			for i, instance := range []string{"", "static"} {
				require.NoError(t, c.Heartbeat(ctx, HeartbeatRequest{Group: "g", MemberID: ids[i], InstanceID: instance, Generation: generation}))
			}
			time.Sleep(3 * time.Second)
		}
		info, err := c.Group(ctx, "g")
		require.NoError(t, err)
		require.True(t, StableWith(2)(info))
		require.Equal(t, generation, info.Generation)
		require.Equal(t, 4, assigned(info))

		// Those who do not come back are removed when a session has passed since the restart.
		time.Sleep(11 * time.Second)
		info, err = c.Group(ctx, "g")
		require.NoError(t, err)
		require.Equal(t, Empty, info.State)
	})
}

func TestStaticMemberComesBackWithoutARebalance(t *testing.T) {
	partitions := map[string]int32{"t": 4}
	inBubble(t, newFakeStore(partitions), Config{}, func(t *testing.T, c *Coordinator) {
		var members []*client
		for _, instance := range []string{"i1", "i2"} {
			m := newClient(c, "g", assignor.Range(), partitions)
			m.instance = instance
			members = append(members, m.start())
		}
		before := waitGroup(t, c, StableWith(2))
		old := members[0].memberID()
		generation, owned := members[0].state()
		members[0].kill()
		m := newClient(c, "g", assignor.Range(), partitions)
		m.instance = "i1"
		m.start()
		time.Sleep(time.Second)
		synctest.Wait()
		after, err := c.Group(ctx, "g")
		require.NoError(t, err)
		require.Equal(t, before.Generation, after.Generation)
		_, again := m.state()
		require.Equal(t, owned, again)
		require.ErrorIs(t, c.Heartbeat(ctx, HeartbeatRequest{Group: "g", MemberID: old, InstanceID: "i1", Generation: generation}), ErrFencedInstance)
		require.ErrorIs(t, c.Heartbeat(ctx, HeartbeatRequest{Group: "g", MemberID: old, Generation: generation}), ErrUnknownMember)
		m.kill()
		members[1].kill()
	})
}

func TestDeletedTopicTakesItsOffsetsAlong(t *testing.T) {
	store := newFakeStore(map[string]int32{"t": 1, "u": 1})
	inBubble(t, store, Config{}, func(t *testing.T, c *Coordinator) {
		all := record.Offsets{{Topic: "t"}: 1, {Topic: "u"}: 2}
		commit(t, c, commitOf("g", all))
		commit(t, c, commitOf("h", record.Offsets{{Topic: "t"}: 3}))
		store.set("t", TopicInfo{})
		synctest.Wait()
		got, err := c.FetchOffsets(ctx, "g", nil)
		require.NoError(t, err)
		require.Len(t, got, 1)
		require.EqualValues(t, 2, got[record.TopicPartition{Topic: "u"}].Offset)
		_, err = c.Group(ctx, "h") // it had nothing else
		require.ErrorIs(t, err, ErrGroupNotFound)
		store.set("t", TopicInfo{ID: [16]byte{99}, Partitions: 1})
		require.EqualValues(t, -1, committed(t, c, "g", record.TopicPartition{Topic: "t"}))
	})
}

func TestOffsetOfAnEarlierTopicOfThatNameIsNotReturned(t *testing.T) {
	store, tp := newFakeStore(map[string]int32{"t": 1}), record.TopicPartition{Topic: "t"}
	inBubble(t, store, Config{}, func(t *testing.T, c *Coordinator) { commit(t, c, commitOf("g", record.Offsets{tp: 5})) })
	store.topics.Topics["t"] = TopicInfo{ID: [16]byte{77}, Partitions: 1} // deleted and made again while nobody looked
	inBubble(t, store, Config{}, func(t *testing.T, c *Coordinator) {
		require.EqualValues(t, -1, committed(t, c, "g", tp))
	})
}

func TestOffsetsAreKeptForEverUnlessRetentionIsSet(t *testing.T) {
	for _, retention := range []time.Duration{0, 7 * 24 * time.Hour} {
		inBubble(t, newFakeStore(map[string]int32{"t": 1}), Config{OffsetsRetention: retention}, func(t *testing.T, c *Coordinator) {
			commit(t, c, commitOf("g", record.Offsets{{Topic: "t"}: 1}))
			time.Sleep(7*24*time.Hour - time.Hour)
			require.EqualValues(t, 1, committed(t, c, "g", record.TopicPartition{Topic: "t"}))
			time.Sleep(365 * 24 * time.Hour)
			_, err := c.Group(ctx, "g")
			if retention == 0 {
				require.NoError(t, err)
			} else {
				require.ErrorIs(t, err, ErrGroupNotFound)
			}
		})
	}
}

func TestOffsetsDoNotExpireWhileTheGroupReadsTheTopic(t *testing.T) {
	partitions := map[string]int32{"t": 1}
	store := newFakeStore(map[string]int32{"t": 1, "u": 1})
	inBubble(t, store, Config{OffsetsRetention: time.Hour}, func(t *testing.T, c *Coordinator) {
		commit(t, c, commitOf("g", record.Offsets{{Topic: "t"}: 1, {Topic: "u"}: 2}))
		m := newClient(c, "g", assignor.Range(), partitions).start()
		time.Sleep(2 * time.Hour)
		info, err := c.Group(ctx, "g")
		require.NoError(t, err)
		require.Len(t, info.Offsets, 1) // u is not subscribed to any more
		require.EqualValues(t, 1, info.Offsets[record.TopicPartition{Topic: "t"}].Offset)
		m.stop(t)
		time.Sleep(50 * time.Minute)
		require.EqualValues(t, 1, committed(t, c, "g", record.TopicPartition{Topic: "t"}))
		time.Sleep(30 * time.Minute)
		_, err = c.Group(ctx, "g")
		require.ErrorIs(t, err, ErrGroupNotFound)
	})
}

func TestAdministratorSeesLagAndMovesOffsetsOfAnEmptyGroupOnly(t *testing.T) {
	partitions := map[string]int32{"t": 2}
	store := newFakeStore(map[string]int32{"t": 2, "u": 1})
	store.ends = record.Offsets{{Topic: "t"}: 10, {Topic: "t", Partition: 1}: 20}
	inBubble(t, store, Config{}, func(t *testing.T, c *Coordinator) {
		to := record.Offsets{{Topic: "t"}: 4, {Topic: "t", Partition: 1}: 20}
		require.NoError(t, c.ResetOffsets(ctx, "g", to)) // makes the group
		require.ErrorIs(t, c.ResetOffsets(ctx, "g", record.Offsets{{Topic: "ghost"}: 1}), ErrUnknownTopicOrPartition)
		info, err := c.Group(ctx, "g")
		require.NoError(t, err)
		require.EqualValues(t, 6, info.Lag())
		require.EqualValues(t, 10, info.Offsets[record.TopicPartition{Topic: "t"}].End)

		m := newClient(c, "g", assignor.Range(), partitions).start()
		waitGroup(t, c, StableWith(1))
		require.ErrorIs(t, c.ResetOffsets(ctx, "g", to), ErrNonEmptyGroup)
		require.ErrorIs(t, c.DeleteGroup(ctx, "g"), ErrNonEmptyGroup)
		errs, err := c.DeleteOffsets(ctx, "g", tps("t", 0)[0], tps("u", 0)[0], tps("ghost", 0)[0])
		require.NoError(t, err)
		require.ErrorIs(t, errs[tps("t", 0)[0]], ErrGroupSubscribedToTopic)
		require.NoError(t, errs[tps("u", 0)[0]])
		require.ErrorIs(t, errs[tps("ghost", 0)[0]], ErrUnknownTopicOrPartition)
		m.stop(t)

		errs, err = c.DeleteOffsets(ctx, "g", tps("t", 0)[0])
		require.NoError(t, err)
		require.NoError(t, errs[tps("t", 0)[0]])
		require.EqualValues(t, -1, committed(t, c, "g", tps("t", 0)[0]))
		require.NoError(t, c.DeleteGroup(ctx, "g"))
		require.ErrorIs(t, c.DeleteGroup(ctx, "g"), ErrGroupNotFound)
		require.EqualValues(t, -1, committed(t, c, "g", tps("t", 1)[0]))
	})
	inBubble(t, store, Config{}, func(t *testing.T, c *Coordinator) { // tombstones are durable
		groups, err := c.Groups(ctx)
		require.NoError(t, err)
		require.Empty(t, groups)
	})
}

func TestWaitGroupEndsWithItsContextAndWithTheCoordinator(t *testing.T) {
	inBubble(t, newFakeStore(nil), Config{}, func(t *testing.T, c *Coordinator) {
		short, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		info, err := c.WaitGroup(short, "g", StableWith(1))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, Info{ID: "g", State: Dead}, info)
		result := make(chan error)
		go func() {
			_, err := c.WaitGroup(ctx, "g", StableWith(1))
			result <- err
		}()
		synctest.Wait()
		require.NoError(t, c.Close())
		require.ErrorIs(t, <-result, ErrClosed)
	})
}

func TestCloseEndsEveryCallWithErrClosed(t *testing.T) {
	store := newFakeStore(map[string]int32{"t": 1})
	inBubble(t, store, Config{InitialRebalanceDelay: time.Hour}, func(t *testing.T, c *Coordinator) {
		results := make(chan error)
		go func() {
			_, err := c.Join(ctx, JoinRequest{Group: "g", ProtocolType: "consumer", SessionTimeout: time.Minute, Protocols: []assignor.Protocol{{Name: "range", Metadata: nil}}})
			results <- err
		}()
		synctest.Wait()
		store.with(func(f *fakeStore) { f.syncTime = time.Hour })
		go func() {
			_, err := c.CommitOffsets(ctx, commitOf("h", record.Offsets{{Topic: "t"}: 1}))
			results <- err
		}()
		synctest.Wait()
		done := make(chan error)
		for range 2 {
			go func() { done <- c.Close() }()
		}
		require.ErrorIs(t, <-results, ErrClosed)
		require.ErrorIs(t, <-results, ErrClosed)
		require.NoError(t, <-done)
		require.NoError(t, <-done)
		_, err := c.FetchOffsets(ctx, "g", nil)
		require.ErrorIs(t, err, ErrClosed)
		require.ErrorIs(t, c.Heartbeat(ctx, HeartbeatRequest{Group: "g"}), ErrClosed)
		_, err = c.Join(ctx, JoinRequest{Group: "new", ProtocolType: "consumer", SessionTimeout: time.Minute, Protocols: []assignor.Protocol{{Name: "range", Metadata: nil}}})
		require.ErrorIs(t, err, ErrClosed)
		time.Sleep(2 * time.Hour) // the log answers after all
	})
}

func TestCancelledJoinOfANewMemberLeavesNoGhost(t *testing.T) {
	inBubble(t, newFakeStore(map[string]int32{"t": 1}), Config{InitialRebalanceDelay: time.Minute}, func(t *testing.T, c *Coordinator) {
		short, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		_, err := c.Join(short, JoinRequest{Group: "g", ProtocolType: "consumer", SessionTimeout: time.Minute, Protocols: []assignor.Protocol{{Name: "range", Metadata: nil}}})
		require.ErrorIs(t, err, context.DeadlineExceeded)
		info, err := c.Group(ctx, "g")
		require.NoError(t, err)
		require.Empty(t, info.Members)
	})
}

func TestIdleCoordinatorHoldsNoTimersAndOneGoroutine(t *testing.T) {
	inBubble(t, newFakeStore(map[string]int32{"t": 1}), Config{}, func(t *testing.T, c *Coordinator) {
		commit(t, c, commitOf("g", record.Offsets{{Topic: "t"}: 1}))
		require.NoError(t, c.DeleteGroup(ctx, "g"))
		time.Sleep(time.Hour)
		synctest.Wait()
		for _, s := range c.runtime.Known() {
			require.True(t, s.Idle())
		}
	})
}

func TestBadConfigsAreRefusedWithEveryComplaint(t *testing.T) {
	_, err := NewCoordinator(newFakeStore(nil), Config{MaxSize: -1, MinSessionTimeout: time.Hour, MaxSessionTimeout: time.Minute, ExpiryInterval: -5})
	require.ErrorContains(t, err, "MaxSize")
	require.ErrorContains(t, err, "MinSessionTimeout")
	require.ErrorContains(t, err, "ExpiryInterval")
}

func TestInvalidRequestsAreRefused(t *testing.T) {
	inBubble(t, newFakeStore(map[string]int32{"t": 1}), Config{}, func(t *testing.T, c *Coordinator) {
		good := JoinRequest{Group: "g", ProtocolType: "consumer", SessionTimeout: 10 * time.Second, Protocols: []assignor.Protocol{{Name: "range", Metadata: nil}}}
		for name, x := range map[string]struct {
			spoil func(r *JoinRequest)
			want  error
		}{
			"group":      {func(r *JoinRequest) { r.Group = "" }, ErrInvalidGroupID},
			"long group": {func(r *JoinRequest) { r.Group = strings.Repeat("x", 40_000) }, ErrInvalidGroupID},
			"short":      {func(r *JoinRequest) { r.SessionTimeout = time.Second }, ErrInvalidSessionTimeout},
			"long":       {func(r *JoinRequest) { r.SessionTimeout = time.Hour }, ErrInvalidSessionTimeout},
			"member":     {func(r *JoinRequest) { r.MemberID = "x" }, ErrUnknownMember},
			"protocols":  {func(r *JoinRequest) { r.Protocols = nil }, ErrInconsistentProtocol},
			"type":       {func(r *JoinRequest) { r.ProtocolType = "" }, ErrInconsistentProtocol},
			"client id":  {func(r *JoinRequest) { r.ClientID = strings.Repeat("x", 40_000) }, errFieldTooLong},
		} {
			r := good
			x.spoil(&r)
			_, err := c.Join(ctx, r)
			require.ErrorIs(t, err, x.want, name)
		}
		_, err := c.Sync(ctx, SyncRequest{Group: "none", MemberID: "m"})
		require.ErrorIs(t, err, ErrUnknownMember)
		errs, err := c.Leave(ctx, LeaveRequest{Group: "none", Members: make([]LeaveMember, 2)})
		require.NoError(t, err)
		require.Equal(t, []error{ErrUnknownMember, ErrUnknownMember}, errs)
		r := commitOf("none", record.Offsets{{Topic: "t"}: 1})
		r.Generation = 3
		_, err = c.CommitOffsets(ctx, r)
		require.ErrorIs(t, err, ErrIllegalGeneration)
		require.ErrorIs(t, err, ErrGroupNotFound)
	})
}

func TestKafkasOffsetsTopicIsTakenOver(t *testing.T) {
	store := newFakeStore(map[string]int32{"grouped": 4})
	store.topics.Topics["grouped"] = TopicInfo{Partitions: 4} // of an id that we do not know
	_, err := store.OffsetsTopic(ctx, 4)
	require.NoError(t, err)
	kafkaRecords(t, func(b *record.Batch, _ record.Record) {
		for _, group := range []int{0, 3} {
			l := store.logs[group]
			if (group == 3) == (b.IsTransactional() || b.ProducerID >= 0) && l.end == b.BaseOffset {
				l.data, l.end = append(l.data, b.Bytes()...), b.NextOffset()
			}
		}
	})
	inBubble(t, store, Config{}, func(t *testing.T, c *Coordinator) {
		for _, g := range []string{"group-classic", "group-consumer"} {
			got, err := c.FetchOffsets(ctx, g, nil)
			require.NoError(t, err)
			want := map[record.TopicPartition]record.Committed{}
			for p := range int32(4) {
				want[tps("grouped", p)[0]] = record.Committed{Offset: int64(5*p + 1), Metadata: "note " + string('0'+p)}
			}
			require.Equal(t, want, got, g)
		}
		got, err := c.FetchOffsets(ctx, "group-transactional", nil)
		require.NoError(t, err)
		require.Equal(t, map[record.TopicPartition]record.Committed{{Topic: "grouped"}: {Offset: 7, LeaderEpoch: -1}}, got, "the committed transaction's, not the aborted one's")
		infos, err := c.Groups(ctx)
		require.NoError(t, err)
		require.Len(t, infos, 3)
	})
}

func TestWatchersAreForgotten(t *testing.T) {
	inBubble(t, newFakeStore(nil), Config{}, func(t *testing.T, c *Coordinator) {
		_, err := c.WaitGroup(ctx, "g", func(Info) bool { return true })
		require.NoError(t, err)
		for _, s := range c.runtime.Known() {
			require.True(t, s.Idle())
		}
	})
}

func TestEveryBlockingCallEndsWithItsContext(t *testing.T) {
	store := newFakeStore(map[string]int32{"t": 1})
	inBubble(t, store, Config{}, func(t *testing.T, c *Coordinator) {
		a := newClient(c, "g", assignor.Range(), map[string]int32{"t": 1}).start()
		waitGroup(t, c, StableWith(1))
		generation, _ := a.state()
		for _, group := range []string{"o1", "o2", "o3"} {
			commit(t, c, commitOf(group, record.Offsets{{Topic: "t"}: 1}))
		}
		blocked := make(chan struct{})
		store.with(func(f *fakeStore) { f.blocked = blocked })
		defer a.kill()
		defer close(blocked)
		tp := record.TopicPartition{Topic: "t"}
		mine := commitOf("g", record.Offsets{tp: 1})
		mine.MemberID, mine.Generation = a.memberID(), generation
		calls := map[string]func(ctx context.Context) error{
			"commit": func(ctx context.Context) error { _, err := c.CommitOffsets(ctx, mine); return err },
			"reset":  func(ctx context.Context) error { return c.ResetOffsets(ctx, "o1", record.Offsets{tp: 2}) },
			"delete": func(ctx context.Context) error { return c.DeleteGroup(ctx, "o2") },
			"delete offsets": func(ctx context.Context) error {
				_, err := c.DeleteOffsets(ctx, "o3", tp)
				return err
			},
			"join": func(ctx context.Context) error {
				_, err := c.Join(ctx, JoinRequest{Group: "new", ProtocolType: "consumer", SessionTimeout: time.Minute, Protocols: []assignor.Protocol{{Name: "range", Metadata: nil}}})
				return err
			},
			"wait": func(ctx context.Context) error { _, err := c.WaitGroup(ctx, "g", StableWith(9)); return err },
		}
		for name, call := range calls {
			short, cancel := context.WithTimeout(ctx, time.Second)
			begin := time.Now()
			err := call(short)
			cancel()
			require.ErrorIs(t, err, context.DeadlineExceeded, name)
			require.Equal(t, time.Second, time.Since(begin), name)
		}
		// Behind a write that hangs: readers see only what is committed.
		for name, call := range map[string]func(ctx context.Context) error{
			"fetch": func(ctx context.Context) error { _, err := c.FetchOffsets(ctx, "g", nil); return err },
			"group": func(ctx context.Context) error { _, err := c.Group(ctx, "g"); return err },
			"sync": func(ctx context.Context) error {
				_, err := c.Sync(ctx, SyncRequest{Group: "g", MemberID: a.memberID(), Generation: generation})
				return err
			},
			"leave": func(ctx context.Context) error {
				_, err := c.Leave(ctx, LeaveRequest{Group: "g", Members: []LeaveMember{{MemberID: a.memberID()}}})
				return err
			},
		} {
			short, cancel := context.WithTimeout(ctx, time.Second)
			require.ErrorIs(t, call(short), context.DeadlineExceeded, name)
			cancel()
		}
	})
}

func TestHookTellsOfEveryGeneration(t *testing.T) {
	partitions := map[string]int32{"t": 1}
	var seen []Rebalanced
	var mu sync.Mutex
	cfg := Config{Hooks: Hooks{OnRebalanced: func(r Rebalanced) {
		mu.Lock()
		defer mu.Unlock()
		seen = append(seen, r)
	}}}
	inBubble(t, newFakeStore(partitions), cfg, func(t *testing.T, c *Coordinator) {
		a := newClient(c, "g", assignor.Range(), partitions).start()
		waitGroup(t, c, StableWith(1))
		require.Equal(t, 1, c.Stats().Members)
		a.kill()
		time.Sleep(time.Minute)
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		require.Equal(t, []Rebalanced{{Group: "g", Generation: 1, Members: 1, Protocol: "range"}, {Group: "g", Generation: 2}}, seen)
		require.Equal(t, Stats{Groups: 1, Rebalances: 2, Appends: c.Stats().Appends, Loads: 1}, c.Stats())
	})
}

func TestRefusedCommitStillTellsWhichPartitionsDoNotExist(t *testing.T) {
	inBubble(t, newFakeStore(map[string]int32{"t": 1}), Config{}, func(t *testing.T, c *Coordinator) {
		there, gone := tps("t", 0)[0], tps("t", 1)[0]
		r := commitOf("g", record.Offsets{there: 1, gone: 1})
		r.MemberID, r.Generation = "m", 1
		errs, err := c.CommitOffsets(ctx, r)
		require.ErrorIs(t, err, ErrGroupNotFound)
		require.Equal(t, map[record.TopicPartition]error{gone: ErrUnknownTopicOrPartition}, errs)
		r = commitOf("g", record.Offsets{gone: 1})
		r.MemberID, r.Generation = "m", 1
		errs, err = c.CommitOffsets(ctx, r)
		require.NoError(t, err, "the group is not asked")
		require.Equal(t, map[record.TopicPartition]error{gone: ErrUnknownTopicOrPartition}, errs)
	})
}

func TestOffsetsPartitionIsKnownOnceThereIsAnOffsetsTopic(t *testing.T) {
	inBubble(t, newFakeStore(map[string]int32{"t": 1}), Config{OffsetsPartitions: 7}, func(t *testing.T, c *Coordinator) {
		_, err := c.OffsetsPartition(ctx, "g", false)
		require.ErrorIs(t, err, ErrNotCoordinator)
		for _, create := range []bool{true, false} {
			p, err := c.OffsetsPartition(ctx, "g", create)
			require.NoError(t, err)
			require.Equal(t, offsets.PartitionFor("g", 7), p)
		}
		_, err = c.Describe(ctx, "g")
		require.ErrorIs(t, err, ErrGroupNotFound)
		commit(t, c, commitOf("g", record.Offsets{tps("t", 0)[0]: 1}))
		info, err := c.Describe(ctx, "g")
		require.NoError(t, err)
		require.Equal(t, Info{ID: "g", State: Empty}, info)
	})
}

// kafkaRecords calls f with every record of the offsets topic that a real Kafka wrote.
func kafkaRecords(t testing.TB, f func(b *record.Batch, r record.Record)) {
	files, err := filepath.Glob("offsets/testdata/kafka/*.log")
	require.NoError(t, err)
	require.Len(t, files, 2)
	for _, file := range files {
		p, err := os.ReadFile(file)
		require.NoError(t, err)
		for len(p) > 0 {
			b, n, err := record.Parse(p)
			require.NoError(t, err)
			for r, err := range b.All() {
				require.NoError(t, err)
				f(b, r)
			}
			p = p[n:]
		}
	}
}
