package group

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/group/assignor"
	"github.com/stratalog/strata/record"
)

// crowd starts members, one each millisecond. The returned function ends them.
func crowd(c *Coordinator, groups, members int) (clients []*client, kill func()) {
	for i := range members {
		m := newClient(c, fmt.Sprint("g", i%groups), assignor.Range(), map[string]int32{"t": 1000})
		m.beat = 200 * time.Millisecond
		clients = append(clients, m.start())
		time.Sleep(time.Millisecond)
	}
	return clients, func() {
		for _, m := range clients {
			m.kill()
		}
	}
}

func heap() uint64 {
	runtime.GC()
	var s runtime.MemStats
	runtime.ReadMemStats(&s)
	return s.HeapAlloc
}

// The test measures waits: for other members, for the disk, for timers.
func TestThousandMembersAreStableWithinTenSeconds(t *testing.T) {
	for _, groups := range []int{100, 1} {
		passed := t.Run(fmt.Sprintf("groups=%d", groups), func(t *testing.T) {
			store := newFakeStore(map[string]int32{"t": 1000})
			store.syncTime = 5 * time.Millisecond
			inBubble(t, store, Config{}, func(t *testing.T, c *Coordinator) {
				const members = 1000
				before, begin := heap(), time.Now()
				clients, kill := crowd(c, groups, members)
				defer kill()
				limit, cancel := context.WithTimeout(t.Context(), 10*time.Second)
				defer cancel()
				// The members join within a second. A rebalance ends when all have noticed it, at
				// their next heartbeat.
				const mostGenerations = 12
				generations := int32(0)
				for g := range groups {
					isStable := StableWith(members / groups)
					info, err := c.WaitGroup(limit, fmt.Sprint("g", g), func(i Info) bool { return isStable(i) || i.Generation > mostGenerations })
					require.NoError(t, err)
					require.True(t, isStable(info), "not one for each of them: %d generations", info.Generation)
					generations = max(generations, info.Generation)
				}
				stable := time.Since(begin)
				// garbage of other tests may be freed meanwhile
				perMember := max(int64(heap())-int64(before), 0) / members

				var took []time.Duration
				for range 20 { // while all other members send heartbeats, too
					for i := 0; i < members; i += 20 {
						m := clients[i]
						generation, _ := m.state()
						at := time.Now()
						err := c.Heartbeat(t.Context(), HeartbeatRequest{Group: m.group, MemberID: m.memberID(), Generation: generation})
						took = append(took, time.Since(at))
						require.NoError(t, err)
						time.Sleep(time.Millisecond)
					}
				}
				slices.Sort(took)
				p99 := took[len(took)*99/100]
				t.Logf("stable after %v in generation %d, heartbeat p99 %v, %d bytes of heap per member and its client", stable, generations, p99, perMember)
				require.LessOrEqual(t, p99, 50*time.Millisecond)
				require.LessOrEqual(t, perMember, int64(32<<10))
			})
		})
		// a failure with ten members a group would take very long with a thousand
		require.True(t, passed)
	}
}

func BenchmarkCommit(b *testing.B) {
	store := newFakeStore(map[string]int32{"t": 10})
	c, err := NewCoordinator(store, Config{})
	require.NoError(b, err)
	defer c.Close()
	r := commitOf("g", record.Offsets{{Topic: "t"}: 1})
	b.ReportAllocs()
	for b.Loop() {
		if _, err := c.CommitOffsets(ctx, r); err != nil {
			b.Fatal(err)
		}
	}
}
