package groupstate

import (
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/machine"
	"github.com/stratalog/strata/internal/memory"
	"github.com/stratalog/strata/internal/sharelog"
)

// A stupid holds the state that a Machine should have, offset by offset.
type stupid struct {
	there                   bool
	leaderEpoch, stateEpoch int32
	start                   int64
	offsets                 map[int64]sharelog.Batch
}

func (s *stupid) fenced(leader, state int32) error {
	switch {
	case !s.there:
		return ErrNotInitialized
	case leader != -1 && leader < s.leaderEpoch:
		return ErrFencedLeaderEpoch
	case state != -1 && state < s.stateEpoch:
		return ErrFencedStateEpoch
	}
	return nil
}

func (s *stupid) step(ev Event) error {
	switch ev := ev.(type) {
	case EventInitialize:
		if s.there && ev.StateEpoch < s.stateEpoch {
			return ErrFencedStateEpoch
		}
		s.there, s.stateEpoch, s.start, s.offsets = true, ev.StateEpoch, ev.Start, map[int64]sharelog.Batch{}
	case EventBegin:
		if !s.there {
			s.there, s.start, s.offsets = true, ev.Start, map[int64]sharelog.Batch{}
		}
	case EventReset:
		if s.there {
			s.stateEpoch++
		}
		s.there, s.start, s.offsets = true, ev.Start, map[int64]sharelog.Batch{}
	case EventRead:
		if err := s.fenced(ev.LeaderEpoch, -1); err != nil {
			return err
		}
		s.leaderEpoch = ev.LeaderEpoch
	case EventSummary:
		if !s.there {
			return ErrNotInitialized
		}
	case EventWrite:
		if err := s.fenced(ev.LeaderEpoch, ev.StateEpoch); err != nil {
			return err
		}
		if ev.LeaderEpoch >= 0 {
			s.leaderEpoch = ev.LeaderEpoch
		}
		if ev.Start >= 0 {
			s.start = ev.Start
		}
		for _, b := range ev.Batches {
			for o := b.First; o <= b.Last; o++ {
				s.offsets[o] = sharelog.Batch{State: b.State, Count: b.Count}
			}
		}
	case EventDelete:
		*s = stupid{}
	}
	return nil
}

func (s *stupid) compare(t *testing.T, v *sharelog.Value) {
	t.Helper()
	if !s.there {
		require.Nil(t, v)
		return
	}
	require.NotNil(t, v)
	require.Equal(t, []any{s.leaderEpoch, s.stateEpoch, s.start}, []any{v.LeaderEpoch, v.StateEpoch, v.Start})
	got := map[int64]sharelog.Batch{}
	for _, b := range v.Batches {
		for o := b.First; o <= b.Last; o++ {
			got[o] = sharelog.Batch{State: b.State, Count: b.Count}
		}
	}
	for o := range s.offsets {
		if o < s.start {
			delete(s.offsets, o)
		}
	}
	require.Equal(t, s.offsets, got)
}

func event(rng *rand.Rand, s *stupid) Event {
	epoch := func(now int32) int32 { return max(-1, now-1+int32(rng.IntN(4))/2) }
	switch n := rng.IntN(40); {
	case n < 3:
		return EventInitialize{StateEpoch: max(0, s.stateEpoch-1+int32(rng.IntN(3))), Start: int64(rng.IntN(20)) - 1, To: 1}
	case n < 7:
		return EventRead{LeaderEpoch: max(0, s.leaderEpoch-1+int32(rng.IntN(3))), To: 1}
	case n < 9:
		return EventSummary{To: 1}
	case n < 10:
		return EventDelete{To: 1}
	case n < 12:
		return EventSnapshot{To: 1}
	case n < 13:
		return EventNothing{}
	case n < 14:
		return EventBegin{Start: int64(rng.IntN(20)) - 1, To: 1}
	case n < 15:
		return EventReset{Start: int64(rng.IntN(20)), To: 1}
	}
	w := EventWrite{LeaderEpoch: epoch(s.leaderEpoch), StateEpoch: epoch(s.stateEpoch), Start: -1, To: 1}
	if rng.IntN(2) == 0 {
		w.Start = max(0, s.start+int64(rng.IntN(4)))
	}
	for o := max(s.start, w.Start, 0) + int64(rng.IntN(5)); len(w.Batches) < 3; {
		b := sharelog.Batch{First: o, Last: o + int64(rng.IntN(4)), State: int8(2 * rng.IntN(3)), Count: int16(rng.IntN(3))}
		w.Batches = append(w.Batches, b)
		o = b.Last + 1 + int64(rng.IntN(3))
	}
	return w
}

// Checklist row S5: a machine agrees with a stupid. So does a machine that is recovered from the
// records at every step and from every snapshot.
func TestStateIsWhatWasWrittenInTheNewestEpochs(t *testing.T) {
	key := sharelog.Key{Group: "g", TopicID: [16]byte{1}, Partition: 3}
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(seed, 0))
		cfg := &Config{UpdatesPerSnapshot: rng.IntN(5)}
		m, s := New(key.ID(), cfg), &stupid{}
		var log []sharelog.Record
		updates, snapshots, created := 0, int32(-1), int64(0)
		for i := range 200 {
			now := time.UnixMilli(int64(1000 + i))
			ev := event(rng, s)
			eff := m.Step(now, ev)
			if rng.IntN(5) == 0 { // the log rejects the record
				m.Discard()
				s.compare(t, m.Value())
				continue
			}
			before := *s
			want := s.step(ev)
			if _, nothing := ev.(EventNothing); !nothing {
				require.Len(t, eff.Replies, 1)
				require.EqualValues(t, 1, eff.Replies[0].To)
				require.True(t, errors.Is(eff.Replies[0].Err, want), "%v, not %v", eff.Replies[0].Err, want)
			}
			if _, read := ev.(EventRead); read && want == nil {
				before.leaderEpoch = eff.Replies[0].Value.(*sharelog.Value).LeaderEpoch
				before.compare(t, eff.Replies[0].Value.(*sharelog.Value))
			}
			m.Accept()
			s.compare(t, m.Value())
			for _, r := range eff.Records {
				switch {
				case r.Value == nil:
					updates, snapshots = 0, -1
				case r.Update:
					updates++
					require.Equal(t, snapshots, r.Value.SnapshotEpoch)
				default:
					if snapshots == -1 {
						created = now.UnixMilli()
					}
					updates, snapshots = 0, snapshots+1
					require.Equal(t, []any{snapshots, created, now.UnixMilli()}, []any{r.Value.SnapshotEpoch, r.Value.CreateMs, r.Value.WriteMs})
					log = nil // records before a snapshot are not needed
					if rng.IntN(2) == 0 {
						log = append(log, sharelog.Record{Key: key, Update: true, Value: &sharelog.Value{Start: 5}})
					}
				}
				require.LessOrEqual(t, updates, cfg.UpdatesPerSnapshot)
			}
			log = append(log, eff.Records...)
			again := New(key.ID(), cfg)
			for _, r := range log {
				again.Apply(r)
			}
			require.Equal(t, m.Value(), again.Value())
			require.Equal(t, m.updates, again.updates)
			require.Equal(t, !s.there, again.Forgotten())
		}
	}
	require.Implements(t, (*machine.Machine[Event, sharelog.Record])(nil), New(key.ID(), &Config{}))
}

func TestAStateIsChargedAsLongAsItIsKept(t *testing.T) {
	var b memory.Budget
	m := New((sharelog.Key{Group: "group"}).ID(), &Config{UpdatesPerSnapshot: 2})
	m.ChargeTo(b.NewCharge())
	step := func(ev Event) error {
		eff := m.Step(time.UnixMilli(1000), ev)
		m.Accept()
		require.Len(t, eff.Replies, 1)
		return eff.Replies[0].Err
	}
	narrow := memory.Bound{Principal: "p", Bytes: 2*(stateBytes+len("group")) - 1}
	for _, begin := range []Event{EventBegin{Bound: narrow, To: 1}, EventInitialize{Bound: narrow, To: 1}, EventReset{Bound: narrow, To: 1}} {
		require.ErrorIs(t, step(begin), ErrFull)
		require.True(t, m.Forgotten())
	}
	wide := narrow
	wide.Bytes++
	for _, begin := range []Event{EventBegin{Bound: wide, To: 1}, EventInitialize{Bound: wide, To: 1}, EventReset{Bound: wide, To: 1}} {
		require.NoError(t, step(begin))
		require.Equal(t, stateBytes+len("group"), b.Of("p"))
		for _, again := range []Event{EventBegin{Bound: narrow, To: 1}, EventReset{Bound: narrow, To: 1}} {
			require.NoError(t, step(again), "it has the memory")
		}
		write := EventWrite{LeaderEpoch: -1, StateEpoch: -1, Start: -1, Complete: -1, To: 1, Batches: []sharelog.Batch{{First: 1, Last: 2, Count: 1}, {First: 5, Last: 5, Count: 2}}}
		require.NoError(t, step(write))
		require.Equal(t, stateBytes+len("group")+2*batchBytes, b.Of("p"))
		require.NoError(t, step(EventDelete{To: 1}))
		require.Zero(t, b.Used())
	}
}
