package group

import (
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/group/assignor"
	"github.com/stratalog/strata/internal/sample"
)

// moves counts and causes moves of the coordinator of a storm's group.
type moves struct {
	move func(*storm)   // ends the leadership of the group's partition
	end  func(*storm)   // makes the partition have a leader until the end
	seen map[string]int // counts the kinds of work that moves have interrupted
}

func (s *storm) move() {
	time.Sleep(time.Duration(s.rnd.IntN(400)) * time.Millisecond)
	for what, n := range map[string]int32{"join": s.busy.join.Load(), "sync": s.busy.sync.Load(), "commit": s.busy.commit.Load()} {
		if n > 0 {
			s.moves.seen[what]++
		}
	}
	if s.busy.join.Load() > 0 && s.busy.commit.Load() > 0 {
		s.moves.seen["commit beside a rebalance"]++
	}
	s.moves.move(s)
}

// run runs at least least seeds. It runs up to ten times as many until moves have interrupted
// every kind of work, and fails if they have not.
func (m *moves) run(t *testing.T, least int, seed func(seed int)) {
	t.Helper()
	for n := 0; n < least || m.missing() != "" && n < 10*least; n++ {
		seed(n)
	}
	require.Empty(t, m.missing(), "no coordinator died in the middle of that: %v", m.seen)
	t.Log(m.seen)
}

// missing returns a kind of work that no move has interrupted, "" if there is none.
func (m *moves) missing() string {
	for _, what := range []string{"join", "sync", "commit", "commit beside a rebalance"} {
		if m.seen[what] == 0 {
			return what
		}
	}
	return ""
}

// seeds returns the number of seeds to run: n, a tenth of it in a hurry, or STRATA_SEEDS.
func seeds(n int) int {
	if set, err := strconv.Atoi(os.Getenv("STRATA_SEEDS")); err == nil {
		return set
	}
	if sample.Hurried() {
		return n / 10
	}
	return n
}

// A coordinator dies, again and again, during joins, syncs and commits. Half of the members run in
// the process, the others look up the coordinator as clients do. STRATA_SEEDS sets the number of
// seeds in place of 200.
func TestGroupsSurviveTheDeathOfTheirCoordinator(t *testing.T) {
	m := &moves{seen: map[string]int{}}
	m.move = func(s *storm) { // unconfirmed batches may be lost
		store, broker := s.store.(*fakeStore), int32(s.rnd.IntN(3))+1
		if s.rnd.IntN(4) == 0 {
			broker = -1
			time.AfterFunc(time.Duration(s.rnd.IntN(4000))*time.Millisecond, func() { store.lead(0, 2, 0) })
		}
		store.lead(0, broker, s.rnd.IntN(3))
	}
	m.end = func(s *storm) { s.store.(*fakeStore).lead(0, 1, s.rnd.IntN(2)) }
	m.run(t, seeds(200), func(seed int) {
		wrong := runStormOn(t, stormAssignors[seed%3], uint64(seed), 60, m, func(*testing.T) (Store, func()) {
			store := newFakeStore(map[string]int32{"t": 6, "u": 3})
			store.syncTime = 100 * time.Millisecond
			return store, func() {}
		})
		require.Empty(t, wrong, "seed %d", seed)
	})
}

var stormAssignors = []assignor.Assignor{assignor.Range(), assignor.Sticky(), assignor.CooperativeSticky()}
