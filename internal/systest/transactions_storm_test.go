package systest

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/group"
	"github.com/stratalog/strata/internal/sample"
	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/replication"
	"github.com/stratalog/strata/topic"
	"github.com/stratalog/strata/transaction"
	"github.com/stratalog/strata/vfs"
)

var (
	txnStorms     = flag.Int("txn-storms", 0, "number of storms for each number of brokers and version; 0: 5, or 1 where time is short")
	firstTxnStorm = flag.Uint64("first-txn-storm", 0, "seed of the first storm")
)

// A txnStorm is workers that take one piece of input after the other. In one transaction a worker
// writes the piece's output to several partitions and commits its input offset. Successors fence
// workers, requests are lost, repeated or late, and brokers die, one or all of them. At the end
// the output has each committed piece once and whole, and no other.
type txnStorm struct {
	*testing.T
	brokers int
	version int16
	disks   []*vfs.MemFS
	dir     string // of the cluster; "": data
	out     []record.TopicPartition
	began   time.Time

	history *txnHistory
	pieces  int64 // pieces of input after which a worker ends; 0: it ends with the storm
	calm    bool  // no request is lost, repeated or late
	cared   bool  // logs are compacted, lose records and move

	mu       sync.Mutex // guards rnd and the fields below
	rnd      *rand.Rand
	c        *strata.Cluster
	done     bool
	outcomes map[string]int
	wrong    []string
	late     sync.WaitGroup
	restarts int
}

func (s *txnStorm) n(n int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rnd.IntN(n)
}

func (s *txnStorm) count(what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.outcomes[what]++
}

func (s *txnStorm) fail(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wrong = append(s.wrong, fmt.Sprintf(format, args...))
}

func (s *txnStorm) failed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.wrong) > 0
}

func (s *txnStorm) cluster() (c *strata.Cluster, over bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.c, s.done
}

func (s *txnStorm) open() {
	cfg := strata.Config{FS: s.disks[0], Dir: cmp.Or(s.dir, "data"), Brokers: s.brokers, BrokerSpecs: map[int32]replication.BrokerSpec{},
		Group: group.Config{OffsetsPartitions: 3}, Properties: map[string]string{"broker.session.timeout.ms": "1500"},
		Transactions: transaction.Config{Version: map[int16]int16{0: transaction.LevelZero, 1: 1, 2: 2}[s.version],
			Topic: transaction.TopicConfig{Partitions: 3}}}
	for i, d := range s.disks {
		cfg.BrokerSpecs[int32(i+1)] = replication.BrokerSpec{FS: d}
	}
	c, err := strata.Open(cfg)
	require.NoError(s, err)
	s.mu.Lock()
	s.c = c
	s.mu.Unlock()
}

// create creates the topics of input and output.
func (s *txnStorm) create() {
	if s.cared {
		s.createCared()
	} else {
		for _, name := range []string{"in", "a", "b"} {
			require.NoError(s, s.c.CreateTopic(s.Context(), name, topic.Config{Partitions: 3, ReplicationFactor: s.brokers, MinInSyncReplicas: min(2, s.brokers)}))
		}
	}
	for p := range int32(3) {
		s.out = append(s.out, at("a", p), at("b", p))
	}
}

// clientVersion returns the version of clients at the storm's transaction.version: 0 at level 1.
func (s *txnStorm) clientVersion() int16 { return s.version &^ 1 }

// transactions returns the coordinator of all brokers, or the one that a client would find.
func (s *txnStorm) transactions(id string) *transaction.Coordinator {
	c, _ := s.cluster()
	all := c.TransactionCoordinator()
	if s.n(2) == 0 {
		return all
	}
	broker, err := all.FindCoordinator(s.Context(), id)
	if err != nil {
		return all
	}
	return all.On(broker)
}

func (s *txnStorm) groups(id string) *group.Coordinator {
	c, _ := s.cluster()
	all := c.Backend().Coordinator
	if s.n(2) == 0 {
		return all
	}
	broker, err := all.FindCoordinator(s.Context(), id)
	if err != nil {
		return all
	}
	return all.On(broker)
}

var errLost = errors.New("lost")

// retried reports whether a request is to be sent again, after a pause.
func (s *txnStorm) retried(err error) bool {
	patience := 2 * time.Hour // of virtual time; a storm takes minutes
	if s.calm {
		patience /= 10
	}
	if time.Since(s.began) > patience {
		s.fail("stuck: %v", err)
		return false
	}
	for _, again := range []error{
		errLost, transaction.ErrConcurrent, transaction.ErrNotCoordinator, transaction.ErrCoordinatorNotAvailable, transaction.ErrClosed,
		group.ErrNotCoordinator, group.ErrCoordinatorNotAvailable, group.ErrUnstableOffsetCommit, partition.ErrConcurrentTransactions,
		partition.ErrNotLeader, partition.ErrNotLeaderAfterAppend, partition.ErrNotEnoughReplicas, partition.ErrNotEnoughReplicasAfterAppend,
		partition.ErrClosed, replication.ErrClosed, group.ErrUnknownTopicOrPartition,
	} {
		if errors.Is(err, again) {
			time.Sleep(time.Duration(1+s.n(50)) * time.Millisecond)
			return true
		}
	}
	s.count("refused: " + errors.Unwrap(fmt.Errorf("%w", err)).Error()[:min(40, len(err.Error()))])
	return false
}

// ask sends a request until it has a final answer, and returns the error of a rejection. A
// request, or its answer, may be lost. A request may be sent twice concurrently, or once more
// later if mayBeLate is set.
func (s *txnStorm) ask(mayBeLate bool, request func() error) error {
	for {
		var err error
		switch what := s.n(30); {
		case s.calm:
			err = request()
		case what == 0:
			err = errLost
		case what == 1: // the answer is lost
			_ = request()
			err = errLost
		case what == 2 && mayBeLate:
			s.late.Add(1)
			go func() {
				defer s.late.Done()
				time.Sleep(time.Duration(s.n(3000)) * time.Millisecond)
				if request() == nil {
					s.count("late and done")
				}
			}()
			err = request()
		case what == 3:
			twice := make(chan error, 1)
			go func() { twice <- request() }()
			err = request()
			if other := <-twice; other == nil {
				err = nil
			}
		default:
			err = request()
		}
		if err == nil || !s.retried(err) {
			return err
		}
	}
}

const txnStormTimeout = 10 * time.Second

// work runs one producer of a worker, until it is fenced, or dies. It reports whether all pieces
// are done.
func (s *txnStorm) work(id string, run int) bool {
	coordinator := s.transactions
	p := &txnClient{id: id, version: s.clientVersion(), seqs: map[record.TopicPartition]int32{}}
	if s.ask(false, func() error { // of two concurrent requests one fences the other
		got, err := coordinator(id).InitProducerID(s.Context(), id, txnStormTimeout, transaction.NoProducer)
		if err == nil {
			s.mu.Lock()
			if got.ID != p.p.ID || got.Epoch >= p.p.Epoch {
				p.p = got
			}
			s.mu.Unlock()
		}
		return err
	}) != nil {
		return false
	}
	in := at("in", 0)
	for i := 0; ; i++ {
		if _, over := s.cluster(); over {
			return false
		}
		var piece int64
		if s.ask(false, func() error {
			got, unstable, err := s.groups(id).FetchStableOffsets(s.Context(), id, []record.TopicPartition{in})
			if err == nil && len(unstable) > 0 {
				err = unstable[in]
			}
			if err == nil { // of two concurrent requests the last answer counts
				s.mu.Lock()
				piece = max(got[in].Offset, 0)
				s.mu.Unlock()
			}
			return err
		}) != nil {
			return false
		}
		s.history.add(txnEvent{offset: &txnOffset{id, in, piece}})
		if s.pieces > 0 && piece >= s.pieces {
			return true
		}
		a := &attempt{name: fmt.Sprintf("%s/%d/%d.%d", id, piece, run, i), group: id, moves: map[record.TopicPartition][2]int64{in: {piece, piece + 1}}}
		if !s.transact(p, a) || s.n(12) == 0 {
			return false
		}
	}
}

// transact runs one transaction. It reports whether the producer can continue.
func (s *txnStorm) transact(p *txnClient, a *attempt) bool {
	parts, committed := 1+s.n(4), false
	a.commit = s.n(4) > 0
	for k := range parts + 1 {
		if !committed && (k == parts || s.n(parts+1) == 0) {
			committed = true
			if !s.commitOffset(p, a) {
				return false
			}
		}
		if k < parts && !s.write(p, a, s.out[s.n(len(s.out))], k) {
			return false
		}
		if s.cared && s.n(3) == 0 {
			read := a.values
			if !s.write(p, a, at(deletable, int32(s.n(3))), 100+k) {
				return false
			}
			a.values = read // records in "d" are not checked
		}
		switch s.n(60) {
		case 0:
			time.Sleep(txnStormTimeout + time.Duration(s.n(2000)-1000)*time.Millisecond)
		case 1: // it dies
			return false
		}
	}
	s.history.add(txnEvent{asked: a})
	r := transaction.EndRequest{ID: p.id, Producer: p.p, Commit: a.commit, Version: p.version}
	err := s.ask(p.version == 2, func() error {
		next, err := s.transactions(r.ID).End(s.Context(), r)
		if err == nil && r.Version == 2 && !s.isLate(r.Producer, p) {
			s.mu.Lock()
			p.p = next
			s.mu.Unlock()
		}
		return err
	})
	if err != nil {
		s.count("not told")
		return false
	}
	if p.version == 2 {
		clear(p.seqs)
	}
	s.history.add(txnEvent{told: a})
	s.count(map[bool]string{true: "commit", false: "abort"}[a.commit])
	return true
}

// isLate reports whether the answer to a request is of an earlier transaction of p.
func (s *txnStorm) isLate(was transaction.Producer, p *txnClient) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return was != p.p
}

func (s *txnStorm) commitOffset(p *txnClient, a *attempt) bool {
	who := transaction.AddRequest{ID: p.id, Producer: p.p}
	if p.version == 0 && s.ask(false, func() error { return s.transactions(p.id).AddOffsets(s.Context(), who, p.id) }) != nil {
		return false
	}
	r := group.TxnCommitRequest{TransactionalID: p.id, TxnVersion: p.version, ProducerID: p.p.ID, ProducerEpoch: p.p.Epoch}
	r.Group, r.Generation = p.id, -1
	return s.ask(p.version == 2, func() error {
		r := r // the coordinator changes it
		r.Offsets = map[record.TopicPartition]record.Committed{at("in", 0): {Offset: a.moves[at("in", 0)][1], LeaderEpoch: -1}}
		errs, err := s.groups(p.id).CommitTxnOffsets(s.Context(), r)
		return cmp.Or(err, errs[at("in", 0)])
	}) == nil
}

// write appends a record until it is acknowledged.
func (s *txnStorm) write(p *txnClient, a *attempt, to record.TopicPartition, k int) bool {
	who := transaction.AddRequest{ID: p.id, Producer: p.p, Partitions: []record.TopicPartition{to}}
	if p.version == 0 && s.ask(true, func() error { return s.transactions(p.id).AddPartitions(s.Context(), who) }) != nil {
		return false
	}
	value := fmt.Sprint(a.name, "/", k)
	batch, id, version := txnBatch(p.p, p.seqs[to], value), p.id, p.version
	err := s.ask(true, func() error {
		c, _ := s.cluster()
		done := make(chan error, 1)
		c.Backend().Produce(&partition.ProduceRequest{TopicPartition: to, Batch: batch, Acks: record.AcksAll,
			TransactionalID: id, TxnVersion: version, Done: func(r partition.ProduceResult) { done <- r.Err }})
		return <-done
	})
	if err == nil {
		p.seqs[to]++
		a.values = append(a.values, valueIn(value, to))
	}
	return err == nil
}

// awaitBrokers waits until no broker is fenced. If one is fenced and another one dies, the
// metadata has no majority.
func (s *txnStorm) awaitBrokers() {
	c, _ := s.cluster()
	await(s.T, "all brokers serve", func() bool { return len(c.Backend().Brokers()) == s.brokers })
}

// event injects one fault.
func (s *txnStorm) event() {
	c, _ := s.cluster()
	ctx, broker := s.Context(), int32(1+s.n(s.brokers))
	pause := func() { time.Sleep(time.Duration(s.n(3000)*s.n(2)+s.n(50)) * time.Millisecond) }
	what := s.n(9)
	if s.brokers == 1 && what < 6 {
		what = 6 + s.n(3)
	}
	switch what {
	case 0, 1, 2:
		require.NoError(s, c.KillBroker(broker))
		pause()
		require.NoError(s, c.StartBroker(ctx, broker))
	case 3:
		require.NoError(s, c.StopBroker(ctx, broker))
		pause()
		require.NoError(s, c.StartBroker(ctx, broker))
	case 4: // it is cut off, and fenced if that lasts
		each := func(do func(replication.NetworkPath)) {
			for _, other := range []int32{broker%3 + 1, (broker+1)%3 + 1} {
				do(replication.NetworkPath{From: broker, To: other})
				do(replication.NetworkPath{From: other, To: broker})
			}
		}
		each(c.Backend().Network().Cut)
		pause()
		time.Sleep(time.Duration(s.n(2)*s.n(3000)) * time.Millisecond)
		each(c.Backend().Network().Mend)
		s.awaitBrokers()
	case 5:
		path := replication.NetworkPath{From: broker, To: 1 + (broker+int32(s.n(2)))%3}
		c.Backend().Network().Cut(path)
		pause()
		c.Backend().Network().Mend(path)
		s.awaitBrokers()
	case 6: // power cut
		for _, d := range s.disks {
			d.Inject(vfs.Fault{Ops: vfs.OpAny, Times: vfs.Always, Err: io.ErrUnexpectedEOF})
		}
		for i, d := range s.disks {
			s.disks[i] = d.Crash(uint64(s.n(1000)))
		}
		_ = c.Close()
		s.restarts++
		s.open()
	case 7: // orderly restart
		require.NoError(s, c.Close())
		s.restarts++
		s.open()
	default:
		s.disks[broker-1].Inject(vfs.Fault{Ops: vfs.OpSync, Pattern: "*.log", Times: 20, Delay: 100 * time.Millisecond})
	}
	time.Sleep(time.Duration(s.n(1000)) * time.Millisecond)
}

// watch reads a partition during the storm.
func (s *txnStorm) watch(of record.TopicPartition) {
	r := &committedReader{of: of}
	for {
		c, over := s.cluster()
		if over {
			return
		}
		r.look(s.Context(), c, s.history)
		time.Sleep(time.Duration(20+s.n(200)) * time.Millisecond)
	}
}

// check compares the outcome with the history of the workers and of watch.
func (s *txnStorm) check() {
	for _, wrong := range s.history.check(outcome(s.T, s.c, s.out, "w0", "w1", "w2")) {
		s.fail("%s", wrong)
	}
}

func runTxnStorm(t *testing.T, brokers int, version int16, seed uint64, events int) (s *txnStorm) {
	synctest.Test(t, func(t *testing.T) {
		s = &txnStorm{T: t, brokers: brokers, cared: seed%2 == 1, version: version, history: &txnHistory{}, rnd: rand.New(rand.NewPCG(seed, uint64(version))), began: time.Now(), outcomes: map[string]int{}}
		for range brokers {
			s.disks = append(s.disks, vfs.Mem())
		}
		s.open()
		s.create()
		var wg, watchers sync.WaitGroup
		for _, of := range s.out {
			watchers.Go(func() { s.watch(of) })
		}
		if s.cared {
			watchers.Go(s.cares)
			watchers.Go(s.keeps)
			for p := range int32(3) {
				watchers.Go(func() { s.watchStable(at(deletable, p)) })
			}
		}
		for id := range 3 {
			for twice := range 1 + id%2 { // two workers with one id fence each other
				wg.Go(func() {
					for run := 0; ; run++ {
						if _, over := s.cluster(); over {
							return
						}
						s.work(fmt.Sprint("w", id), 2*run+twice)
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
		watchers.Wait()
		s.late.Wait()
		// Transactions that producers have left open are aborted.
		time.Sleep(txnStormTimeout + time.Minute)
		synctest.Wait()
		s.check()
		require.NoError(t, s.c.Close())
	})
	return s
}

// Requests and answers are lost, repeated or late, and brokers lose power. Each piece of input has
// its output in all partitions once, or not at all, as the offsets of the group show.
func TestInputOutputAndOffsetsAgreeWhateverHappens(t *testing.T) {
	storms, events := 5, 40
	switch {
	case *txnStorms > 0:
		storms = *txnStorms
	case sample.Hurried():
		storms = 1
	}
	chosen := sample.Fewer(t, 3)
	for _, brokers := range []int{1, 3} {
		for version := range int16(3) {
			if !chosen(int(version)) {
				continue
			}
			t.Run(fmt.Sprintf("%d brokers, version %d", brokers, version), func(t *testing.T) {
				total := map[string]int{}
				for seed := range uint64(storms) {
					seed += *firstTxnStorm
					s := runTxnStorm(t, brokers, version, seed, events)
					require.Empty(t, s.wrong, "seed %d", seed)
					for k, v := range s.outcomes {
						total[k] += v
					}
				}
				var refused []string
				for k, v := range total {
					if strings.HasPrefix(k, "refused") {
						refused = append(refused, fmt.Sprint(k, " ", v))
					}
				}
				t.Log(total["commit"], "commits", total["abort"], "aborts", total["not told"], "not told", total["late and done"], "late and done", refused)
				require.Greater(t, total["commit"], 10*storms)
				require.Greater(t, total["abort"], 2*storms)
			})
		}
	}
}
