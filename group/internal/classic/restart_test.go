package classic

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/group/offsets"
)

// What a member said when it last joined counts at the next coordinator, whatever it said before,
// and whether compaction has left its former records or not.
func TestMemberIsAsItWasWhenItLastJoinedAfterARestart(t *testing.T) {
	value := func(generation int32, session int32, topics string) offsets.Record {
		return offsets.Record{Key: offsets.Key{Type: offsets.KeyGroup, Group: "g"}, Group: &offsets.GroupValue{ProtocolType: "consumer", Generation: generation, Protocol: "range",
			Leader: "m", Members: []offsets.MemberValue{{ID: "m", ClientID: topics, SessionTimeoutMs: session, RebalanceTimeoutMs: session, Subscription: []byte(topics)}}}}
	}
	g := New("g", &Config{})
	g.Apply(value(1, 10_000, "a"))
	g.Apply(value(2, 60_000, "b"))
	now := time.Unix(1_000_000, 0)
	g.Step(now, EventLoaded{})
	g.Accept()
	require.Equal(t, []byte("b"), g.View().Members[0].SubscriptionData)
	require.Equal(t, "b", g.View().Members[0].ClientID)
	g.Step(now.Add(59*time.Second), EventTick{})
	g.Accept()
	require.Equal(t, 1, g.Size(), "it has the session timeout that it asked for last")
	g.Step(now.Add(61*time.Second), EventTick{})
	g.Accept()
	require.Zero(t, g.Size())
}
