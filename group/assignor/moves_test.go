package assignor

import (
	"reflect"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// Of four members with twelve partitions one leaves. The nine partitions of the others stay with
// their owners.
func TestNothingMovesThatCouldStay(t *testing.T) {
	partitions := map[string]int32{"t": 12}
	for _, a := range []Assignor{Sticky(), CooperativeSticky()} {
		t.Run(a.Name(), func(t *testing.T) {
			members := settled(t, a, subscribers("t")("a", "b", "c", "d"), partitions)
			for leaver := range members {
				rest := append(append([]Member(nil), members[:leaver]...), members[leaver+1:]...)
				after := settled(t, a, rest, partitions)
				require.Equal(t, 0, lost(rest, after), "%s leaves", members[leaver].ID)
			}
		})
	}
}

// A new member gets its share, and no other partition moves: neither in the round that makes room,
// nor in the next.
func TestOnlyTheNewcomersShareMoves(t *testing.T) {
	for n := range 12 {
		for _, a := range []Assignor{Sticky(), CooperativeSticky()} {
			partitions := map[string]int32{"t": 12, "u": 5}
			ids := []string{"b", "d", "f", "h", "j", "l", "n", "p", "r", "t", "v", "x"}[:n+1]
			before := settled(t, a, subscribers("t", "u")(ids...), partitions)
			// sorted before, among and behind the others
			for _, id := range []string{"a", "m", "z"} {
				after := settled(t, a, append(before[:len(before):len(before)], subscribers("t", "u")(id)...), partitions)
				require.Equal(t, len(after[len(before)].Owned), lost(before, after), "%s: %d members and %s", a.Name(), len(ids), id)
				require.Equal(t, 17/(n+2), len(after[len(before)].Owned), "its share, rounded down as it came last")
			}
		}
	}
}

// settled runs rounds, as members with this assignor do, until no assignment changes.
func settled(t *testing.T, a Assignor, members []Member, partitions map[string]int32) []Member {
	members = append([]Member(nil), members...)
	for generation := int32(1); ; generation++ {
		require.Less(t, generation, int32(4), "no end")
		out := assign(t, a, members, partitions)
		changed := false
		for i := range members {
			m := &members[i]
			now := out[m.ID]
			changed = changed || !reflect.DeepEqual(m.Owned, now)
			next, err := ParseSubscription(SubscriptionFor(a, m.Topics, now, generation, ""))
			require.NoError(t, err)
			m.Subscription = next
			// the owned partitions, whether or not this assignor's subscriptions carry them
			m.Owned = now
		}
		if !changed {
			return members
		}
	}
}

// lost counts the partitions that members no longer have.
func lost(before, after []Member) (n int) {
	for _, b := range before {
		for _, x := range after {
			if x.ID == b.ID {
				for _, tp := range b.Owned {
					if !slices.Contains(x.Owned, tp) {
						n++
					}
				}
			}
		}
	}
	return n
}
