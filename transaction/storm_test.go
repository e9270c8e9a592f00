package transaction

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/replication"
	"github.com/stratalog/strata/vfs"
)

var storms = flag.Int("storms", 0, "number of storms for each version; 0: 20, or 3 where time is short")

var firstStorm = flag.Int("first-storm", 0, "seed of the first storm")

// A storm has producers that commit and abort, with successors that fence them. Meanwhile leaders
// and coordinators die, are cut off and restart, and the coordinator is created again. At the end
// each transaction has one outcome in all of its partitions, which is the outcome that its
// producer received, if any. No transaction is open.
type storm struct {
	*world
	rnd     *rand.Rand
	version int16
	parts   []tp
	began   time.Time

	mu       sync.Mutex // guards w.c, rnd and the fields below
	done     bool
	txns     []*txn
	outcomes map[string]int
}

// A txn is a producer's view of a transaction.
type txn struct {
	name    string
	written map[tp][]string // acknowledged values
	outcome string          // "commit", "abort", "": not received
}

func (s *storm) n(n int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rnd.IntN(n)
}

func (s *storm) over() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.done
}

// at returns the coordinator of the cluster, or the coordinator that a client finds.
func (s *storm) at(id string) *Coordinator {
	s.mu.Lock()
	c, remote := s.c, s.rnd.IntN(2) == 0
	s.mu.Unlock()
	if !remote {
		return c
	}
	broker, err := c.FindCoordinator(s.Context(), id)
	if err != nil {
		return c
	}
	return c.On(broker)
}

// retried reports whether a request must be sent again, after a pause.
func (s *storm) retried(err error) bool {
	if time.Since(s.began) > time.Hour { // of virtual time, and a storm takes minutes
		s.count(fmt.Sprintf("stuck: %v", err))
		return false
	}
	for _, again := range []error{ErrConcurrent, ErrNotCoordinator, ErrCoordinatorNotAvailable, ErrClosed,
		partition.ErrNotLeader, partition.ErrNotLeaderAfterAppend, partition.ErrNotEnoughReplicas, partition.ErrNotEnoughReplicasAfterAppend, partition.ErrClosed} {
		if errors.Is(err, again) {
			time.Sleep(time.Duration(1+s.n(50)) * time.Millisecond)
			return true
		}
	}
	return false
}

const stormTimeout = 10 * time.Second // of transactions

// produce runs one producer under an id. It ends when the producer is fenced, or dies.
func (s *storm) produce(id string, run int) {
	p := &writer{w: s.world, id: id, version: s.version, p: NoProducer, seqs: map[tp]int32{}}
	for {
		got, err := s.at(id).InitProducerID(s.Context(), id, stormTimeout, NoProducer)
		if err == nil {
			p.p = got
			break
		}
		if !s.retried(err) {
			require.NoError(s, err)
		}
	}
	for i := 0; !s.over(); i++ {
		if !s.transact(p, &txn{name: fmt.Sprintf("%s/%d/%d", id, run, i), written: map[tp][]string{}}) || s.n(10) == 0 {
			return
		}
	}
}

// transact runs one transaction. It reports whether the producer can continue.
func (s *storm) transact(p *writer, x *txn) bool {
	s.mu.Lock()
	s.txns = append(s.txns, x)
	s.mu.Unlock()
	commit := s.n(3) > 0
	for k := range 1 + s.n(5) {
		if !s.write(p, x, s.parts[s.n(len(s.parts))], fmt.Sprint(x.name, "/", k)) {
			return false
		}
		switch s.n(40) {
		case 0:
			time.Sleep(stormTimeout + time.Duration(s.n(2000)-1000)*time.Millisecond)
		case 1: // the producer dies
			return false
		}
	}
	for {
		next, err := s.at(p.id).End(s.Context(), EndRequest{ID: p.id, Producer: p.p, Commit: commit, Version: s.version})
		if err == nil {
			if s.version == 2 {
				p.p = next
				clear(p.seqs)
			}
			x.outcome = map[bool]string{true: "commit", false: "abort"}[commit]
			s.count(x.outcome)
			return true
		}
		if !s.retried(err) {
			s.count("not told")
			return false
		}
	}
}

// write adds a partition to the transaction and writes a record there, until it is acknowledged.
func (s *storm) write(p *writer, x *txn, to tp, value string) bool {
	for {
		err := s.at(p.id).AddPartitions(s.Context(), AddRequest{ID: p.id, Producer: p.p, Partitions: []tp{to}, Version: s.version})
		if err == nil {
			break
		}
		if !s.retried(err) {
			return false
		}
	}
	for {
		err := p.append(to, value)
		if err == nil {
			x.written[to] = append(x.written[to], value)
			return true
		}
		if !s.retried(err) {
			s.count("refused write")
			return false
		}
	}
}

func (s *storm) count(what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.outcomes[what]++
}

// event causes a random fault.
func (s *storm) event() {
	broker, ctx := int32(1+s.n(3)), s.Context()
	pause := func() { time.Sleep(time.Duration(s.n(3000)*s.n(2)+s.n(50)) * time.Millisecond) }
	switch s.n(8) {
	case 0, 1, 2:
		require.NoError(s, s.brokers.KillBroker(broker))
		pause()
		require.NoError(s, s.brokers.StartBroker(ctx, broker))
	case 3:
		require.NoError(s, s.brokers.StopBroker(ctx, broker))
		pause()
		require.NoError(s, s.brokers.StartBroker(ctx, broker))
	case 4, 5:
		path := replication.NetworkPath{From: broker, To: 1 + (broker+int32(s.n(2)))%3}
		if s.n(2) == 0 {
			s.brokers.Network().Cut(path)
		} else {
			s.brokers.Network().Pause(path)
		}
		pause()
		s.brokers.Network().Mend(path)
	case 6:
		s.mu.Lock()
		old := s.c
		s.mu.Unlock()
		require.NoError(s, old.Close())
		s.mu.Lock()
		s.start()
		s.mu.Unlock()
	default:
		s.disks[broker-1].Inject(vfs.Fault{Ops: vfs.OpSync, Pattern: "*.log", Times: 20, Delay: 100 * time.Millisecond})
	}
	time.Sleep(time.Duration(s.n(1000)) * time.Millisecond)
}

// check compares the records of a ReadCommitted reader with the outcomes that the producers
// received.
func (s *storm) check() (wrong []string) {
	seen := map[string]int{}
	for _, part := range s.parts {
		if !s.stable(part) {
			wrong = append(wrong, fmt.Sprintf("%v: something is open", part))
		}
		for _, v := range s.committed(part) {
			seen[v]++
		}
	}
	for _, x := range s.txns {
		there, lost := 0, 0
		for part, values := range x.written {
			for _, v := range values {
				switch seen[v] {
				case 0:
					lost++
				case 1:
					there++
				default:
					wrong = append(wrong, fmt.Sprintf("%s in %v: %d times", v, part, seen[v]))
				}
			}
		}
		switch {
		case x.outcome == "commit" && lost > 0, x.outcome == "abort" && there > 0, lost > 0 && there > 0:
			wrong = append(wrong, fmt.Sprintf("%s, told %q: %d records are there, %d are not", x.name, x.outcome, there, lost))
		}
	}
	ids, err := s.c.List(s.Context())
	require.NoError(s, err)
	for _, d := range ids {
		if d.State.Prepared() || d.State.String() == "Ongoing" {
			wrong = append(wrong, fmt.Sprintf("%s is %v", d.ID, d.State))
		}
	}
	if owed := s.c.Stats().MarkersOwed; owed > 0 {
		wrong = append(wrong, fmt.Sprintf("%d markers are owed", owed))
	}
	return wrong
}

func runStorm(t *testing.T, version int16, seed uint64, events int) (wrong []string, outcomes map[string]int) {
	in(t, 3, Config{Version: level(version), Topic: TopicConfig{Partitions: 5}}, func(w *world) {
		s := &storm{world: w, rnd: rand.New(rand.NewPCG(seed, uint64(version))), version: version, began: time.Now(), outcomes: map[string]int{}}
		for p := range int32(3) {
			s.parts = append(s.parts, tp{Topic: "a", Partition: p}, tp{Topic: "b", Partition: p})
		}
		var wg sync.WaitGroup
		for id := range 4 {
			for twice := range 1 + id%2 { // producers that fence each other
				wg.Go(func() {
					for run := 0; !s.over(); run++ {
						s.produce(fmt.Sprint("id", id), 2*run+twice)
						time.Sleep(time.Duration(s.n(2000*(1+9*twice))) * time.Millisecond)
					}
				})
			}
		}
		for range events {
			s.event()
		}
		s.mu.Lock()
		s.done = true
		s.mu.Unlock()
		wg.Wait()
		// transactions that a producer left open are aborted
		time.Sleep(stormTimeout + time.Minute)
		synctest.Wait()
		wrong, outcomes = s.check(), s.outcomes
		for what := range outcomes {
			if strings.HasPrefix(what, "stuck") {
				wrong = append(wrong, what)
			}
		}
	})
	return wrong, outcomes
}

func TestTransactionsSurviveWhoeverDies(t *testing.T) {
	seeds := *storms
	switch {
	case seeds > 0:
	case testing.Short() || raceEnabled:
		seeds = 2
	default:
		seeds = 20
	}
	for _, version := range []int16{0, 2} {
		total := map[string]int{}
		for seed := range seeds {
			seed += *firstStorm
			wrong, outcomes := runStorm(t, version, uint64(seed), 40)
			require.Empty(t, wrong, "version %d, seed %d", version, seed)
			for k, v := range outcomes {
				total[k] += v
			}
		}
		t.Log("version", version, total)
		require.Greater(t, total["commit"], 20*seeds)
		require.Greater(t, total["abort"], 10*seeds)
		require.Positive(t, total["not told"]+total["refused write"])
	}
}
