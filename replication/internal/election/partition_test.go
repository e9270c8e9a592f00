package election

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// rules returns the rules of a topic with a minimum of two, where only the given brokers are
// alive.
func rules(alive ...int32) Rules {
	return Rules{MinInSync: 2, Acceptable: func(b int32) bool { return slices.Contains(alive, b) }}
}

func ids(b ...int32) []int32 { return b }

var whole = Partition{Replicas: ids(1, 2, 3), InSync: ids(1, 2, 3), Leader: 1, LeaderEpoch: 5, Epoch: 9}

func TestElections(t *testing.T) {
	unclean := rules(3)
	unclean.Unclean = true
	tests := []struct {
		name   string
		before Partition
		change Change
		rules  Rules
		after  Partition // without its epochs
		epochs int       // number of new leader epochs; -1: nothing has changed
		lossy  bool
	}{
		{
			"the leader is fenced: the next of the replicas in sync", whole, Change{Left: ids(1)}, rules(2, 3),
			Partition{InSync: ids(2, 3), Leader: 2}, 1, false,
		}, {
			"a follower is fenced: the leader stays, in its epoch", whole, Change{Left: ids(3)}, rules(1, 2),
			Partition{InSync: ids(1, 2), Leader: 1}, 0, false,
		}, {
			"below the minimum those who leave stay eligible",
			Partition{Replicas: ids(1, 2, 3), InSync: ids(1, 2), Leader: 1}, Change{Left: ids(1)}, rules(2),
			Partition{InSync: ids(2), Eligible: ids(1), Leader: 2}, 1, false,
		}, {
			"the last one leaves: no leader, and it is known who was",
			Partition{Replicas: ids(1, 2, 3), InSync: ids(2), Eligible: ids(1), Leader: 2}, Change{Left: ids(2)}, rules(3),
			Partition{InSync: ids(), Eligible: ids(1, 2), LastKnown: ids(2), Leader: NoLeader}, 1, false,
		}, {
			"an eligible one returns",
			Partition{Replicas: ids(1, 2, 3), Eligible: ids(1, 2), LastKnown: ids(2), Leader: NoLeader, Durable: true},
			Change{Restarted: ids(1), Unclean: ids(1)}, withSync(rules(1, 3)),
			Partition{InSync: ids(1), Eligible: ids(2), Leader: 1, Durable: true}, 1, false,
		}, {
			"an eligible one returns from a power cut that may have cost it records",
			Partition{Replicas: ids(1, 2, 3), Eligible: ids(1, 2), LastKnown: ids(2), Leader: NoLeader},
			Change{Restarted: ids(1), Unclean: ids(1)}, rules(1, 3),
			Partition{InSync: ids(), Eligible: ids(2), LastKnown: ids(2), Leader: NoLeader}, 0, false,
		}, {
			"nobody is eligible any more: the last leader, and that is told",
			Partition{Replicas: ids(1, 2, 3), Eligible: ids(2), LastKnown: ids(2), Leader: NoLeader},
			Change{Restarted: ids(2), Unclean: ids(2)}, rules(2, 3),
			Partition{InSync: ids(2), Leader: 2, Recovering: true, Eligible: ids()}, 1, true,
		}, {
			"nobody may lead", Partition{Replicas: ids(1, 2, 3), Eligible: ids(1, 2), Leader: NoLeader}, Change{}, rules(3),
			Partition{}, -1, false,
		}, {
			"nobody may lead, and records may be given up",
			Partition{Replicas: ids(1, 2, 3), Eligible: ids(1, 2), Leader: NoLeader}, Change{}, unclean,
			Partition{InSync: ids(3), Leader: 3, Recovering: true}, 1, true,
		}, {
			"somebody in sync is preferred to the eligible",
			Partition{Replicas: ids(1, 2, 3), InSync: ids(3), Eligible: ids(1), Leader: NoLeader}, Change{}, rules(1, 3),
			Partition{InSync: ids(3), Eligible: ids(1), Leader: 3}, 1, false,
		}, {
			"the leader is started again: a new epoch", withDurable(whole), Change{Restarted: ids(1), Unclean: ids(1)}, withSync(rules(1, 2, 3)),
			Partition{InSync: ids(1, 2, 3), Leader: 1, Durable: true}, 1, false,
		}, {
			"the leader is started again and may have lost records: another leads", whole, Change{Restarted: ids(1), Unclean: ids(1)}, rules(1, 2, 3),
			Partition{InSync: ids(2, 3), Leader: 2}, 1, false,
		}, {
			"all brokers are started again after a power cut", withDurable(whole),
			Change{Restarted: ids(1, 2, 3), Unclean: ids(1, 2, 3)}, withSync(rules(1, 2, 3)),
			Partition{InSync: ids(1, 2, 3), Leader: 1, Durable: true}, 1, false,
		}, {
			"all brokers are started again after a power cut that may have cost records", whole,
			Change{Restarted: ids(1, 2, 3), Unclean: ids(1, 2, 3)}, rules(1, 2, 3),
			Partition{InSync: ids(1), Leader: 1, Recovering: true}, 1, true,
		}, {
			"a follower joins: the minimum is met, and nobody else is eligible",
			Partition{Replicas: ids(1, 2, 3), InSync: ids(1), Eligible: ids(2, 3), Leader: 1, Recovering: true}, Change{InSync: ids(1, 2)}, rules(1, 2, 3),
			Partition{InSync: ids(1, 2), Leader: 1}, 0, false,
		}, {
			"the preferred leader is back in sync", Partition{Replicas: ids(1, 2, 3), InSync: ids(2, 1), Leader: 2}, Change{Prefer: 1}, rules(1, 2, 3),
			Partition{InSync: ids(2, 1), Leader: 1}, 1, false,
		}, {
			"the preferred leader is not in sync", Partition{Replicas: ids(1, 2, 3), InSync: ids(2, 3), Leader: 2}, Change{Prefer: 1}, rules(1, 2, 3),
			Partition{}, -1, false,
		}, {
			"another than the preferred one is asked for", Partition{Replicas: ids(1, 2, 3), InSync: ids(1, 3), Leader: 1}, Change{Prefer: 3}, rules(1, 2, 3),
			Partition{InSync: ids(1, 3), Leader: 3}, 1, false,
		}, {
			"who is asked for is about to leave", Partition{Replicas: ids(1, 2, 3), InSync: ids(1, 3), Leader: 1}, Change{Prefer: 3}, rules(1, 2),
			Partition{}, -1, false,
		}, {
			"a topic that changes to SyncOnAck is not durable at once", whole, Change{}, withSync(rules(1, 2, 3)),
			Partition{}, -1, false,
		}, {
			"but when all in sync have synced", whole, Change{Synced: true}, withSync(rules(1, 2, 3)),
			Partition{InSync: ids(1, 2, 3), Leader: 1, Durable: true}, 0, false,
		}, {
			"and nobody is eligible who has not", Partition{Replicas: ids(1, 2, 3), InSync: ids(1), Eligible: ids(2), Leader: 1},
			Change{Synced: true}, withSync(rules(1, 2, 3)),
			Partition{}, -1, false,
		}, {
			"an unclean election ends what nobody knows of its leader",
			Partition{Replicas: ids(1, 2, 3), Eligible: ids(1, 2), Leader: NoLeader, Durable: true}, Change{}, withSync(unclean),
			Partition{InSync: ids(3), Leader: 3, Recovering: true}, 1, true,
		}, {
			"or becomes eligible by that", whole, Change{InSync: ids(1), Synced: true}, withSync(rules(1, 2, 3)),
			Partition{InSync: ids(1), Eligible: ids(2, 3), Leader: 1}, 0, false,
		}, {
			"a topic that leaves SyncOnAck is not durable any more", withDurable(whole), Change{}, rules(1, 2, 3),
			Partition{InSync: ids(1, 2, 3), Leader: 1}, 0, false,
		}, {
			"synced counts for nothing in a topic that does not wait for it", whole, Change{Synced: true}, rules(1, 2, 3),
			Partition{}, -1, false,
		}, {
			"a change of others does not end a leader's recovery",
			Partition{Replicas: ids(1, 2, 3), InSync: ids(1), Eligible: ids(2, 3), Leader: 1, Recovering: true}, Change{Left: ids(3)}, rules(1, 2),
			Partition{}, -1, false,
		}, {
			"nor does the same set",
			Partition{Replicas: ids(1, 2, 3), InSync: ids(1), Eligible: ids(2, 3), Leader: 1, Recovering: true}, Change{InSync: ids(1)}, rules(1, 2, 3),
			Partition{}, -1, false,
		}, {
			"a leader that may have lost records waits for one in sync that is away",
			Partition{Replicas: ids(1, 2, 3), InSync: ids(1, 2), Leader: 1}, Change{Restarted: ids(1), Unclean: ids(1)}, rules(1, 3),
			Partition{InSync: ids(2), Leader: NoLeader}, 1, false,
		}, {
			"and for one that is eligible",
			Partition{Replicas: ids(1, 2, 3), InSync: ids(1), Eligible: ids(2), Leader: 1}, Change{Restarted: ids(1), Unclean: ids(1)}, rules(1, 3),
			Partition{Eligible: ids(2), LastKnown: ids(1), Leader: NoLeader}, 1, false,
		}, {
			"nothing is left of the last one", Partition{Replicas: ids(1, 2, 3), InSync: ids(1), Leader: 1}, Change{Lost: ids(1)}, rules(2, 3),
			Partition{Leader: NoLeader}, 1, false,
		}, {
			"a replica whose directory is missing leaves the lead to another one",
			Partition{Replicas: ids(1, 2, 3), InSync: ids(1, 2), Leader: 1}, Change{Missing: ids(1)}, rules(1, 2, 3),
			Partition{InSync: ids(2), Missing: ids(1), Leader: 2}, 1, false,
		}, {
			"and is not eligible if another one is, even away",
			Partition{Replicas: ids(1, 2, 3), InSync: ids(1), Eligible: ids(2), Leader: 1}, Change{Missing: ids(1)}, rules(1, 3),
			Partition{Eligible: ids(2), LastKnown: ids(1), Missing: ids(1), Leader: NoLeader}, 1, false,
		}, {
			"the last ones stay eligible, and do not lead",
			Partition{Replicas: ids(1, 2, 3), InSync: ids(1, 2), Leader: 1}, Change{Missing: ids(1, 2)}, rules(1, 2, 3),
			Partition{Eligible: ids(1, 2), LastKnown: ids(1), Missing: ids(1, 2), Leader: NoLeader}, 1, false,
		}, {
			"nor by a later change",
			Partition{Replicas: ids(1, 2, 3), Eligible: ids(1, 2), Missing: ids(1, 2), Leader: NoLeader}, Change{Left: ids(3)}, rules(1, 2),
			Partition{}, -1, false,
		}, {
			"one that is found again leads, and the others are copied anew",
			Partition{Replicas: ids(1, 2, 3), Eligible: ids(1, 2), Missing: ids(1, 2), Leader: NoLeader}, Change{Found: ids(2)}, rules(1, 2, 3),
			Partition{InSync: ids(2), Missing: ids(1), Leader: 2}, 1, false,
		}, {
			"one that was copied anew is not missing", Partition{Replicas: ids(1, 2, 3), InSync: ids(2), Missing: ids(1), Leader: 2},
			Change{InSync: ids(1, 2)}, rules(1, 2, 3),
			Partition{InSync: ids(1, 2), Leader: 2}, 0, false,
		}, {
			"the last leader waits for its directory",
			Partition{Replicas: ids(1, 2, 3), InSync: ids(1), Leader: 1}, Change{Restarted: ids(1), Unclean: ids(1), Missing: ids(1)}, rules(1, 2),
			Partition{LastKnown: ids(1), Missing: ids(1), Leader: NoLeader}, 1, false,
		}, {
			"records may be given up, and others than the missing replicas have some",
			Partition{Replicas: ids(1, 2, 3), Eligible: ids(1), Missing: ids(1), Leader: NoLeader}, Change{},
			Rules{MinInSync: 2, Unclean: true, Acceptable: rules(1, 3).Acceptable},
			Partition{InSync: ids(3), Missing: ids(1), Leader: 3, Recovering: true}, 1, true,
		}, {
			"or all are missing",
			Partition{Replicas: ids(1, 2, 3), Eligible: ids(1, 3), Missing: ids(1, 2, 3), Leader: NoLeader}, Change{}, unclean,
			Partition{InSync: ids(3), Missing: ids(1, 2), Leader: 3, Recovering: true}, 1, true,
		}, {
			"records may be given up, and no broker is there",
			Partition{Replicas: ids(1, 2, 3), Eligible: ids(1, 2), Leader: NoLeader}, Change{}, Rules{MinInSync: 2, Unclean: true, Acceptable: rules().Acceptable},
			Partition{}, -1, false,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			before := tt.before
			after, out := Apply(tt.before, tt.change, tt.rules)
			require.Equal(t, before, tt.before, "it is left alone")
			require.Equal(t, tt.lossy, out.Unclean)
			if tt.epochs < 0 {
				require.False(t, out.Changed)
				require.Equal(t, before, after)
				return
			}
			require.True(t, out.Changed)
			require.Equal(t, before.Epoch+1, after.Epoch)
			require.Equal(t, before.LeaderEpoch+int32(tt.epochs), after.LeaderEpoch)
			want := tt.after
			want.Replicas, want.Epoch, want.LeaderEpoch = before.Replicas, after.Epoch, after.LeaderEpoch
			require.True(t, want.equal(after), "want %+v, got %+v", want, after)
		})
	}
}

func withSync(r Rules) Rules { r.SyncOnAck = true; return r }

func withDurable(p Partition) Partition { p.Durable = true; return p }

func TestWishesOfLeaders(t *testing.T) {
	incarnation := func(b int32) (int64, bool) { return int64(b) * 10, b != 3 }
	p := Partition{Replicas: ids(1, 2, 3, 4), InSync: ids(1), Leader: 1, LeaderEpoch: 5, Epoch: 9}
	wish := func(edit func(*Request)) error {
		r := Request{Leader: 1, Incarnation: 10, LeaderEpoch: 5, Epoch: 9, InSync: ids(1, 2), Incarnations: []int64{-1, 20}}
		edit(&r)
		return Check(p, r, incarnation)
	}
	require.NoError(t, wish(func(r *Request) {}))
	for _, tt := range []struct {
		want error
		edit func(*Request)
	}{
		{ErrLeaderStartedAgain, func(r *Request) { r.Incarnation = 9 }},
		{ErrNotController, func(r *Request) { r.LeaderEpoch = 6 }},
		{ErrNotController, func(r *Request) { r.Epoch = 10 }},
		{ErrFencedLeaderEpoch, func(r *Request) { r.LeaderEpoch, r.Epoch = 4, 8 }},
		{ErrNotLeader, func(r *Request) { r.Leader, r.Incarnation = 2, 20 }},
		{ErrUpdateVersion, func(r *Request) { r.Epoch = 8 }},
		{ErrInvalidInSync, func(r *Request) { r.InSync = ids(2, 4) }},
		{ErrInvalidInSync, func(r *Request) { r.InSync = ids(1) }},
		{ErrInvalidInSync, func(r *Request) { r.InSync = ids(1, 1) }},
		{ErrInvalidInSync, func(r *Request) { r.InSync = ids(1, 7) }},
		{ErrIneligibleReplica, func(r *Request) { r.InSync = ids(1, 3) }},
		{ErrIneligibleReplica, func(r *Request) { r.InSync, r.Incarnations[1] = ids(1, 3), -1 }},
		{ErrIneligibleReplica, func(r *Request) { r.Incarnations[1] = 19 }},
	} {
		require.ErrorIs(t, wish(tt.edit), tt.want)
	}
}
