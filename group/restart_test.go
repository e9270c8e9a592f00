package group

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/group/assignor"
	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/record"
)

// reopened runs f with the coordinator of the next process.
func reopened(t *testing.T, store *fakeStore, cfg Config, f func(next *Coordinator)) {
	next, err := NewCoordinator(store.clone(), cfg)
	require.NoError(t, err)
	defer checkEvents(t, next)()
	defer next.Close()
	f(next)
}

// Two members run in the process. It ends, with or without a Close. In the next process a member
// joins and has all partitions at once, instead of after the 45 s session of the dead members.
func TestMembersOfADeadProcessHoldNobodyUp(t *testing.T) {
	partitions := map[string]int32{"t": 4}
	for _, a := range []assignor.Assignor{assignor.Range(), assignor.Sticky(), assignor.CooperativeSticky()} {
		for _, instance := range []string{"", "i"} {
			for _, clean := range []bool{true, false} {
				t.Run(a.Name()+map[bool]string{true: " closed", false: " killed"}[clean]+" "+instance, func(t *testing.T) {
					store := newFakeStore(partitions)
					inBubble(t, store, Config{}, func(t *testing.T, c *Coordinator) {
						start := func(c *Coordinator, instance string) *client {
							m := newClient(c, "g", a, partitions)
							m.host, m.instance, m.session, m.rebalance = "", instance, 45*time.Second, 5*time.Minute
							return m.start()
						}
						first := start(c, instance)
						waitGroup(t, c, StableWith(1))
						second := start(c, "")
						waitGroup(t, c, func(i Info) bool { return StableWith(2)(i) && assigned(i) == 4 })
						commit(t, c, memberCommit(first, 7))
						first.kill()
						second.kill()
						if clean {
							require.NoError(t, c.Close())
						}
						reopened(t, store, Config{}, func(next *Coordinator) {
							begin := time.Now()
							m := start(next, instance)
							info := waitGroup(t, next, StableWith(1))
							require.Less(t, time.Since(begin), time.Second)
							require.Equal(t, 4, assigned(info))
							require.Equal(t, int64(7), committed(t, next, "g", record.TopicPartition{Topic: "t"}))
							require.ErrorIs(t, next.Heartbeat(ctx, HeartbeatRequest{Group: "g", MemberID: second.memberID(), Generation: info.Generation}), ErrUnknownMember)
							m.kill()
						})
					})
				})
			}
		}
	}
}

// memberCommit returns a commit of m for partition 0 of t.
func memberCommit(m *client, offset int64) CommitRequest {
	generation, _ := m.state()
	r := commitOf(m.group, record.Offsets{{Topic: "t"}: offset})
	r.MemberID, r.InstanceID, r.Generation = m.memberID(), m.instance, generation
	return r
}

func TestMembersFromElsewhereKeepTheirSessionWhenTheProcessEnds(t *testing.T) {
	partitions := map[string]int32{"t": 4}
	store := newFakeStore(partitions)
	inBubble(t, store, Config{}, func(t *testing.T, c *Coordinator) {
		wire := newClient(c, "g", assignor.CooperativeSticky(), partitions).start()
		local := newClient(c, "g", assignor.CooperativeSticky(), partitions)
		local.host = ""
		local.start()
		waitGroup(t, c, func(i Info) bool { return StableWith(2)(i) && assigned(i) == 4 })
		before := wire.memberID()
		local.kill()
		require.NoError(t, c.Close())
		reopened(t, store, Config{}, func(next *Coordinator) {
			begin := time.Now()
			wire.at.p.Store(next)
			info := waitGroup(t, next, func(i Info) bool { return StableWith(1)(i) && assigned(i) == 4 })
			require.Less(t, time.Since(begin), 2*wire.beat, "a heartbeat, and a round for what the dead member had")
			require.Equal(t, before, info.Members[0].ID)
			wire.kill()
		})
	})
}

// A failed append loads the partition again. Members of the same process are alive and stay.
func TestMembersOfThisProcessStayWhenTheirPartitionIsLoadedAgain(t *testing.T) {
	partitions := map[string]int32{"t": 4}
	store := newFakeStore(partitions)
	inBubble(t, store, Config{}, func(t *testing.T, c *Coordinator) {
		m := newClient(c, "g", assignor.Range(), partitions)
		m.host = ""
		m.start()
		info := waitGroup(t, c, StableWith(1))
		store.with(func(f *fakeStore) { f.appendErr = ErrNotCoordinator })
		_, err := c.CommitOffsets(ctx, memberCommit(m, 1))
		require.ErrorIs(t, err, ErrNotCoordinator)
		store.with(func(f *fakeStore) { f.appendErr = nil })
		synctest.Wait()
		commit(t, c, memberCommit(m, 2))
		require.Equal(t, int64(2), c.Stats().Loads)
		require.Equal(t, info.Generation, waitGroup(t, c, StableWith(1)).Generation)
		m.kill()
	})
}
