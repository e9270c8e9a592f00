package controller

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestNewestIsByEpochThenByEndThenByBroker(t *testing.T) {
	copies := []Copy{{1, 3, 90}, {2, 4, 10}, {3, 4, 12}, {4, 4, 12}, {5, -1, 0}}
	require.Equal(t, Copy{3, 4, 12}, Newest(copies))
}

func TestMajorityAndHalf(t *testing.T) {
	require.True(t, Enough([]int32{3, 1, 9}, []int32{1, 2, 3}))
	require.False(t, Enough([]int32{3, 8, 9}, []int32{1, 2, 3}))
	require.False(t, Enough([]int32{1}, []int32{1, 2}))
	require.False(t, Enough([]int32{1, 2}, []int32{1, 2, 3, 4, 5}, []int32{1, 2, 3}))
	require.False(t, Enough([]int32{1, 2}))
	require.True(t, Enough([]int32{1}, []int32{1}))
	require.True(t, MayBecome([]int32{2}, []int32{1, 2}))
	require.True(t, MayBecome([]int32{1, 4, 5}, []int32{1, 2, 3, 4}))
	require.False(t, MayBecome([]int32{2}, []int32{1, 2, 3}))
	require.False(t, MayBecome([]int32{2}, []int32{1, 2}, []int32{1, 2, 3}))
	require.False(t, MayBecome([]int32{3, 4}, []int32{1, 2}))
	require.False(t, MayBecome(nil, []int32{1}))
}

func TestSetsThatMayBeInForce(t *testing.T) {
	var s Sets
	require.Nil(t, s.Last())
	require.Empty(t, s.Committed())
	require.Empty(t, s.Named(nil))
	s = s.Named([]int32{1, 2, 3}).Named([]int32{3, 2, 1})
	require.Equal(t, Sets{{1, 2, 3}}, s, "an open that names the same again says nothing new")
	two := s.Named([]int32{1, 2})
	require.Equal(t, Sets{{1, 2, 3}}, s)
	require.Equal(t, Sets{{1, 2, 3}, {1, 2}, {4, 1}}, two.Named([]int32{4, 1}))
	require.Equal(t, []int32{1, 2, 3, 4}, two.Named([]int32{4, 1}).All())
	require.Equal(t, Sets{{1, 2}}, two.Committed())

	newest := Copy{1, 5, 20}
	require.Equal(t, Sets{{1, 2}}, two.Known(newest, []Copy{{3, 5, 20}, {2, 5, 20}, newest}))
	for _, second := range []Copy{{3, 5, 20}, {2, 5, 19}, {2, 4, 20}} {
		require.Equal(t, two, two.Known(newest, []Copy{second, newest}))
	}
	require.Empty(t, Sets(nil).Known(newest, []Copy{newest}))
}

func TestSameSetsInAnyOrder(t *testing.T) {
	require.True(t, Same([]int32{1, 2}, []int32{2, 1}))
	require.False(t, Same([]int32{1, 2}, []int32{1, 2, 3}))
	require.False(t, Same([]int32{1, 2}, []int32{1, 3}))
}

// kept are seeds of histories that lost a committed change or had copies that differed. They did
// so without one of the rules, or under earlier rules.
var kept = map[uint64]string{
	11395:  "an epoch that began on one copy only made it the newest, and another copy forgot that it had begun there",
	5693:   "a majority of the set that was named last went on, and it had never been committed",
	10094:  "a copy that was cut forgot an epoch, which began a second time",
	134245: "a controller took over with the brokers of the last set, which had not half of the one before",
	3802:   "an epoch that nothing was written in made its copy the newest",
	479:    "an epoch that nothing was written in was taken for what a copy has in common with the newest",
	9310:   "sets before the last one were forgotten when it was not known to be committed",
	6801:   "a set was taken for committed because its copies were there, of which one did not have it",
	79:     "a change of the set had not half of those that were tried before",
}

// Seed 11395 lost a change under earlier rules: the process died inside two opens, each with other
// disks missing. Epochs that began survive a truncation. An unused epoch makes no copy newer. A
// majority of each set that may be in force is required.
func TestNothingCommittedIsEverLost(t *testing.T) {
	for seed, story := range kept {
		_, err := simulate(seed)
		require.NoError(t, err, story)
	}
	seeds := 500
	if os.Getenv("STRATA_LONG") != "" {
		seeds = 150_000
	}
	var all sim
	for seed := range uint64(2 * seeds) {
		how := simulate
		if seed%2 > 0 {
			how = simulateInPlace
		}
		s, err := how(seed / 2)
		require.NoError(t, err, "in place: %v", seed%2 > 0)
		all.opened += s.opened
		all.refused += s.refused
		all.shrunk += s.shrunk
		all.controllers += s.controllers
		all.parted += s.parted
		all.joined += s.joined
		all.next += len(s.committed)
		all.leftOut += s.leftOut
		all.left += s.left
		all.stuck += s.stuck
		all.returned += s.returned
		all.sure += s.sure
		all.takenBack += s.takenBack
		all.reopened += s.reopened
		all.again += s.again
	}
	t.Logf("%d opened, %d refused, %d sets shrunk, %d controllers replaced, %d copies cut, %d joined, %d changes committed",
		all.opened, all.refused, all.shrunk, all.controllers, all.parted, all.joined, all.next)
	t.Logf("%d left out at open, %d stopped or killed, %d back, %d could not take back, %d sets known to be committed",
		all.leftOut, all.left, all.returned, all.stuck, all.sure)
	t.Logf("%d times opened again in place, %d of them with success, %d changes taken back", all.reopened, all.again, all.takenBack)
	for _, n := range []int{all.opened, all.refused, all.shrunk, all.controllers, all.parted, all.joined, all.next, all.leftOut, all.left, all.returned, all.stuck, all.sure, all.takenBack, all.reopened, all.again} {
		require.Positive(t, n)
	}
}
