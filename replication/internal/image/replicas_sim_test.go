package image

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/metarecord"
	"github.com/stratalog/strata/internal/sample"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/replication/internal/election"
	"github.com/stratalog/strata/topic"
)

// A replicaSim is a cluster of five brokers whose topics have one to five replicas. Brokers leave
// and return, with and without their unsynced records. Leaders propose sets, and proposals arrive
// late. Settings change. It records which brokers have all acknowledged records.
type replicaSim struct {
	t      *testing.T
	rnd    *rand.Rand
	m      *Image
	reader *Image            // gets only the bytes of records
	static map[string]string // settings that the cluster was opened with
	drawn  uint32
	holds  map[placed]*holding
	asked  []Proposal // proposals under way
	said   string
	seen   map[string]int
}

// placed is one partition.
type placed struct {
	id     topic.ID
	number int32
}

// A holding has the true contents of a partition's replicas.
type holding struct {
	complete map[int32]bool // brokers with all acknowledged records
	unsynced map[int32]bool // brokers with acknowledged records that may be on no disk
	away     map[int32]bool // brokers whose directory is missing; complete counts it as present
	joining  []int32        // replicas that the leader has proposed, and counts already
	epoch    int32          // partition epoch of that proposal
}

// rules is the Policy.
func (s *replicaSim) rules(m *Image, config map[string]string) Rules {
	all := maps.Clone(s.static)
	maps.Copy(all, m.BrokerConfigs[""])
	maps.Copy(all, config)
	n, _ := strconv.Atoi(all["min"])
	return Rules{MinInSync: max(n, 1), SyncOnAck: all["sync"] != "never", Unclean: all["unclean"] == "true"}
}

func (s *replicaSim) draw() topic.ID {
	s.drawn++
	return topic.ID{1, byte(s.drawn >> 16), byte(s.drawn >> 8), byte(s.drawn)}
}

func (s *replicaSim) setting() (key, value string) {
	switch s.rnd.IntN(5) {
	case 0, 1:
		return "min", fmt.Sprint(1 + s.rnd.IntN(4))
	case 2, 3:
		return "sync", []string{"ack", "never"}[s.rnd.IntN(2)]
	}
	return "unclean", []string{"true", "false", "false"}[s.rnd.IntN(3)]
}

// commit applies records, and tracks their effects on partitions.
func (s *replicaSim) commit(said string, recs []metarecord.Record) {
	s.said = said
	for _, rec := range recs {
		again, err := metarecord.Parse(metarecord.Append(nil, rec))
		require.NoError(s.t, err, said)
		switch rec := rec.(type) {
		case *metarecord.Partition:
			s.apply(rec, again)
			s.hold(placed{rec.TopicID, rec.Partition}, rec.ISR)
		case *metarecord.PartitionChange:
			s.change(rec, again)
		default:
			s.apply(rec, again)
		}
	}
	s.m.Publish(s.m.Version + int64(len(recs)))
	s.reader.Publish(s.m.Version)
	require.Equal(s.t, s.m, s.reader, said)
	for _, at := range s.partitions() {
		h := s.holds[at]
		if t := s.m.ByID[at.id]; t == nil {
			delete(s.holds, at)
		} else {
			s.check(t, &t.Partitions[at.number], h)
			s.acknowledge(t, &t.Partitions[at.number], h)
		}
	}
}

// partitions returns the existing partitions, in the same order for the same seed.
func (s *replicaSim) partitions() []placed {
	return slices.SortedFunc(maps.Keys(s.holds), func(a, b placed) int {
		if c := bytes.Compare(a.id[:], b.id[:]); c != 0 {
			return c
		}
		return int(a.number - b.number)
	})
}

func (s *replicaSim) apply(rec, again metarecord.Record) {
	require.NoError(s.t, s.m.Apply(rec), s.said)
	require.NoError(s.t, s.reader.Apply(again), s.said)
}

func (s *replicaSim) hold(at placed, all []int32) {
	h := &holding{complete: map[int32]bool{}, unsynced: map[int32]bool{}, away: map[int32]bool{}}
	for _, id := range all {
		h.complete[id] = true
	}
	s.holds[at] = h
}

// change applies a change of a partition.
func (s *replicaSim) change(rec *metarecord.PartitionChange, again metarecord.Record) {
	p := &s.m.ByID[rec.TopicID].Partitions[rec.Partition]
	was, h := p.State(), s.holds[placed{rec.TopicID, rec.Partition}]
	s.apply(rec, again)
	is := s.m.ByID[rec.TopicID].Partitions[rec.Partition].State()
	require.Equal(s.t, was.Epoch+1, is.Epoch, s.said)
	require.True(s.t, is.Leader == was.Leader || is.LeaderEpoch == was.LeaderEpoch+1, "one leader an epoch: %s", s.said)
	s.moved(h, was, is, rec)
	if len(is.Replicas) == 1 {
		return
	}
	for _, id := range is.InSync { // they have caught up
		if !slices.Contains(was.InSync, id) && !slices.Contains(was.Eligible, id) {
			s.seen["joined"]++
		}
	}
	switch {
	case rec.Leader < 0:
	case rec.Recovery == 1:
		delete(h.away, rec.Leader)
		h.complete = map[int32]bool{rec.Leader: true} // the rest is given up, and reported
		s.seen["unclean election"]++
	default:
		require.True(s.t, h.complete[rec.Leader] && !h.away[rec.Leader], "a leader lacks what was acknowledged: %s\nwas %+v\n is %+v", s.said, was, is)
		if len(was.Missing) > 0 && was.Leader < 0 {
			s.seen["replica found again leads"]++
		}
		s.seen["clean election"]++
		if len(was.InSync) == 0 {
			s.seen["eligible replica elected"]++
		}
		if rec.Leader == was.Leader {
			s.seen["leader started again"]++
		}
	}
}

// moved tracks replicas that are added and dropped. Dropped replicas are deleted.
func (s *replicaSim) moved(h *holding, was, is election.Partition, rec *metarecord.PartitionChange) {
	if len(was.Replicas) == 1 { // it leads with whatever records it has
		h.complete, h.unsynced = map[int32]bool{was.Replicas[0]: true}, map[int32]bool{was.Replicas[0]: true}
	}
	for _, id := range less(was.Replicas, is.Replicas) {
		delete(h.complete, id)
		delete(h.unsynced, id)
		delete(h.away, id)
		h.joining = nil
		s.seen["replica dropped"]++
		require.True(s.t, is.LeaderEpoch == was.LeaderEpoch+1 || was.Leader < 0 && is.Leader < 0, "another epoch: %s", s.said)
		if id == was.Leader {
			s.seen["leader dropped"]++
		}
	}
	if len(is.Replicas) == 1 && is.Leader >= 0 && rec.Leader >= 0 && rec.Recovery != 1 {
		require.True(s.t, h.complete[is.Leader], "the only replica left lacks what was acknowledged: %s", s.said)
	}
	switch {
	case len(rec.Adding)+len(rec.Removing) > 0:
		s.seen["reassignment begun"]++
	case rec.Replicas != nil && s.said == "proposals":
		s.seen["reassignment completed by those in sync"]++
	case rec.Replicas != nil:
		s.seen["reassignment completed, or cancelled, at once"]++
	}
}

// reassign requests other replicas of a random partition, or cancels its reassignment.
func (s *replicaSim) reassign() {
	all := s.partitions()
	if len(all) == 0 {
		return
	}
	at := all[s.rnd.IntN(len(all))]
	want := Reassignment{Partition: record.TopicPartition{Topic: s.m.ByID[at.id].Name, Partition: at.number}}
	if s.rnd.IntN(4) > 0 {
		for _, id := range s.rnd.Perm(5)[:1+s.rnd.IntN(4)] {
			want.Replicas = append(want.Replicas, int32(id)+1)
		}
	}
	under := len(s.m.Reassignments())
	recs, errs := s.m.Reassign([]Reassignment{want}, s.rules)
	if errs[0] != nil {
		s.seen["reassignment refused"]++
	} else if want.Replicas == nil {
		s.seen["reassignment cancelled"]++
	}
	s.commit(fmt.Sprintf("reassign %+v", want), recs)
	if errs[0] == nil && want.Replicas == nil {
		require.Len(s.t, s.m.Reassignments(), under-1)
	}
}

// check checks the invariants of one partition.
func (s *replicaSim) check(t *Topic, p *Partition, h *holding) {
	st, rules := p.State(), s.rules(s.m, t.Config)
	say := func() string { return fmt.Sprintf("%s: %+v", s.said, st) }
	for i, id := range st.InSync {
		require.Contains(s.t, st.Replicas, id, say())
		require.NotContains(s.t, st.InSync[:i], id, say())
		require.NotContains(s.t, st.Eligible, id, say())
	}
	for _, id := range st.Eligible {
		require.Contains(s.t, st.Replicas, id, say())
	}
	to := p.layout()
	require.True(s.t, containsAll(st.Replicas, to.adding) && containsAll(st.Replicas, to.removing), say())
	require.NotEmpty(s.t, less(st.Replicas, to.removing), say())
	require.Len(s.t, p.Directories, len(st.Replicas), say())
	if st.Leader >= 0 {
		require.Contains(s.t, st.InSync, st.Leader, say())
		require.Empty(s.t, st.LastKnown, say())
	}
	if len(st.InSync) >= min(rules.MinInSync, len(st.Replicas)) {
		require.Empty(s.t, st.Eligible, say())
	}
	if !st.Durable {
		return
	}
	require.True(s.t, rules.SyncOnAck, "durable by another policy: %s", say())
	require.Greater(s.t, len(st.Replicas), 1, say())
	for _, id := range slices.Concat(st.InSync, st.Eligible) {
		require.False(s.t, h.unsynced[id] && !h.away[id], "broker %d may lose what was acknowledged: %s", id, say())
	}
}

// acknowledge models an append, which may come at any time. The replicas in sync and those
// proposed by the leader get a record.
func (s *replicaSim) acknowledge(t *Topic, p *Partition, h *holding) {
	if h.epoch != p.PartitionEpoch {
		h.joining = nil
	}
	rules := s.rules(s.m, t.Config)
	if p.Leader < 0 || !s.m.acceptable(p.Leader) || len(p.Replicas) == 1 || s.rnd.IntN(3) == 0 {
		return
	}
	if len(p.ISR) < min(rules.MinInSync, len(p.Replicas)) {
		s.seen["too few in sync"]++
		return
	}
	s.seen["acknowledged"]++
	h.complete = map[int32]bool{}
	for _, id := range slices.Concat(p.ISR, h.joining) {
		h.complete[id] = true
		if !rules.SyncOnAck {
			h.unsynced[id] = true
		}
	}
}

// started models the start of a broker. The broker lost its unsynced records unless it was stopped
// in order.
func (s *replicaSim) started(a Arrival) {
	for _, h := range s.holds {
		if !a.Clean && h.unsynced[a.ID] {
			delete(h.complete, a.ID)
			s.seen["records lost"]++
		}
		delete(h.unsynced, a.ID)
	}
}

// arrival returns a broker that starts on its former disk. If the metadata does not have the
// broker, it may start on another disk.
func (s *replicaSim) arrival(id int32) Arrival {
	a := Arrival{ID: id, Incarnation: s.draw(), Directory: metarecord.ID{2, byte(id)}, Rack: string('a' + rune(id%2)), Clean: s.rnd.IntN(2) == 0}
	if b, known := s.m.Members[id]; known {
		a.Directory = b.Directory
	} else if s.rnd.IntN(3) > 0 {
		a.Directory = s.draw()
		for _, h := range s.holds {
			delete(h.complete, id)
			delete(h.unsynced, id)
			delete(h.away, id)
		}
		s.seen["disk replaced"]++
	}
	s.started(a)
	return a
}

// look takes directories of a broker away and puts them back before it starts. It returns the
// missing ones and the found ones.
func (s *replicaSim) look(id int32) (missing, found []Place) {
	for _, at := range s.partitions() {
		h, p := s.holds[at], &s.m.ByID[at.id].Partitions[at.number]
		if len(p.Replicas) == 1 || !slices.Contains(p.Replicas, id) {
			continue
		}
		switch {
		case h.away[id] && s.rnd.IntN(2) == 0:
			delete(h.away, id)
		case !h.away[id] && s.rnd.IntN(4) == 0:
			h.away[id] = true
			s.seen["directory taken away"]++
		}
		if h.away[id] {
			missing = append(missing, Place{at.id, int32(at.number)})
		} else if slices.Contains(p.Missing(), id) {
			found = append(found, Place{at.id, int32(at.number)})
		}
	}
	return missing, found
}

// copyAnew makes half of the missing replicas copy their leaders.
func (s *replicaSim) copyAnew() {
	for _, at := range s.partitions() {
		h, p := s.holds[at], &s.m.ByID[at.id].Partitions[at.number]
		for _, id := range p.Missing() {
			if h.away[id] && p.Leader >= 0 && p.Leader != id && s.m.acceptable(id) && s.rnd.IntN(2) == 0 {
				delete(h.away, id)
				delete(h.complete, id)
				s.seen["copied anew"]++
			}
		}
	}
}

// settle follows every change of the serving brokers.
func (s *replicaSim) settle() {
	for rounds := 0; ; rounds++ {
		require.Less(s.t, rounds, 1000, "it comes to an end")
		recs := s.m.Relead(3, s.rules)
		if len(recs) == 0 {
			break
		}
		s.commit("relead", recs)
	}
	for at, h := range s.holds {
		p := &s.m.ByID[at.id].Partitions[at.number]
		st := p.State()
		if st.Leader < 0 {
			s.seen["without a leader"]++
		} else {
			require.True(s.t, s.m.acceptable(st.Leader))
		}
		if len(st.Replicas) == 1 {
			// The only replica leads whenever its broker serves.
			require.Equal(s.t, s.m.acceptable(st.Replicas[0]), st.Leader >= 0, "%+v", st)
			require.Equal(s.t, st.Leader >= 0 || !s.m.EligibleReplicas(), len(st.InSync) == 1, "%+v", st)
			require.False(s.t, st.Recovering, "%+v", st)
			s.seen[fmt.Sprint("one replica, and who is eligible: ", s.m.EligibleReplicas())]++
			continue
		}
		for _, id := range st.InSync {
			require.True(s.t, s.m.acceptable(id), "%d: %+v", id, st)
		}
		for _, id := range slices.Concat(st.InSync, st.Eligible) {
			require.True(s.t, h.complete[id], "broker %d may lead, and lacks what was acknowledged: %+v", id, st)
		}
	}
	again := New()
	applyAll(s.t, again, s.m.Snapshot(s.m.Removed)...)
	again.Publish(s.m.Version)
	require.Equal(s.t, s.m, again, "a snapshot says the same")
}

// proposal adds a proposal of the leader of a random partition.
func (s *replicaSim) proposal() {
	all := s.partitions()
	if len(all) == 0 {
		return
	}
	at := all[s.rnd.IntN(len(all))]
	t := s.m.ByID[at.id]
	p := &t.Partitions[at.number]
	if p.Leader < 0 || !s.m.acceptable(p.Leader) || len(p.Replicas) == 1 {
		return
	}
	st := p.State()
	r := election.Request{Leader: st.Leader, Incarnation: s.m.Members[st.Leader].Epoch, LeaderEpoch: st.LeaderEpoch, Epoch: st.Epoch}
	h := s.holds[at]
	for _, id := range st.Replicas {
		if id != st.Leader && s.rnd.IntN(3) == 0 {
			continue
		}
		if !slices.Contains(st.InSync, id) {
			if !s.m.acceptable(id) { // it does not fetch
				continue
			}
			h.joining, h.epoch = append(h.joining, id), st.Epoch
			h.complete[id] = true
			delete(h.away, id)
			if s.rules(s.m, t.Config).SyncOnAck {
				delete(h.unsynced, id) // only its synced records count
			} else {
				h.unsynced[id] = true
			}
		}
		r.InSync, r.Incarnations = append(r.InSync, id), append(r.Incarnations, s.m.Members[id].Epoch)
	}
	synced := s.rules(s.m, t.Config).SyncOnAck && s.rnd.IntN(3) == 0
	s.asked = append(s.asked, Proposal{Topic: at.id, Partition: at.number, Request: r, Synced: synced})
}

// deliver gives the controller some of the leaders' proposals, in any order.
func (s *replicaSim) deliver() {
	var some []Proposal
	for range 1 + s.rnd.IntN(3) {
		if len(s.asked) > 0 {
			i := s.rnd.IntN(len(s.asked))
			some = append(some, s.asked[i])
			if s.rnd.IntN(5) > 0 { // else it is delivered twice
				s.asked = slices.Delete(s.asked, i, i+1)
			}
		}
	}
	recs, errs := s.m.AlterPartitions(some, s.rules)
	for i, err := range errs {
		if errors.Is(err, ErrUnknownTopic) {
			err = ErrUnknownTopic
		}
		if err != nil {
			s.seen[fmt.Sprint("refused: ", err)]++
			continue
		}
		s.seen["accepted"]++
		if h := s.holds[placed{some[i].Topic, some[i].Partition}]; some[i].Synced {
			for _, id := range some[i].Request.InSync {
				delete(h.unsynced, id)
			}
			s.seen["synced"]++
		}
	}
	s.commit("proposals", recs)
}

// step runs one command.
func (s *replicaSim) step() {
	id := 1 + s.rnd.Int32N(5)
	b, known := s.m.Members[id]
	name := []string{"a", "b", "c"}[s.rnd.IntN(3)]
	limits := Limits{Partitions: 12, Factor: 2, Policy: s.rules}
	key, value := s.setting()
	switch kind := s.rnd.IntN(100); {
	case kind < 8:
		cr := Creation{Name: name, Drawn: s.draw(), Partitions: 1 + s.rnd.IntN(3), Factor: 1 + s.rnd.IntN(5)}
		if s.rnd.IntN(2) == 0 {
			cr.Config = map[string]string{key: value}
		}
		recs, err := s.m.CreateTopic(cr, limits)
		if err != nil {
			s.seen["topic refused"]++
		}
		s.commit("create", recs)
	case kind < 10:
		recs, _ := s.m.AddPartitions(Growth{Topic: name, Total: 1 + s.rnd.IntN(4)}, limits)
		s.commit("grow", recs)
	case kind < 11:
		recs, _ := s.m.DeleteTopic(name)
		s.commit("delete", recs)
	case kind < 15:
		recs, _ := s.m.AlterTopic(name, s.rules, func(config map[string]string, _ int) error { config[key] = value; return nil })
		s.commit("alter "+key+"="+value, recs)
	case kind < 18:
		recs, err := s.m.AlterBroker(AllBrokers, s.rules, func(map[string]string) (map[string]string, error) { return map[string]string{key: value}, nil })
		require.NoError(s.t, err)
		s.commit("alter brokers "+key+"="+value, recs)
	case kind < 40:
		s.proposal()
	case kind < 44:
		s.reassign()
	case kind < 60:
		s.deliver()
	case kind < 64:
		type_ := ElectionType(s.rnd.IntN(2))
		recs, _ := s.m.ElectLeaders(type_, []record.TopicPartition{{Topic: name}, {Topic: name, Partition: 1}}, s.rules)
		s.seen[fmt.Sprint("asked election ", type_)] += len(recs)
		s.commit("elect", recs)
	default:
		s.members(id, b, known)
	}
}

// members changes the serving brokers.
func (s *replicaSim) members(id int32, b Member, known bool) {
	switch kind := s.rnd.IntN(10); {
	case !known || b.Fenced:
		if known && kind == 0 {
			s.commit("lost", []metarecord.Record{s.m.Unregister(id)})
			break
		}
		s.settle() // as before every start of a broker
		a, found := s.arrival(id), []Place(nil)
		if known {
			a.Missing, found = s.look(id)
		}
		s.discount(a)
		s.commit(fmt.Sprintf("register %+v", a), s.m.Register(a))
		s.discount(Arrival{ID: id, Clean: true, Missing: a.Missing, Found: found})
	case b.Leaving && kind < 3: // it stays after all
		s.commit("stays", s.m.Register(Arrival{ID: id, Incarnation: s.draw(), Directory: b.Directory, Rack: b.Rack}))
	case kind < 4 && !b.Leaving:
		s.commit("leave", []metarecord.Record{s.m.Leave(id)})
	case kind < 8:
		s.commit("fence", s.m.Fence([]int32{id}, nil))
	case kind == 8: // all lose power, and some are back
		if s.rnd.IntN(3) == 0 {
			s.static = map[string]string{}
			key, value := s.setting()
			s.static[key] = value
		}
		var up, found []Arrival
		for _, id := range slices.Sorted(maps.Keys(s.m.Members)) {
			if s.rnd.IntN(4) > 0 {
				a, has := s.arrival(id), []Place(nil)
				a.Missing, has = s.look(id)
				up, found = append(up, a), append(found, Arrival{ID: id, Clean: true, Found: has})
			}
		}
		s.commit("take over", s.m.TakeOver(up, s.rules))
		s.discount(found...)
	}
	if s.rnd.IntN(4) > 0 {
		s.settle()
	}
}

// discount commits the changes of partitions that follow from the brokers' logs.
func (s *replicaSim) discount(all ...Arrival) {
	for recs := s.m.Return(2, s.rules, all...); len(recs) > 0; recs = s.m.Return(2, s.rules, all...) {
		s.commit("return", recs)
	}
}

func TestReplicasThatMayLeadHaveWhatWasAcknowledged(t *testing.T) {
	seeds := uint64(300)
	if sample.Hurried() {
		seeds = 100
	}
	if os.Getenv("STRATA_LONG") != "" {
		seeds = 10_000
	}
	seen := map[string]int{}
	for seed := range seeds {
		ok := t.Run(fmt.Sprint(seed), func(t *testing.T) {
			s := &replicaSim{t: t, rnd: rand.New(rand.NewPCG(seed, 1)), m: New(), reader: New(), static: map[string]string{}, holds: map[placed]*holding{}, seen: seen}
			var up []Arrival
			for id := range int32(5) {
				up = append(up, s.arrival(id+1))
			}
			s.commit("begin", s.m.TakeOver(up, s.rules))
			if seed%4 == 0 { // a cluster of an earlier version
				s.commit("before KIP-966", []metarecord.Record{&metarecord.FeatureLevel{Name: eligibleReplicas}})
			}
			for range 120 {
				s.step()
				s.copyAnew()
			}
		})
		if !ok {
			return
		}
	}
	for _, must := range []string{
		"acknowledged", "too few in sync", "joined", "accepted", "synced", "clean election", "unclean election", "eligible replica elected", "leader started again",
		"reassignment begun", "reassignment completed by those in sync", "reassignment completed, or cancelled, at once", "reassignment cancelled", "reassignment refused",
		"replica dropped", "leader dropped",
		"records lost", "disk replaced", "directory taken away", "replica found again leads", "copied anew", "without a leader", "topic refused", "asked election 0", "asked election 1", "one replica, and who is eligible: true", "one replica, and who is eligible: false",
		fmt.Sprint("refused: ", election.ErrFencedLeaderEpoch), fmt.Sprint("refused: ", election.ErrUpdateVersion),
		fmt.Sprint("refused: ", election.ErrIneligibleReplica), fmt.Sprint("refused: ", election.ErrLeaderStartedAgain), fmt.Sprint("refused: ", ErrUnknownTopic),
	} {
		require.Positive(t, seen[must], "%s: %v", must, seen)
	}
	t.Logf("%d seeds: %v", seeds, seen)
}
