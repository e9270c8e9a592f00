package explore

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestWhatFollowsACutThatFailedIsNotSyncedBecauseTheOldEndWas: ten records were synced, a
// truncation to 4 failed halfway, the next open finished it, and five more took the offsets from 4
// on.
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

	cut := expect(facts, len(facts), 0, 2, false) // the log that was opened calls 2 durable
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
