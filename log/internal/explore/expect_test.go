package explore

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestWhatFollowsACutThatFailedIsNotSyncedBecauseTheOldEndWas: ten records were synced, and a
// truncation to 4 failed halfway. The next open finished it, and five more records took the
// offsets from 4 on.
func TestWhatFollowsACutThatFailedIsNotSyncedBecauseTheOldEndWas(t *testing.T) {
	h := &history{}
	at := int64(0)
	write := func(n int) {
		recs := h.take(0, n, 0)
		h.add(fact{kind: written, id: recs[0].id, n: int64(n), offset: at})
		at += int64(n)
	}
	write(4)
	write(6)
	h.add(fact{kind: synced, offset: 10})
	h.add(fact{kind: truncating, offset: 4})
	at = 4
	write(5)
	facts := h.known()

	cut := expect(facts, len(facts), 0, 2, false) // the opened log reports 2 as its durable offset
	require.EqualValues(t, 4, cut.end, "no more was synced of what is left")
	for o, s := range cut.slots {
		require.Equal(t, o < 4, s.must, "offset %d", o)
	}
	killed := expect(facts, len(facts), 0, 2, true)
	require.EqualValues(t, 9, killed.end)
	for o, s := range killed.slots {
		require.True(t, s.must, "offset %d", o)
	}
}

// TestTruncationThatChangedNothingLeavesOpenWhatAnEarlierOneDid: a truncation to 6 failed halfway,
// and the next open may finish it. A truncation to 2 failed before it had begun.
func TestTruncationThatChangedNothingLeavesOpenWhatAnEarlierOneDid(t *testing.T) {
	h := &history{}
	recs := h.take(0, 10, 0)
	for i, r := range recs {
		h.add(fact{kind: written, id: r.id, n: 1, offset: int64(i)})
	}
	h.add(fact{kind: synced, offset: 10})
	h.add(fact{kind: truncating, offset: 6})
	h.add(fact{kind: truncating, offset: 2})
	h.add(fact{kind: unchanged})
	facts := h.known()
	for _, killed := range []bool{true, false} {
		e := expect(facts, len(facts), 0, 0, killed)
		require.LessOrEqual(t, e.end, int64(6))
		for o, s := range e.slots {
			require.Equal(t, o < 6, s.must, "offset %d", o)
		}
	}
}

// TestCutDuringARemovalIsTakenAnew: the file system may already have the next log.
func TestCutDuringARemovalIsTakenAnew(t *testing.T) {
	facts := []fact{{kind: written, n: 6}, {kind: removing}, {kind: removed}, {kind: submitted}, {kind: acked, n: 1}}
	for sure := range len(facts) + 1 {
		c := cut{facts: facts, sure: sure}
		require.Equal(t, sure < 3, c.spansRemoval(), "%d facts were sure", sure)
	}
}

// TestRemovalThatFailedIsUndoneByAPowerCut: a power cut restores the removed log, unless the log
// that replaced it has something on stable storage.
func TestRemovalThatFailedIsUndoneByAPowerCut(t *testing.T) {
	h := &history{}
	recs := h.take(0, 3, 0)
	for i, r := range recs {
		h.add(fact{kind: written, id: r.id, n: 1, offset: int64(i)})
	}
	h.add(fact{kind: synced, offset: 3})
	h.add(fact{kind: removing})
	h.add(fact{kind: vanished})
	h.add(fact{kind: synced})
	next := h.take(0, 1, 0)
	whole := &found{end: 3, recs: recs, offsets: []int64{0, 1, 2}}
	part := &found{end: 2, recs: recs[:2], offsets: []int64{0, 1}}
	again := &found{end: 1, recs: next, offsets: []int64{0}}
	fits := func(f *found, killed bool) bool {
		facts := h.known()
		return expect(facts, len(facts), 0, 0, killed).check(f) == nil
	}
	for _, killed := range []bool{true, false} {
		require.True(t, fits(&found{}, killed))
		require.Equal(t, !killed, fits(whole, killed))
		require.False(t, fits(part, killed))
		require.True(t, fits(again, killed), "it was handed over")
	}
	h.add(fact{kind: acked, id: next[0].id, n: 1})
	for _, killed := range []bool{true, false} {
		require.True(t, fits(again, killed))
		require.False(t, fits(whole, killed))
		require.False(t, fits(&found{}, killed))
	}
}
