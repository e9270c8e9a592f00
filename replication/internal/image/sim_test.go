package image

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/metarecord"
	"github.com/stratalog/strata/internal/sample"
	"github.com/stratalog/strata/topic"
)

// A simulation runs random commands and commits their records. It keeps two images: one decides,
// and the other gets only the records' bytes.
type simulation struct {
	t      *testing.T
	rnd    *rand.Rand
	m      *Image
	reader *Image
	ids    []topic.ID // ids given to topics
	drawn  uint32
	said   string // the command under way

	moved, leaderless, refused, removed int // coverage
}

// step runs one command.
func (s *simulation) step() {
	recs := s.command()
	before := map[topic.ID]*Topic{}
	maps.Copy(before, s.m.ByID)
	ids, members := s.m.NextProducerID, s.m.Members
	for _, rec := range recs {
		again, err := metarecord.Parse(metarecord.Append(nil, rec))
		require.NoError(s.t, err, s.said)
		require.NoError(s.t, s.m.Apply(rec), "what was decided applies: %s", s.said)
		require.NoError(s.t, s.reader.Apply(again), s.said)
	}
	s.m.Publish(s.m.Version + int64(len(recs)))
	s.reader.Publish(s.m.Version)
	require.Equal(s.t, s.m, s.reader, s.said)
	s.check(before)
	require.GreaterOrEqual(s.t, s.m.NextProducerID, ids)
	for id, b := range s.m.Members {
		if had, ok := members[id]; ok {
			require.GreaterOrEqual(s.t, b.Epoch, had.Epoch, "broker epochs grow: %s", s.said)
			require.True(s.t, b.Incarnation == had.Incarnation || b.Epoch > had.Epoch, "one epoch, one incarnation: %s", s.said)
		}
	}
}

func (s *simulation) draw() (id topic.ID) {
	s.drawn++
	return topic.ID{1, byte(s.drawn >> 16), byte(s.drawn >> 8), byte(s.drawn)}
}

func (s *simulation) name() string {
	return []string{"a", "b", "a.b", "a_b", "c", "__consumer_offsets"}[s.rnd.IntN(6)]
}

func (s *simulation) broker() int32 { return 1 + s.rnd.Int32N(5) }

func (s *simulation) arrival(id int32) Arrival {
	a := Arrival{ID: id, Incarnation: s.draw(), Directory: metarecord.ID{2, byte(id)}}
	if _, known := s.m.Members[id]; !known {
		a.Directory = s.draw() // another disk
	}
	return a
}

// command returns the records of a random command, or none if it was refused.
func (s *simulation) command() (recs []metarecord.Record) {
	var err error
	limits := Limits{Partitions: 30, Factor: 1, Policy: lax}
	id := s.broker()
	member, known := s.m.Members[id]
	kind := s.rnd.IntN(12)
	s.said = fmt.Sprint("command ", kind, " of broker ", id)
	switch kind {
	case 0, 1:
		var all []Creation
		for range 1 + s.rnd.IntN(3) {
			cr := Creation{Name: s.name(), Drawn: s.draw(), Partitions: 1 + s.rnd.IntN(4), Factor: 1 + s.rnd.IntN(3)}
			if s.rnd.IntN(4) == 0 && len(s.ids) > 0 {
				cr.ID = s.ids[s.rnd.IntN(len(s.ids))]
			}
			if s.rnd.IntN(3) == 0 {
				cr.Partitions, cr.Factor, cr.Assignment = 1, 2, [][]int32{{s.broker(), s.broker()}}
			}
			all = append(all, cr)
		}
		var errs []error
		recs, errs = s.m.CreateTopics(all, limits)
		again, _ := s.m.CreateTopics(all, limits)
		require.Equal(s.t, recs, again, "a decision depends on nothing else")
		for i := range errs {
			if errs[i] != nil {
				s.refused++
			}
		}
	case 2:
		recs, err = s.m.AddPartitions(Growth{Topic: s.name(), Total: 1 + s.rnd.IntN(6)}, limits)
	case 3:
		recs, err = s.m.DeleteTopic(s.name())
	case 4:
		recs, err = s.m.AlterTopic(s.name(), lax, func(config map[string]string, _ int) error {
			config[fmt.Sprint(s.rnd.IntN(3))] = fmt.Sprint(s.rnd.IntN(3))
			return nil
		})
	case 5:
		recs, err = s.m.AlterBroker(id, lax, func(map[string]string) (map[string]string, error) {
			return map[string]string{fmt.Sprint(s.rnd.IntN(3)): "x"}, nil
		})
	case 6:
		recs = s.m.ReserveProducerIDs(id, 1000)
	case 7:
		if known && !member.Fenced {
			recs = []metarecord.Record{s.m.Leave(id)}
		}
	case 8:
		if known && !member.Fenced && len(s.m.Serving()) > 1 {
			recs = s.m.Fence([]int32{id}, nil)
		}
	case 9:
		if !known || member.Fenced {
			recs = s.m.Register(s.arrival(id))
		}
	case 10:
		if known && member.Fenced {
			recs = []metarecord.Record{s.m.Unregister(id)}
		}
	case 11:
		var up []Arrival
		for id := range int32(5) {
			if s.rnd.IntN(3) > 0 {
				up = append(up, s.arrival(id+1))
			}
		}
		recs = s.m.TakeOver(up, lax)
		if len(up) == 0 {
			recs = nil
		}
	}
	if err != nil {
		require.Empty(s.t, recs)
		s.refused++
	}
	return recs
}

// check checks the image after a change.
func (s *simulation) check(before map[topic.ID]*Topic) {
	m, t := s.m, s.t
	partitions := 0
	for id, tp := range m.ByID {
		require.Same(t, tp, m.Topics[tp.Name], s.said)
		require.Empty(t, m.Removed[id], "an id is never used again: %s", s.said)
		require.Equal(t, tp.Name, m.collisions[topic.CollisionKey(tp.Name)])
		partitions += len(tp.Partitions)
		had := before[id]
		if had == nil {
			s.ids = append(s.ids, id)
		}
		for i, p := range tp.Partitions {
			if p.Leader >= 0 {
				require.Contains(t, p.ISR, p.Leader, s.said)
			}
			for _, r := range p.ISR {
				require.Contains(t, p.Replicas, r, s.said)
			}
			require.Len(t, p.Directories, len(p.Replicas), s.said)
			if had == nil || i >= len(had.Partitions) {
				continue
			}
			was := had.Partitions[i]
			require.GreaterOrEqual(t, p.PartitionEpoch, was.PartitionEpoch, s.said)
			require.GreaterOrEqual(t, p.LeaderEpoch, was.LeaderEpoch, s.said)
			require.True(t, p.Leader == was.Leader || p.LeaderEpoch > was.LeaderEpoch, "one leader an epoch: %s", s.said)
		}
	}
	for id, was := range before {
		if m.ByID[id] == nil {
			require.Equal(t, was.Name, m.Removed[id], s.said)
			s.removed++
		}
	}
	require.Equal(t, partitions, m.Partitions, s.said)
	require.Len(t, m.Topics, len(m.ByID))
	require.Len(t, m.collisions, len(m.ByID))
}

// settle brings leaders in line with the serving brokers, and checks them.
func (s *simulation) settle() {
	for rounds := 0; ; rounds++ {
		require.Less(s.t, rounds, 100, "it comes to an end")
		recs := s.m.Relead(3, lax)
		if len(recs) == 0 {
			break
		}
		before := maps.Clone(s.m.ByID)
		for _, rec := range recs {
			require.NoError(s.t, s.m.Apply(rec))
			require.NoError(s.t, s.reader.Apply(rec))
		}
		s.moved += len(recs)
		s.m.Publish(s.m.Version + int64(len(recs)))
		s.reader.Publish(s.m.Version)
		s.said = "leaders"
		s.check(before)
	}
	serves := func(id int32) bool {
		b, ok := s.m.Members[id]
		return ok && !b.Fenced && !b.Leaving
	}
	for _, tp := range s.m.ByID {
		for _, p := range tp.Partitions {
			if p.Leader < 0 {
				s.leaderless++
			}
			require.Equal(s.t, slices.ContainsFunc(p.ISR, serves), p.Leader >= 0)
			require.True(s.t, p.Leader < 0 || serves(p.Leader))
			for i, r := range p.Replicas {
				if b, ok := s.m.Members[r]; ok {
					require.Equal(s.t, b.Directory, p.Directories[i])
				}
			}
		}
	}
	again := New()
	applyAll(s.t, again, s.m.Snapshot(s.m.Removed)...)
	again.Publish(s.m.Version)
	require.Equal(s.t, s.m, again, "a snapshot says the same")
}

func TestWhateverIsDecidedKeepsTheInvariants(t *testing.T) {
	seeds := uint64(150)
	if sample.Hurried() {
		seeds = 50
	}
	if os.Getenv("STRATA_LONG") != "" {
		seeds = 10_000
	}
	total := simulation{}
	for seed := range seeds {
		s := &simulation{t: t, rnd: rand.New(rand.NewPCG(seed, 0)), m: New(), reader: New()}
		ok := t.Run(fmt.Sprint(seed), func(t *testing.T) {
			s.t = t
			for range 60 {
				s.step()
				if s.rnd.IntN(2) == 0 {
					s.settle()
				}
			}
		})
		if !ok {
			return
		}
		total.moved += s.moved
		total.leaderless += s.leaderless
		total.refused += s.refused
		total.removed += s.removed
	}
	require.Positive(t, total.moved)
	require.Positive(t, total.leaderless)
	require.Positive(t, total.refused)
	require.Positive(t, total.removed)
	t.Logf("%d seeds: %d leaders moved, %d partitions without one, %d refusals, %d topics removed", seeds, total.moved, total.leaderless, total.refused, total.removed)
}

// FuzzRecords applies records of any bytes. A refused record changes nothing. Accepted records can
// be written as an equivalent snapshot.
func FuzzRecords(f *testing.F) {
	add := func(recs ...metarecord.Record) {
		var all []byte
		for _, rec := range recs {
			p := metarecord.Append(nil, rec)
			all = append(append(all, byte(len(p))), p...)
		}
		f.Add(all)
	}
	id := topic.ID{1}
	v := "v"
	add(&metarecord.FeatureLevel{Name: "metadata.version", Level: 29}, &metarecord.RegisterBroker{BrokerID: 1, Directories: []metarecord.ID{{1}}},
		&metarecord.Topic{Name: "a", ID: id}, &metarecord.Config{ResourceType: metarecord.ResourceTopic, ResourceName: "a", Name: "k", Value: &v},
		&metarecord.Partition{TopicID: id, Replicas: []int32{1}, ISR: []int32{1}, Leader: 1, Directories: []metarecord.ID{{1}}},
		&metarecord.PartitionChange{TopicID: id, Leader: -1, Recovery: -1, EligibleLeaders: []int32{1}})
	add(&metarecord.RegisterBroker{BrokerID: 1}, &metarecord.BrokerChange{BrokerID: 1, Fenced: metarecord.Set}, &metarecord.UnregisterBroker{BrokerID: 1},
		&metarecord.ProducerIDs{Next: 5}, &metarecord.Topic{Name: "a", ID: id}, &metarecord.RemoveTopic{ID: id})
	f.Fuzz(func(t *testing.T, p []byte) {
		m := New()
		for n := 0; len(p) > 0; n++ {
			size := min(int(p[0]), len(p)-1)
			rec, err := metarecord.Parse(p[1 : 1+size])
			p = p[1+size:]
			if err != nil {
				continue
			}
			before := m.Snapshot(m.Removed)
			if m.Apply(rec) != nil {
				require.Equal(t, before, m.Snapshot(m.Removed), "a record that is refused changes nothing")
			}
		}
		m.Publish(1)
		again := New()
		applyAll(t, again, m.Snapshot(m.Removed)...)
		again.Publish(1)
		require.Equal(t, m.Snapshot(m.Removed), again.Snapshot(again.Removed))
		m.Relead(10, lax)
	})
}
