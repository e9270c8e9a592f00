package lifecycle

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"time"

	"github.com/stratalog/strata/internal/machine"
	"github.com/stratalog/strata/internal/txnlog"
	"github.com/stratalog/strata/record"
)

// A sim is one transactional id with its environment. Producers follow each other without
// knowledge of each other, and a network loses, repeats and delays their messages. A coordinator
// dies and is loaded from its log. There are the partitions that are written to. All of it runs in
// one goroutine, in an order that the seed decides.
type sim struct {
	r       *rand.Rand
	version int16 // of clients: 0 or 2
	lateEnd bool  // EndTxn requests may also be late, when their producer has continued
	now     time.Time
	cfg     Config

	// The coordinator.
	m         *Machine
	epoch     int32 // epoch of the log's leader
	wakeAt    time.Time
	log       []txnlog.Record // all records that the present coordinator accepted
	shadow    *Machine        // has only the bytes in the log
	committed int             // number of committed records
	parked    []parkedUntil   // actions that wait for a commit
	deferred  []simDeferred   // requests that wait for the machine's next records, or for a time
	ids       int64
	refusals  int // in percent: the log rejects a record

	net       []func()
	slow      []func() // messages that take longer
	parts     []simLeader
	producers []*simProducer
	txns      []*simTxn
	owners    map[Producer]int // producer by the identity that it received

	counts
}

// counts are the numbers of events, to check that the runs have met the cases of the test.
type counts struct {
	steps, crashes, commits, aborts, fences, timeouts, lateRequests, rotations, expired, waited int
}

func (c *counts) add(d counts) {
	c.steps += d.steps
	c.crashes += d.crashes
	c.commits += d.commits
	c.aborts += d.aborts
	c.fences += d.fences
	c.timeouts += d.timeouts
	c.lateRequests += d.lateRequests
	c.rotations += d.rotations
	c.expired += d.expired
	c.waited += d.waited
}

type parkedUntil struct {
	end int // end offset of the log
	do  func(died bool)
}

// A simDeferred is a request that the machine could not answer yet.
type simDeferred struct {
	ev     Event
	until  time.Time
	answer func(value any, err error)
}

// A simTxn is a transaction as its producer sees it.
type simTxn struct {
	askedCommit bool
	told        string         // "commit" or "abort": the outcome that its producer received
	wrote       map[int]bool   // partitions with a confirmed write
	outcome     map[int]string // by partition
}

// A simLeader is the leader of a partition that transactions write to.
type simLeader interface {
	// produce writes once if the coordinator has the partition in the transaction.
	produce(s *sim, by Producer, txn *simTxn, seq int, done func(error))
	// mark writes a marker, or rejects it.
	mark(s *sim, k *Markers, coordinator int32)
	// shake causes a change of the leader.
	shake(s *sim)
	// rest is called after the last event.
	rest(s *sim)
}

// A simPartition is a model of a partition's leader according to KIP-890.
type simPartition struct {
	number    int
	producers map[int64]*simState
}

type simState struct {
	epoch       int16
	coordinator int32
	seq         int // sequence of the next write in the epoch
	open        *simTxn
	markers     int // number written: a write that was verified before one of them is rejected
}

func newSim(seed uint64, level, version int16, lateEnd bool, leader func(s *sim, number int) simLeader) *sim {
	s := &sim{r: rand.New(rand.NewPCG(seed, 11)), version: version, lateEnd: lateEnd, now: time.Unix(1000, 0), ids: 100, owners: map[Producer]int{},
		cfg: Config{Version: level, MaxTimeout: time.Hour, Expiration: 10 * time.Hour}}
	s.refusals = s.r.IntN(2) * s.r.IntN(10)
	for p := range 3 {
		s.parts = append(s.parts, leader(s, p))
	}
	s.m, s.shadow = New("x", &s.cfg), New("x", &s.cfg)
	return s
}

// send makes f run at a later time.
func (s *sim) send(f func()) { s.net = append(s.net, f) }

// sendUnreliably is for messages from and to clients: f may be lost, late or run twice.
func (s *sim) sendUnreliably(f func()) {
	switch n := s.r.IntN(20); {
	case n == 0:
	case n == 1:
		s.send(f)
		s.slow = append(s.slow, f)
	case n < 5:
		s.slow = append(s.slow, f)
	default:
		s.send(f)
	}
}

// step feeds the machine and applies the effects as a runtime does. answer receives the reply when
// all records that the reply may depend on are committed. It receives machine.ErrNotLeader when
// the coordinator has died.
func (s *sim) step(ev Event, answer func(value any, err error)) {
	s.steps++
	eff := s.twice(ev)
	if len(eff.Records) > 0 && s.r.IntN(100) < s.refusals {
		if _, marked := ev.(EventMarked); !marked { // a marked event is never too large
			s.m.Discard()
			if answer != nil {
				answer(nil, machine.ErrTooLarge)
			}
			return
		}
	}
	before := s.m.Value()
	s.m.Accept()
	for _, r := range eff.Records {
		s.log = append(s.log, r)
		s.shadow.Apply(s.throughBytes(r))
		s.transition(ev, before, r.Value)
	}
	s.wakeAt = eff.WakeAt
	for _, r := range eff.Replies {
		if !r.Later.IsZero() {
			s.require(len(eff.Records) == 0 && eff.Committed == nil, "%T is deferred and has done something", ev)
			s.deferred = append(s.deferred, simDeferred{ev, r.Later, answer})
			continue
		}
		s.park(func(died bool) {
			if died {
				answer(nil, machine.ErrNotLeader)
			} else {
				answer(r.Value, r.Err)
			}
		})
	}
	if k, ok := eff.Committed.(*Markers); ok {
		s.park(func(died bool) {
			if !died {
				s.write(k)
			}
		})
	}
	if _, ok := eff.Notice.(NeedsProducerID); ok && s.r.IntN(2) == 0 {
		s.step(EventTick{NewID: s.newID()}, nil)
	}
	s.checkReplay()
	if len(eff.Records) > 0 {
		s.feedDeferred(func(simDeferred) bool { return true })
	}
}

// feedDeferred feeds the deferred requests again that chosen selects.
func (s *sim) feedDeferred(chosen func(simDeferred) bool) {
	waiting := s.deferred
	s.deferred = nil
	for _, d := range waiting {
		if chosen(d) {
			s.waited++
			s.step(d.ev, d.answer)
		} else {
			s.deferred = append(s.deferred, d)
		}
	}
}

// until returns the time to which a request waits for the end of the previous transaction.
func (s *sim) until() time.Time {
	return s.now.Add(time.Duration(s.r.IntN(2)) * 100 * time.Millisecond)
}

// twice steps the machine, discards that, and steps it again: a draft leaves no trace.
func (s *sim) twice(ev Event) Effects {
	before := s.m.Value()
	refused := s.m.Step(s.now, ev)
	s.m.Discard()
	s.require(s.m.Value() == before, "%T left something behind", ev)
	eff := s.m.Step(s.now, ev)
	s.require(reflect.DeepEqual(refused, eff), "%T has other effects the second time", ev)
	return eff
}

func (s *sim) newID() *int64 {
	s.ids++
	id := s.ids
	return &id
}

func (s *sim) park(do func(died bool)) {
	if s.committed == len(s.log) {
		do(false)
		return
	}
	s.parked = append(s.parked, parkedUntil{len(s.log), do})
}

// commit makes a further part of the log replicated everywhere.
func (s *sim) commit() {
	s.committed += s.r.IntN(len(s.log)-s.committed) + 1
	for len(s.parked) > 0 && s.parked[0].end <= s.committed {
		p := s.parked[0]
		s.parked = s.parked[1:]
		p.do(false)
	}
}

// crash ends the coordinator. The next one finds the committed records, and a random part of those
// under way.
func (s *sim) crash() {
	s.crashes++
	s.log = s.log[:s.committed+s.r.IntN(len(s.log)-s.committed+1)]
	s.committed = len(s.log)
	parked, deferred := s.parked, s.deferred
	s.parked, s.deferred = nil, nil
	s.m, s.shadow, s.epoch = s.replayed(), s.replayed(), s.epoch+1
	s.step(EventLoaded{}, nil)
	for _, p := range parked {
		p.do(true)
	}
	for _, d := range deferred {
		d.answer(nil, machine.ErrNotLeader)
	}
}

// replayed returns a machine that has only the bytes in the log.
func (s *sim) replayed() *Machine {
	m := New("x", &s.cfg)
	for _, r := range s.log {
		m.Apply(s.throughBytes(r))
	}
	return m
}

// throughBytes returns a record as it is read from the log.
func (s *sim) throughBytes(r txnlog.Record) txnlog.Record {
	key, value := txnlog.AppendKey(nil, r.ID), []byte(nil)
	if r.Value != nil {
		value = r.Value.AppendTo(nil, s.cfg.Version)
	}
	again, known, err := txnlog.ParseRecord(key, value)
	s.require(known && err == nil, "%v", err)
	return again
}

func (s *sim) checkReplay() {
	was, is := s.shadow.Value(), s.m.Value()
	if was == nil || is == nil {
		s.require(was == is, "replayed %v, is %v", was, is)
		return
	}
	a, b := *was, *is
	if s.cfg.Version == 0 && a.ClientVersion == 0 { // version 0 has no fields for them
		a.PreviousID, a.NextID, a.LastEpoch = b.PreviousID, b.NextID, b.LastEpoch
	}
	s.require(reflect.DeepEqual(a, b), "replayed %+v, is %+v", a, b)
}

// transition checks a record against the one before, by Kafka's table of states. Identities never
// return.
func (s *sim) transition(ev Event, was, is *txnlog.Value) {
	if is == nil {
		s.expired++
		s.require(was.State == txnlog.Empty || was.State.Complete(), "%v expires", was.State)
		return
	}
	for p := range s.owners { // ids of dead producers are not used again
		s.require(p.ID != is.ProducerID || p.Epoch <= is.Epoch, "the log goes back from %v to %d/%d", p, is.ProducerID, is.Epoch)
	}
	if was == nil {
		s.require(is.State == txnlog.Empty && is.Epoch == 0, "begins with %+v", is)
		return
	}
	from := map[txnlog.State][]txnlog.State{
		txnlog.Empty:          {txnlog.Empty, txnlog.CompleteCommit, txnlog.CompleteAbort},
		txnlog.Ongoing:        {txnlog.Ongoing, txnlog.Empty, txnlog.CompleteCommit, txnlog.CompleteAbort},
		txnlog.PrepareCommit:  {txnlog.Ongoing},
		txnlog.PrepareAbort:   {txnlog.Ongoing},
		txnlog.CompleteCommit: {txnlog.PrepareCommit},
		txnlog.CompleteAbort:  {txnlog.PrepareAbort, txnlog.Empty, txnlog.CompleteCommit, txnlog.CompleteAbort},
	}[is.State]
	s.require(slices.Contains(from, was.State), "%v after %v", is.State, was.State)
	s.require(is.ProducerID == was.ProducerID && is.Epoch >= was.Epoch && int(is.Epoch) <= int(was.Epoch)+1 || is.ProducerID != was.ProducerID && is.Epoch == 0,
		"%d/%d after %d/%d", is.ProducerID, is.Epoch, was.ProducerID, was.Epoch)
	s.require(is.ProducerID == was.ProducerID || is.ProducerID > was.ProducerID, "producer id %d after %d", is.ProducerID, was.ProducerID)
	s.require(is.Epoch >= 0 && is.UpdateMs >= was.UpdateMs && is.PreviousID == was.ProducerID ||
		is.State == txnlog.Empty && is.PreviousID == was.PreviousID, "%+v after %+v", is, was)
	if is.ProducerID != was.ProducerID {
		s.rotations++
	}
	switch is.State {
	case txnlog.Ongoing:
		s.require(is.ProducerID == was.ProducerID && is.Epoch == was.Epoch && is.Epoch <= lastEpoch, "%+v after %+v", is, was)
		for _, tp := range was.Partitions {
			s.require(slices.Contains(is.Partitions, tp), "a partition is lost")
		}
	case txnlog.PrepareCommit, txnlog.PrepareAbort:
		s.require(slices.Equal(was.Partitions, is.Partitions) && is.StartMs == was.StartMs, "%+v after %+v", is, was)
		s.require(is.ClientVersion < epochBump || is.Epoch == was.Epoch+1, "version 2 ends without another epoch")
		if _, tick := ev.(EventTick); tick {
			s.timeouts++
			s.require(is.State == txnlog.PrepareAbort && s.now.UnixMilli() >= was.StartMs+int64(was.TimeoutMs), "aborted before its time")
		}
		if _, fence := ev.(EventInit); fence {
			s.fences++
			s.require(is.State == txnlog.PrepareAbort && is.Epoch == was.Epoch+1, "a fenced producer keeps its epoch")
		}
	}
}

// write writes markers, whose outcome must be committed.
func (s *sim) write(k *Markers) {
	decided := false
	for _, r := range s.log[:s.committed] {
		v := r.Value
		decided = decided || v != nil && v.ProducerID == k.ProducerID && v.Epoch == k.Epoch && v.State.Prepared() && (v.State == txnlog.PrepareCommit) == k.Commit
	}
	s.require(decided, "markers %+v before their outcome is committed", *k)
	epoch := s.epoch
	for _, tp := range k.Partitions {
		send := func() {
			s.parts[tp.Partition].mark(s, k, epoch)
			s.send(func() {
				s.step(EventMarked{Markers: k, Partitions: []record.TopicPartition{tp}, To: 1}, func(any, error) {})
			})
		}
		s.send(send)
		if s.version >= epochBump && s.r.IntN(5) == 0 {
			s.send(send)
		}
	}
}

func modelLeader(_ *sim, number int) simLeader {
	return &simPartition{number: number, producers: map[int64]*simState{}}
}

func (p *simPartition) shake(*sim) {}

func (p *simPartition) rest(s *sim) {
	for id, st := range p.producers {
		s.require(st.open == nil, "producer %d is left open for ever in partition %d", id, p.number)
	}
}

func (p *simPartition) mark(s *sim, k *Markers, coordinator int32) {
	st := p.state(k.ProducerID)
	if coordinator < st.coordinator || k.Epoch < st.epoch || k.Version >= epochBump && k.Epoch == st.epoch && st.open != nil {
		return
	}
	if k.Epoch > st.epoch {
		st.epoch, st.seq = k.Epoch, 0
	}
	st.coordinator = coordinator
	st.markers++
	if txn := st.open; txn != nil {
		st.open = nil
		s.ends(p.number, txn, k.Commit)
	}
}

// ends notes the outcome of a transaction's open writes in a partition.
func (s *sim) ends(p int, txn *simTxn, commit bool) {
	outcome := "abort"
	if commit {
		outcome = "commit"
		s.require(txn.askedCommit, "committed although its producer never asked for it")
	}
	// Before version 2 a late AddPartitionsToTxn and a late write begin another transaction, which
	// takes too long. The aborted transaction is then aborted once more.
	before := txn.outcome[p]
	s.require(before == "" || s.version < epochBump && before == "abort" && !commit, "two outcomes in one partition")
	txn.outcome[p] = outcome
	for _, other := range txn.outcome {
		s.require(other == outcome, "torn: committed and aborted")
	}
}

func (p *simPartition) state(id int64) *simState {
	if p.producers[id] == nil {
		p.producers[id] = &simState{}
	}
	return p.producers[id]
}

func (p *simPartition) produce(s *sim, by Producer, txn *simTxn, seq int, done func(error)) {
	st := p.state(by.ID)
	markers := st.markers
	answer := func(_ any, err error) {
		done(p.verified(st, markers, by, txn, seq, err))
	}
	tps := []record.TopicPartition{{Topic: "t", Partition: int32(p.number)}}
	if s.version >= epochBump {
		s.step(EventAdd{ProducerID: by.ID, Epoch: by.Epoch, Partitions: tps, Version: s.version, Until: s.until(), To: 1}, answer)
		return
	}
	s.step(EventVerify{ProducerID: by.ID, Epoch: by.Epoch, Partitions: tps, To: 1}, func(v any, err error) {
		if err == nil {
			err = v.([]error)[0]
		}
		answer(nil, err)
	})
}

func (p *simPartition) verified(st *simState, markers int, by Producer, txn *simTxn, seq int, err error) error {
	switch {
	case err != nil:
		return err
	case by.Epoch < st.epoch:
		return ErrProducerFenced
	case by.Epoch == st.epoch && seq < st.seq:
		return nil // a retry
	case st.open == nil && markers != st.markers:
		return ErrAbortable
	case by.Epoch > st.epoch:
		st.epoch, st.seq = by.Epoch, 0
	}
	if seq != st.seq {
		return ErrAbortable
	}
	st.seq++
	st.open = txn
	return nil
}

// require panics: a run that breaks a rule ends there, and run reports the seed.
func (s *sim) require(ok bool, format string, args ...any) {
	if !ok {
		panic(violation(fmt.Sprintf(format, args...)))
	}
}

type violation string
