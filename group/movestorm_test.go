package group

import (
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/group/assignor"
)

// moves counts what a coordinator was at when its leadership ended.
type moves map[string]int

// move gives the group's partition to the next leader, or to nobody for a while. What was not
// confirmed by then may be lost.
func (s *storm) move() {
	time.Sleep(time.Duration(s.rnd.IntN(400)) * time.Millisecond)
	store := s.store.(*fakeStore)
	for what, n := range map[string]int32{"join": s.busy.join.Load(), "sync": s.busy.sync.Load(), "commit": s.busy.commit.Load()} {
		if n > 0 {
			s.moves[what]++
		}
	}
	if s.busy.join.Load() > 0 && s.busy.commit.Load() > 0 {
		s.moves["commit beside a rebalance"]++
	}
	broker := int32(s.rnd.IntN(3)) + 1
	if s.rnd.IntN(4) == 0 {
		broker = -1
		time.AfterFunc(time.Duration(s.rnd.IntN(4000))*time.Millisecond, func() { store.lead(0, 2, 0) })
	}
	store.lead(0, broker, s.rnd.IntN(3))
}

// A coordinator dies, again and again, in the middle of joins, syncs and commits; half of the
// members live in the process, the others look for the coordinator as clients do. STRATA_SEEDS runs
// more seeds than 200.
func TestGroupsSurviveTheDeathOfTheirCoordinator(t *testing.T) {
	seeds := 200
	if testing.Short() {
		seeds = 20
	}
	if n, err := strconv.Atoi(os.Getenv("STRATA_SEEDS")); err == nil {
		seeds = n
	}
	seen := moves{}
	assignors := []assignor.Assignor{assignor.Range(), assignor.Sticky(), assignor.CooperativeSticky()}
	for seed := range seeds {
		wrong := runMoves(t, assignors[seed%len(assignors)], uint64(seed), seen)
		require.Empty(t, wrong, "seed %d", seed)
	}
	for _, what := range []string{"join", "sync", "commit", "commit beside a rebalance"} {
		require.NotZero(t, seen[what], "no coordinator died in the middle of %s: %v", what, seen)
	}
	t.Log(seen)
}

func runMoves(t *testing.T, a assignor.Assignor, seed uint64, seen moves) []string {
	return runStormOn(t, a, seed, 60, seen, func(*testing.T) (Store, func()) {
		store := newFakeStore(map[string]int32{"t": 6, "u": 3})
		store.syncTime = 100 * time.Millisecond
		return store, func() {}
	})
}
