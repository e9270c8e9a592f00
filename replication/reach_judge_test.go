package replication

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// links are the pairs of brokers that have a link. All other pairs were parted at the zero time.
type links map[[2]int32]bool

func (l links) parted(a, b int32) (since time.Time, parted bool) {
	return since, !l[[2]int32{min(a, b), max(a, b)}]
}

// reachabilityOf returns the reachability of brokers 1 to n, long after the paths were cut.
func reachabilityOf(n int, controller int32, l links) *reachability {
	r := &reachability{controller: controller, parted: l.parted, now: time.Time{}.Add(time.Hour), patience: 9 * time.Second}
	for id := range int32(n) {
		r.serving = append(r.serving, id+1)
	}
	return r
}

// rest makes the changes that are due until none is, and returns the number of steps.
func (r *reachability) rest(t *testing.T) (steps int) {
	for ; ; steps++ {
		require.Less(t, steps, 20, "it does not come to rest: %+v", r)
		v := r.judge()
		if !v.due(r.controller) {
			return steps
		}
		r.controller = v.controller
		serves := map[int32]bool{}
		for _, id := range append(r.serving, v.back...) {
			serves[id] = true
		}
		for _, id := range v.over {
			delete(serves, id)
		}
		running := len(r.serving) + len(r.apart)
		r.serving, r.apart = nil, nil
		for id := int32(1); id <= int32(running); id++ {
			if serves[id] {
				r.serving = append(r.serving, id)
			} else {
				r.apart = append(r.apart, id)
			}
		}
	}
}

// Any pairs of up to five brokers are parted, and sessions come to rest. Then the controller has
// links to all serving brokers, which were a majority. Or no broker has links to a majority, and
// nothing has changed. When all paths are mended, all brokers serve.
func TestSessionsComeToRestWhateverIsCut(t *testing.T) {
	for n := 2; n <= 5; n++ {
		var pairs [][2]int32
		for a := int32(1); a <= int32(n); a++ {
			for b := a + 1; b <= int32(n); b++ {
				pairs = append(pairs, [2]int32{a, b})
			}
		}
		for which := range 1 << len(pairs) {
			for controller := int32(1); controller <= int32(n); controller++ {
				l, degree := links{}, map[int32]int{}
				for i, p := range pairs {
					if which>>i&1 == 1 {
						l[p] = true
						degree[p[0]]++
						degree[p[1]]++
					}
				}
				most := 0
				for _, d := range degree {
					most = max(most, d)
				}
				r := reachabilityOf(n, controller, l)
				steps := r.rest(t)
				where := fmt.Sprintf("%d brokers, controller %d, links %v: %+v", n, controller, l, r)
				if 2*(most+1) <= n {
					require.Zero(t, steps, where)
				} else {
					require.Equal(t, most, degree[r.controller], where)
					require.Greater(t, 2*len(r.serving), n, where)
					require.Contains(t, r.serving, r.controller)
					for _, id := range r.serving {
						require.True(t, id == r.controller || r.linked(r.controller, id), where)
					}
				}
				for _, p := range pairs {
					l[p] = true
				}
				r.rest(t)
				require.Len(t, r.serving, n, where)
			}
		}
	}
}

// Paths are cut and mended, one after the other, and sessions come to rest. A change fences fewer
// than half of the serving brokers. If a controller has links to a majority of the running
// brokers, exactly the brokers with a link to it serve.
func TestSessionsComeToRestAfterAnyHistory(t *testing.T) {
	fenced := 0
	for seed := range uint64(3000) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		n := 2 + rnd.IntN(6)
		l := links{}
		r := reachabilityOf(n, 1, l)
		for range 20 {
			for range 1 + rnd.IntN(2*n) {
				a, b := int32(1+rnd.IntN(n)), int32(1+rnd.IntN(n))
				l[[2]int32{min(a, b), max(a, b)}] = rnd.IntN(2) == 0
			}
			if v := r.judge(); len(v.over) > 0 {
				fenced++
				require.Less(t, 2*len(v.over), len(r.serving), "seed %d", seed)
			}
			r.rest(t)
			require.Contains(t, r.serving, r.controller, "seed %d", seed)
			running := slices.Concat(r.serving, r.apart)
			if 2*r.links(r.controller, running) > n {
				for _, id := range running {
					reached := id == r.controller || r.linked(r.controller, id)
					require.Equal(t, reached, slices.Contains(r.serving, id), "seed %d, broker %d", seed, id)
				}
			}
		}
	}
	require.NotZero(t, fenced)
}

// The controller is judged again when the next session ends, and not before.
func TestSessionsAreJudgedAgainWhenTheNextIsOver(t *testing.T) {
	cut := time.Unix(100, 0)
	r := reachabilityOf(3, 1, nil)
	r.parted = func(a, b int32) (time.Time, bool) { return cut.Add(time.Duration(a+b) * time.Second), min(a, b) == 1 }
	r.now = cut
	v := r.judge()
	require.False(t, v.due(1))
	require.Equal(t, cut.Add(12*time.Second), v.next, "that of 2, which was cut off first")
	r.joined = map[int32]time.Time{2: cut.Add(10 * time.Second)}
	v = r.judge()
	require.Equal(t, cut.Add(13*time.Second), v.next, "that of 3, since 2 joined later")
	r.now = v.next
	v = r.judge()
	require.EqualValues(t, 2, v.controller)
	require.Empty(t, v.over, "its session with 2 began when 2 joined")
	require.Equal(t, cut.Add(19*time.Second), v.next)
}
