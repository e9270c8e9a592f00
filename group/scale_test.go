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

// A crowd is many clients in real time.
type crowd struct {
	c       *Coordinator
	clients []*client
}

func newCrowd(t testing.TB, groups, members int) *crowd {
	store := newFakeStore(map[string]int32{"t": 1000})
	c, err := NewCoordinator(store, Config{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	w := &crowd{c: c}
	for i := range members {
		m := newClient(c, fmt.Sprint("g", i%groups), assignor.Range(), map[string]int32{"t": 1000})
		m.beat = 200 * time.Millisecond
		w.clients = append(w.clients, m.start())
	}
	t.Cleanup(func() {
		for _, m := range w.clients {
			m.kill()
		}
	})
	return w
}

func heap() uint64 {
	runtime.GC()
	var s runtime.MemStats
	runtime.ReadMemStats(&s)
	return s.HeapAlloc
}

func TestThousandMembersAreStableWithinTenSeconds(t *testing.T) {
	if testing.Short() {
		t.Skip("a thousand members in real time")
	}
	for _, groups := range []int{100, 1} {
		t.Run(fmt.Sprintf("groups=%d", groups), func(t *testing.T) {
			const members = 1000
			before, begin := heap(), time.Now()
			w := newCrowd(t, groups, members)
			limit, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			for g := range groups {
				_, err := w.c.WaitGroup(limit, fmt.Sprint("g", g), StableWith(members/groups))
				require.NoError(t, err)
			}
			stable := time.Since(begin)
			perMember := max(int64(heap())-int64(before), 0) / members // other tests' garbage may go meanwhile

			var took []time.Duration
			for range 20 { // while everybody else sends heartbeats too
				for i := 0; i < members; i += 20 {
					m := w.clients[i]
					generation, _ := m.state()
					at := time.Now()
					err := w.c.Heartbeat(t.Context(), HeartbeatRequest{Group: m.group, MemberID: m.memberID(), Generation: generation})
					took = append(took, time.Since(at))
					require.NoError(t, err)
				}
			}
			slices.Sort(took)
			p99 := took[len(took)*99/100]
			t.Logf("stable after %v, heartbeat p50 %v p99 %v, %d bytes of heap per member and its client", stable, took[len(took)/2], p99, perMember)
			require.LessOrEqual(t, p99, 50*time.Millisecond)
			require.LessOrEqual(t, perMember, int64(32<<10))
		})
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
