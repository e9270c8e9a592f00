package progress

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const maxLag = 30 * time.Second

// lead returns the leader of a partition of brokers 1, 2 and 3, which are all alive and in sync.
// Its log ends at offset 10, and no follower has reported yet.
func lead(t *testing.T, rules Rules) *Leader {
	t.Helper()
	rules.MaxLag = maxLag
	l := New(Config{
		Self: 1, Start: 4, Own: Position{End: 10, Durable: 10}, HighWatermark: 4, Rules: rules,
		Set: Set{Epoch: 1, Replicas: []int32{1, 2, 3}, InSync: []int32{1, 2, 3}},
	})
	for broker := range int32(4) {
		l.Broker(broker, 1, true, 0)
	}
	return l
}

func report(t *testing.T, l *Leader, broker int32, end, durable int64, now time.Duration) {
	t.Helper()
	require.NoError(t, l.Reported(Report{Broker: broker, Incarnation: 1, Position: Position{End: end, Durable: durable}}, now))
}

func TestHighWatermarkIsTheSmallestEndOfThoseInSync(t *testing.T) {
	l := lead(t, Rules{MinInSync: 2})
	require.EqualValues(t, 4, l.HighWatermark(), "nothing is known of the followers")
	report(t, l, 2, 9, 0, 0)
	require.EqualValues(t, 4, l.HighWatermark())
	report(t, l, 3, 7, 0, 0)
	require.EqualValues(t, 7, l.HighWatermark())
	report(t, l, 3, 6, 0, 0) // an older report that came late
	report(t, l, 3, 10, 0, 0)
	require.EqualValues(t, 9, l.HighWatermark())
	l.Moved(Position{End: 20, Durable: 10})
	report(t, l, 2, 15, 0, 0)
	require.EqualValues(t, 10, l.HighWatermark())
}

func TestUnderSyncOnAckTheDurableEndCounts(t *testing.T) {
	l := lead(t, Rules{MinInSync: 2, SyncOnAck: true})
	report(t, l, 2, 10, 5, 0)
	report(t, l, 3, 10, 10, 0)
	require.EqualValues(t, 5, l.HighWatermark())
	report(t, l, 2, 10, 10, 0)
	require.EqualValues(t, 10, l.HighWatermark())
	l.Moved(Position{End: 12, Durable: 10})
	report(t, l, 2, 12, 12, 0)
	report(t, l, 3, 12, 12, 0)
	require.EqualValues(t, 10, l.HighWatermark(), "the leader has not synced")
	l.Moved(Position{End: 12, Durable: 12})
	require.EqualValues(t, 12, l.HighWatermark())
}

func TestBelowItsMinimumTheHighWatermarkStands(t *testing.T) {
	l := lead(t, Rules{MinInSync: 2})
	report(t, l, 2, 8, 0, 0)
	report(t, l, 3, 8, 0, 0)
	l.Committed(Set{Epoch: 2, Replicas: []int32{1, 2, 3}, InSync: []int32{1}}, maxLag)
	l.Moved(Position{End: 11, Durable: 11})
	l.Tick(3 * maxLag) // no follower is about to join
	require.EqualValues(t, 8, l.HighWatermark())
	require.False(t, l.MayAppend())
	l.Configure(Rules{MinInSync: 1, MaxLag: maxLag}, 3*maxLag)
	require.EqualValues(t, 11, l.HighWatermark())
	require.True(t, l.MayAppend())

	alone := New(Config{Self: 1, Own: Position{End: 3, Durable: 3}, Rules: Rules{MinInSync: 2}, Set: Set{Replicas: []int32{1}, InSync: []int32{1}}})
	require.EqualValues(t, 3, alone.HighWatermark(), "a partition of one replica has a minimum of one")
}

func TestTheEndThatClientsAreToldWaitsForTheStartOfTheEpoch(t *testing.T) {
	l := New(Config{
		Self: 1, Start: 10, Own: Position{End: 10, Durable: 10}, HighWatermark: 6, Rules: Rules{MinInSync: 1},
		Set: Set{Replicas: []int32{1, 2}, InSync: []int32{1, 2}},
	})
	require.False(t, l.Complete())
	report(t, l, 2, 10, 10, 0)
	require.True(t, l.Complete())
}

func TestWhoFallsBehindIsToLeave(t *testing.T) {
	l := lead(t, Rules{MinInSync: 1})
	report(t, l, 2, 10, 0, time.Second)
	_, ok := l.Shrink(maxLag)
	require.False(t, ok, "3 may have been in sync until it was last looked at")
	p, ok := l.Shrink(maxLag + 1)
	require.True(t, ok)
	require.Equal(t, Proposal{Epoch: 1, InSync: []int32{1, 2}, Incarnations: []int64{-1, 1}}, p)
	require.True(t, l.Asked())
	_, ok = l.Shrink(maxLag + 1)
	require.False(t, ok, "one question at a time")
	require.EqualValues(t, 4, l.HighWatermark(), "it counts until the controller has agreed")
	l.Committed(Set{Epoch: 2, Replicas: []int32{1, 2, 3}, InSync: []int32{1, 2}}, maxLag+1)
	require.EqualValues(t, 10, l.HighWatermark())
	require.False(t, l.Asked())
	// an older set
	l.Committed(Set{Epoch: 1, Replicas: []int32{1, 2, 3}, InSync: []int32{1, 2, 3}}, maxLag+1)
	require.Equal(t, []int32{1, 2}, l.InSync())
}

// A follower that always has its leader's records of a moment ago is in sync, though its end
// offset is never equal.
func TestUnderSteadyLoadAFollowerStaysInSync(t *testing.T) {
	for _, sync := range []bool{false, true} {
		l := lead(t, Rules{MinInSync: 1, SyncOnAck: sync})
		report(t, l, 2, 10, 10, 0)
		for i := range int64(100) {
			now := time.Duration(i) * maxLag / 10
			l.Moved(Position{End: 20 + i, Durable: 20 + i})
			report(t, l, 3, 19+i, 18+i, now)
			report(t, l, 2, 20+i, 20+i, now)
			_, ok := l.Shrink(now)
			require.False(t, ok, i)
		}
		require.Greater(t, l.HighWatermark(), int64(100))
	}
}

// A disk that hangs delays all acknowledgements, but not longer than a dead follower.
func TestAFollowerThatNeverSyncsIsToLeave(t *testing.T) {
	l := lead(t, Rules{MinInSync: 1, SyncOnAck: true})
	for i := range int64(10) {
		now := time.Duration(i) * maxLag / 5
		l.Moved(Position{End: 11 + i, Durable: 11 + i})
		report(t, l, 2, 11+i, 11+i, now)
		report(t, l, 3, 11+i, 4, now)
	}
	p, ok := l.Shrink(2 * maxLag)
	require.True(t, ok)
	require.Equal(t, []int32{1, 2}, p.InSync)
}

func TestWhoHasEverythingMayJoin(t *testing.T) {
	l := lead(t, Rules{MinInSync: 1, SyncOnAck: true})
	l.Committed(Set{Epoch: 2, Replicas: []int32{1, 2, 3}, InSync: []int32{1, 2}}, 0)
	report(t, l, 2, 10, 10, 0)
	require.EqualValues(t, 4, l.HighWatermark(), "3 was in sync a moment ago: it is waited for")
	l.Tick(maxLag + 1)
	require.EqualValues(t, 10, l.HighWatermark())
	report(t, l, 3, 10, 9, 2*maxLag)
	_, ok := l.Expand()
	require.False(t, ok, "not all of it is on stable storage")
	report(t, l, 3, 10, 10, 2*maxLag)
	p, ok := l.Expand()
	require.True(t, ok)
	require.Equal(t, Proposal{Epoch: 2, InSync: []int32{1, 2, 3}, Incarnations: []int64{-1, 1, 1}}, p)
	l.Moved(Position{End: 12, Durable: 12})
	report(t, l, 2, 12, 12, 9*maxLag)
	require.EqualValues(t, 10, l.HighWatermark(), "who is to join counts at once, also when it falls behind")
	l.Refused(9 * maxLag)
	require.EqualValues(t, 12, l.HighWatermark())
}

func TestWhoLacksTheLeadersEpochDoesNotJoin(t *testing.T) {
	l := New(Config{
		Self: 1, Start: 10, Own: Position{End: 10, Durable: 10}, HighWatermark: 2, Rules: Rules{MinInSync: 2},
		Set: Set{Replicas: []int32{1, 2}, InSync: []int32{1}},
	})
	l.Broker(2, 1, true, 0)
	report(t, l, 2, 9, 9, 0)
	_, ok := l.Expand()
	require.False(t, ok)
	report(t, l, 2, 10, 10, 0)
	l.Broker(2, 1, false, 0)
	_, ok = l.Expand()
	require.False(t, ok, "it is fenced")
	l.Broker(2, 1, true, 0)
	_, ok = l.Expand()
	require.True(t, ok)
}

func TestAnEarlierIncarnationIsNotHeard(t *testing.T) {
	l := lead(t, Rules{MinInSync: 1})
	report(t, l, 2, 10, 10, 0)
	report(t, l, 3, 10, 10, 0)
	require.EqualValues(t, 10, l.HighWatermark())
	l.Moved(Position{End: 12, Durable: 12})
	report(t, l, 2, 12, 12, 0)
	l.Broker(3, 2, true, 0) // restarted: its records may be lost
	require.ErrorIs(t, l.Reported(Report{Broker: 3, Incarnation: 1, Position: Position{End: 12}}, 0), ErrStaleIncarnation)
	require.EqualValues(t, 10, l.HighWatermark())
	require.NoError(t, l.Reported(Report{Broker: 3, Incarnation: 3, Position: Position{End: 11}}, 0))
	require.EqualValues(t, 11, l.HighWatermark())
	l.Broker(3, 2, true, 0) // the metadata is late
	require.ErrorIs(t, l.Reported(Report{Broker: 3, Incarnation: 2, Position: Position{End: 12}}, 0), ErrStaleIncarnation)
	require.NoError(t, l.Reported(Report{Broker: 3, Incarnation: 3, Position: Position{End: 12}}, 0))
	l.Committed(Set{Epoch: 2, Replicas: []int32{1, 2, 3}, InSync: []int32{1, 2}}, 0)
	l.Broker(3, 4, true, 0)
	require.NoError(t, l.Reported(Report{Broker: 3, Incarnation: 4, Position: Position{End: 5}}, 0))
	_, ok := l.Expand()
	require.False(t, ok, "it has lost what it had")
	require.ErrorIs(t, l.Reported(Report{Broker: 4, Incarnation: 1}, 0), ErrNotReplica)
	require.ErrorIs(t, l.Reported(Report{Broker: 1, Incarnation: 1}, 0), ErrNotReplica)
}

// After a change to SyncOnAck, acknowledged records may be on no disk yet.
func TestDurableIsWhenEveryoneInSyncIs(t *testing.T) {
	l := lead(t, Rules{MinInSync: 1})
	report(t, l, 2, 10, 3, 0)
	report(t, l, 3, 10, 10, 0)
	require.EqualValues(t, 10, l.HighWatermark())
	require.False(t, l.Durable())
	l.Configure(Rules{MinInSync: 1, SyncOnAck: true, MaxLag: maxLag}, 0)
	require.EqualValues(t, 10, l.HighWatermark(), "what was acknowledged is not called back")
	require.False(t, l.Durable())
	report(t, l, 2, 10, 10, 0)
	require.True(t, l.Durable())
}

func TestLowWatermarkIsOfThoseThatLive(t *testing.T) {
	l := lead(t, Rules{MinInSync: 1})
	require.EqualValues(t, -1, l.LowWatermark(5))
	require.NoError(t, l.Reported(Report{Broker: 2, Incarnation: 1, LogStart: 4}, 0))
	l.Broker(3, 1, false, 0)
	require.EqualValues(t, 4, l.LowWatermark(5))
	require.NoError(t, l.Reported(Report{Broker: 2, Incarnation: 1, LogStart: 6}, 0))
	require.EqualValues(t, 5, l.LowWatermark(5))
}

// starts is a lineage: epochs and their start offsets, and the end of the log.
type starts struct {
	epochs []int32
	at     []int64
	end    int64
}

func (s starts) EndOffsetFor(epoch int32) (int32, int64) {
	n := len(s.epochs)
	if n == 0 || epoch > s.epochs[n-1] {
		return -1, -1
	}
	for i, e := range s.epochs {
		if e > epoch {
			if i == 0 {
				return epoch, s.at[0]
			}
			return s.epochs[i-1], s.at[i]
		}
	}
	return s.epochs[n-1], s.end
}

func TestLogsPartWhereTheirEpochsDo(t *testing.T) {
	leader := starts{[]int32{0, 2, 5}, []int64{0, 10, 20}, 30}
	tests := []struct {
		name     string
		follower starts
		last     int32
		diverges *Divergence
		cut      int64
	}{
		{"nothing yet", starts{nil, nil, 0}, -1, nil, 0},
		{"a prefix within an epoch", starts{[]int32{0, 2}, []int64{0, 10}, 15}, 2, nil, 0},
		{"a prefix up to an epoch", starts{[]int32{0, 2}, []int64{0, 10}, 20}, 2, nil, 0},
		{"equal", leader, 5, nil, 0},
		{"a tail of an old leader", starts{[]int32{0, 2}, []int64{0, 10}, 25}, 2, &Divergence{2, 20}, 20},
		{"an epoch that the leader has not", starts{[]int32{0, 1}, []int64{0, 8}, 12}, 1, &Divergence{0, 10}, 8},
		{"a tail over several epochs", starts{[]int32{0, 2, 3, 4}, []int64{0, 10, 15, 18}, 19}, 4, &Divergence{2, 20}, 15},
		{"older epochs than the leader's there", starts{[]int32{0, 1}, []int64{0, 5}, 40}, 1, &Divergence{0, 10}, 5},
		{"nothing in common", starts{[]int32{3}, []int64{0}, 9}, 3, &Divergence{2, 20}, 0},
	}
	for _, tt := range tests {
		d, diverges, ok := Compare(leader, tt.last, tt.follower.end)
		require.True(t, ok, tt.name)
		require.Equal(t, tt.diverges != nil, diverges, tt.name)
		if diverges {
			require.Equal(t, *tt.diverges, d, tt.name)
			require.Equal(t, tt.cut, Cut(tt.follower, tt.follower.end, d), tt.name)
		}
	}
	_, _, ok := Compare(leader, 6, 10)
	require.False(t, ok, "the follower knows a newer leader")
	require.EqualValues(t, 7, Cut(starts{nil, nil, 9}, 9, Divergence{Epoch: 2, End: 7}), "a log without epochs")
}

// unsynced returns a set whose sync the controller waits for.
func unsynced() Set {
	return Set{Epoch: 7, Replicas: []int32{1, 2, 3}, InSync: []int32{1, 2, 3}, Unsynced: true}
}

func TestControllerIsToldWhenAllInSyncHaveSynced(t *testing.T) {
	l := lead(t, Rules{MinInSync: 1})
	report(t, l, 2, 10, 10, 0)
	report(t, l, 3, 10, 3, 0)
	l.Committed(unsynced(), 0)
	l.Configure(Rules{MinInSync: 1, SyncOnAck: true, MaxLag: maxLag}, 0)
	_, ok := l.Prove()
	require.False(t, ok, "broker 3 has not")
	report(t, l, 3, 10, 10, 0)
	p, ok := l.Prove()
	require.True(t, ok)
	require.Equal(t, Proposal{Epoch: 7, InSync: []int32{1, 2, 3}, Incarnations: []int64{-1, 1, 1}, Synced: true}, p)
	_, ok = l.Prove()
	require.False(t, ok, "it is asked for")
	set := unsynced()
	set.Epoch, set.Unsynced = 8, false
	l.Committed(set, 0)
	_, ok = l.Prove()
	require.False(t, ok, "the controller knows")
}

// An earlier leader may have acknowledged records above this leader's high watermark.
func TestSyncedIsNotSaidBeforeTheHighWatermarkIsKnown(t *testing.T) {
	l := New(Config{
		Self: 1, Start: 10, Own: Position{End: 10, Durable: 10}, HighWatermark: 4, Set: unsynced(),
		Rules: Rules{MinInSync: 1, SyncOnAck: true, MaxLag: maxLag},
	})
	report(t, l, 2, 10, 6, 0)
	report(t, l, 3, 10, 6, 0)
	require.EqualValues(t, 6, l.HighWatermark())
	_, ok := l.Prove()
	require.False(t, ok)
	report(t, l, 2, 10, 10, 0)
	report(t, l, 3, 10, 10, 0)
	_, ok = l.Prove()
	require.True(t, ok)
}

func TestNothingIsAskedForDuringThePauseAfterARefusal(t *testing.T) {
	l := lead(t, Rules{MinInSync: 1})
	set := Set{Epoch: 7, Replicas: []int32{1, 2, 3}, InSync: []int32{1}}
	l.Committed(set, 0)
	now := time.Duration(0)
	var pauses []time.Duration
	for range 9 {
		report(t, l, 2, 10, 10, now)
		_, ok := l.Expand()
		require.True(t, ok)
		pause := l.Refused(now)
		pauses = append(pauses, pause)
		report(t, l, 2, 10, 10, now+pause-1)
		_, ok = l.Expand()
		require.False(t, ok)
		now += pause
	}
	require.Equal(t, 10*time.Millisecond, pauses[0])
	require.Equal(t, 20*time.Millisecond, pauses[1])
	require.Equal(t, time.Second, pauses[8])
	set.Epoch++
	l.Committed(set, now)
	report(t, l, 2, 10, 10, now)
	_, ok := l.Expand()
	require.True(t, ok, "it was answered since")
	require.Equal(t, 10*time.Millisecond, l.Refused(now))
}
