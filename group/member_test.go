package group

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/group/assignor"
	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/record"
)

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
				for i, m := range members { // a member that has a partition leaves
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

// waitGroup waits until pred holds for group g and all goroutines have noticed.
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
		zombie.MemberID = a.memberID() // even with another member id
		_, err = c.CommitOffsets(ctx, zombie)
		require.ErrorIs(t, err, ErrIllegalGeneration)
		// nor without a member id
		_, err = c.CommitOffsets(ctx, commitOf("g", record.Offsets{owned[0]: 5}))
		require.ErrorIs(t, err, ErrUnknownMember)
		require.EqualValues(t, 100, committed(t, c, "g", owned[0]))
		thaw()
		waitGroup(t, c, StableWith(2)) // it joins again as a new member
		a.stop(t)
		b.stop(t)
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

		// Members that do not return are removed when a session has passed since the restart.
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
