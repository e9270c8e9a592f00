package classic

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/group/assignor"
	"github.com/stratalog/strata/group/internal/protocol"
	"github.com/stratalog/strata/internal/offsets"
	"github.com/stratalog/strata/record"
)

// The subscription and timeouts of a member's last join count at the next coordinator. Its earlier
// requests do not matter, nor whether compaction has left its former records.
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

// A static member restarts in the first round of a cooperative rebalance, when it was about to
// give up a partition. Its join starts the second round: no other member does.
func TestStaticMemberThatRestartsBetweenTwoRoundsBringsAboutTheSecond(t *testing.T) {
	of := func(partitions ...int32) (all []record.TopicPartition) {
		for _, p := range partitions {
			all = append(all, record.TopicPartition{Topic: "t", Partition: p})
		}
		return all
	}
	for name, c := range map[string]struct {
		owned []record.TopicPartition // in its last join
		want  protocol.State
	}{
		"it has nothing to give up": {of(0), protocol.Stable},
		"it had nothing":            {nil, protocol.Stable},
		"it is to give up one":      {of(0, 1), protocol.PreparingRebalance},
	} {
		said := func(owned []record.TopicPartition) []byte {
			return assignor.SubscriptionFor(assignor.CooperativeSticky(), []string{"t"}, owned, 1, "")
		}
		g := New("g", &Config{})
		member := func(id, instance string, subscription []byte, share []record.TopicPartition) offsets.MemberValue {
			return offsets.MemberValue{ID: id, InstanceID: instance, SessionTimeoutMs: 60_000, RebalanceTimeoutMs: 60_000, ClientHost: "/h",
				Subscription: subscription, Assignment: assignor.Assignment{Partitions: share}.AppendTo(nil)}
		}
		g.Apply(offsets.Record{Key: offsets.Key{Type: offsets.KeyGroup, Group: "g"}, Group: &offsets.GroupValue{
			ProtocolType: "consumer", Generation: 2, Protocol: "cooperative-sticky", Leader: "other",
			Members: []offsets.MemberValue{member("other", "", said(nil), nil), member("former", "i", said(c.owned), of(0))},
		}})
		now := time.Unix(1_000_000, 0)
		g.Step(now, EventLoaded{})
		g.Accept()
		g.Step(now, EventJoin{NewID: "new", JoinRequest: &protocol.JoinRequest{
			Group: "g", InstanceID: "i", ClientHost: "/h", ProtocolType: "consumer", SessionTimeout: time.Minute,
			Protocols: []assignor.Protocol{{Name: "cooperative-sticky", Metadata: said(nil)}},
		}})
		g.Accept()
		require.Equal(t, c.want, g.State(), name)
	}
}
