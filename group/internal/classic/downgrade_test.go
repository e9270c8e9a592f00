package classic

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/group/assignor"
	"github.com/stratalog/strata/group/internal/protocol"
)

// A group of another kind becomes a classic one while some members have not received their
// assignment. These join again, also if the coordinator moves first: the next one has only the
// record. Members of a group without such a rebalance stay.
func TestMembersOfADowngradedGroupJoinAgainAtTheNextCoordinatorToo(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	for _, rebalance := range []bool{false, true} {
		d := &Downgrade{Generation: 4, Rebalance: rebalance, Members: []Transfer{{ID: "m", ClientHost: "/h", Session: time.Minute, Rebalance: time.Minute,
			Protocols: []assignor.Protocol{{Name: "range", Metadata: assignor.Subscription{Topics: []string{"t"}}.AppendTo(nil)}}}}}
		want := map[bool]protocol.State{false: protocol.Stable, true: protocol.PreparingRebalance}[rebalance]
		g, rec := NewFrom(NewCommitted("g"), &Config{}, now, d)
		require.Equal(t, want, g.State())
		next := New("g", &Config{})
		next.Apply(rec)
		require.Equal(t, protocol.Stable, next.State())
		next.Step(now, EventLoaded{})
		require.Equal(t, want, next.State(), "at the next coordinator, rebalance: %v", rebalance)
		require.Equal(t, 1, next.Size())
	}
}
