package lifecycle

import (
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/sample"
	"github.com/stratalog/strata/internal/txnlog"
)

// run runs one history: 600 random events, and then the simulation comes to rest. The coordinator
// has the level of transaction.version, its clients are of version 0 or 2. lateEnd lets an EndTxn
// arrive late, as any other request does.
func run(seed uint64, level, version int16, lateEnd bool) (c counts, err error) {
	return runWith(seed, level, version, lateEnd, modelLeader)
}

func runWith(seed uint64, level, version int16, lateEnd bool, leader func(s *sim, number int) simLeader) (c counts, err error) {
	s := newSim(seed, level, version, lateEnd, leader)
	defer func() {
		c = s.counts
		if v, ok := recover().(violation); ok {
			err = fmt.Errorf("seed %d, version %d, clients of %d: %s", seed, level, version, string(v))
		}
	}()
	if s.r.IntN(3) == 0 { // an id whose epochs are nearly used up
		s.log = append(s.log, txnlog.Record{ID: "x", Value: &txnlog.Value{ProducerID: 50, Epoch: int16(lastEpoch - s.r.IntN(5)), TimeoutMs: 60000,
			State: txnlog.Empty, UpdateMs: s.now.UnixMilli(), StartMs: -1, PreviousID: 50, NextID: -1, LastEpoch: -1}})
		s.committed, s.m, s.shadow = 1, s.replayed(), s.replayed()
	}
	s.newProducer()
	for range 600 {
		s.happen()
	}
	s.rest()
	return s.counts, nil
}

func (s *sim) happen() {
	switch n := s.r.IntN(1000); {
	case n < 550 && len(s.net) > 0:
		s.deliver()
	case n < 560 && len(s.slow) > 0:
		s.send(s.slow[0])
		s.slow = s.slow[1:]
	case n < 750 && s.committed < len(s.log):
		s.commit()
	case n < 950:
		s.producers[s.r.IntN(len(s.producers))].goOn()
	case n < 975:
		switch p := s.producers[s.r.IntN(len(s.producers))]; {
		case p.doing == nil || p.dead:
		case p.writing && s.r.IntN(4) > 0:
			p.giveUp()
		default:
			p.doing()
		}
	case n < 980:
		s.crash()
	case n < 985:
		s.newProducer()
	case n < 988:
		s.parts[s.r.IntN(len(s.parts))].shake(s)
	case n < 999:
		s.pass(time.Duration(s.r.IntN(20)-1) * time.Second) // clocks are set back at times
	case s.r.IntN(3) == 0:
		s.pass(11 * time.Hour)
		s.step(EventExpire{}, nil)
	}
}

// deliver delivers a random message that is under way.
func (s *sim) deliver() {
	i := s.r.IntN(len(s.net))
	f := s.net[i]
	s.net[i] = s.net[len(s.net)-1]
	s.net = s.net[:len(s.net)-1]
	f()
}

// pass advances the time. Ticks come a little late.
func (s *sim) pass(d time.Duration) {
	s.now = s.now.Add(d)
	s.feedDeferred(func(d simDeferred) bool { return !d.until.After(s.now) })
	if !s.wakeAt.IsZero() && !s.now.Before(s.wakeAt) {
		s.step(EventTick{}, nil)
	}
}

// rest makes all producers die and delivers all messages under way. Then it checks the final
// state.
func (s *sim) rest() {
	s.refusals = 0
	s.net, s.slow = append(s.net, s.slow...), nil
	for _, p := range s.producers {
		p.dead = true
	}
	for n := 0; len(s.net) > 0 || s.committed < len(s.log) || !s.wakeAt.IsZero() || len(s.deferred) > 0; n++ {
		s.require(n < 10_000, "it does not come to rest: %+v", s.m.Value())
		switch {
		case len(s.net) > 0:
			s.deliver()
		case s.committed < len(s.log):
			s.commit()
		case len(s.deferred) > 0:
			s.pass(100 * time.Millisecond)
		default:
			s.pass(max(s.wakeAt.Sub(s.now), 0))
		}
	}
	if v := s.m.Value(); v != nil {
		s.require(v.State == txnlog.Empty || v.State.Complete(), "prepared and never completed: %+v", v)
	}
	for _, p := range s.parts {
		p.rest(s)
	}
	for _, txn := range s.txns {
		for p := range txn.wrote {
			s.require(txn.told != "commit" || txn.outcome[p] == "commit", "confirmed commit is lost: %+v", txn)
		}
		for _, outcome := range txn.outcome {
			s.require(txn.told == "" || outcome == txn.told, "told %s, is %s", txn.told, outcome)
		}
	}
}

// TestTransactionsHaveOneOutcomeWhateverIsLostRepeatedOrLate runs seeded histories. Requests and
// replies are lost, repeated and late, and coordinators die with a part of their writes. Producers
// are fenced, take too long, use up their epochs and expire. STRATA_SEED runs one seed,
// STRATA_LONG 10,000 at each level.
func TestTransactionsHaveOneOutcomeWhateverIsLostRepeatedOrLate(t *testing.T) {
	first, seeds := uint64(0), uint64(300)
	if sample.Hurried() {
		seeds = 100
	}
	if os.Getenv("STRATA_LONG") != "" {
		seeds = 10_000
	}
	if v := os.Getenv("STRATA_SEED"); v != "" {
		n, err := strconv.ParseUint(v, 10, 64)
		require.NoError(t, err)
		first, seeds = n, 1
	}
	for _, v := range []struct{ level, client int16 }{{0, 0}, {1, 0}, {2, 0}, {2, 2}} {
		t.Run(fmt.Sprintf("version %d, clients of %d", v.level, v.client), func(t *testing.T) {
			var all counts
			for seed := first; seed < first+seeds; seed++ {
				c, err := run(seed, v.level, v.client, v.client >= epochBump)
				require.NoError(t, err)
				all.add(c)
			}
			t.Logf("%d histories: %+v", seeds, all)
			if seeds == 1 {
				return
			}
			for name, n := range map[string]int{"crashes": all.crashes, "commits": all.commits, "aborts": all.aborts, "fences": all.fences,
				"timeouts": all.timeouts, "late requests": all.lateRequests, "rotations": all.rotations, "expired": all.expired} {
				require.Positive(t, n, name)
			}
		})
	}
}

// TestLateEndTearsTransactionsBeforeVersion2 shows that the histories detect the defect that
// version 2 mends.
func TestLateEndTearsTransactionsBeforeVersion2(t *testing.T) {
	for seed := uint64(0); ; seed++ {
		require.Less(t, seed, uint64(5000), "no late request did any harm")
		if _, err := run(seed, 1, 0, true); err != nil {
			require.Regexp(t, "never asked|two outcomes|torn|confirmed", err.Error())
			return
		}
	}
}
