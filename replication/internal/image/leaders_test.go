package image

import (
	"maps"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/metarecord"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/replication/internal/election"
	"github.com/stratalog/strata/topic"
)

// configured returns the rules of a topic's configuration. The brokers' configuration is the
// default.
func configured(m *Image, config map[string]string) Rules {
	get := func(key string) string {
		if v, ok := config[key]; ok {
			return v
		}
		return m.BrokerConfigs[""][key]
	}
	minInSync, _ := strconv.Atoi(get("min"))
	return Rules{MinInSync: max(minInSync, 1), SyncOnAck: get("sync") == "ack", Unclean: get("unclean") == "true"}
}

// three returns an image of three brokers. It has the topic "t" with one partition and three
// replicas, and "one" with one replica, on broker 1.
func three(t *testing.T, config map[string]string) *Image {
	t.Helper()
	m := brokers(t, "", "", "")
	createBoth(t, m, config)
	return m
}

// threeByBrokers is three with the configuration set on all brokers.
func threeByBrokers(t *testing.T, config map[string]string) *Image {
	t.Helper()
	m := brokers(t, "", "", "")
	setOnBrokers(t, m, config)
	createBoth(t, m, nil)
	return m
}

func createBoth(t *testing.T, m *Image, config map[string]string) {
	t.Helper()
	for i, cr := range []Creation{{Name: "t", Assignment: [][]int32{{1, 2, 3}}, Factor: 3, Config: config}, {Name: "one", Assignment: [][]int32{{1}}, Factor: 1}} {
		cr.Drawn, cr.Partitions = topic.ID{9, byte(i)}, 1
		recs, err := m.CreateTopic(cr, Limits{Partitions: 10, Policy: configured})
		require.NoError(t, err)
		commit(t, m, recs...)
	}
}

func setOnTopic(t *testing.T, m *Image, config map[string]string) {
	t.Helper()
	recs, err := m.AlterTopic("t", configured, func(c map[string]string, _ int) error { maps.Copy(c, config); return nil })
	require.NoError(t, err)
	commit(t, m, recs...)
}

func setOnBrokers(t *testing.T, m *Image, config map[string]string) {
	t.Helper()
	recs, err := m.AlterBroker(AllBrokers, configured, func(before map[string]string) (map[string]string, error) {
		after := maps.Clone(config)
		for k, v := range before {
			if _, set := after[k]; !set {
				after[k] = v
			}
		}
		return after, nil
	})
	require.NoError(t, err)
	commit(t, m, recs...)
}

// state returns the state of the partition of "t".
func state(m *Image) election.Partition { return m.Topics["t"].Partitions[0].State() }

func ids(b ...int32) []int32 { return b }

func relead(t *testing.T, m *Image) {
	t.Helper()
	commit(t, m, m.Relead(100, configured)...)
	require.Empty(t, m.Relead(100, configured))
}

func arrival(id int32) Arrival {
	return Arrival{ID: id, Incarnation: metarecord.ID{3, byte(id)}, Directory: metarecord.ID{2, byte(id)}, Clean: true}
}

// leave fences brokers, as when they are killed.
func leave(t *testing.T, m *Image, brokers ...int32) {
	t.Helper()
	commit(t, m, m.Fence(brokers, nil)...)
	relead(t, m)
}

// come registers a broker that was fenced.
func come(t *testing.T, m *Image, a Arrival) {
	t.Helper()
	commit(t, m, m.Return(100, configured, a)...)
	require.Empty(t, m.Return(100, configured, a), "it is done once")
	commit(t, m, m.Register(a)...)
	relead(t, m)
}

func TestSetsFollowWhoServes(t *testing.T) {
	m := three(t, map[string]string{"min": "2", "sync": "ack"})
	want := election.Partition{Replicas: ids(1, 2, 3), InSync: ids(1, 2, 3), Leader: 1, Durable: true}
	require.Equal(t, want, state(m))
	require.False(t, m.Topics["one"].Partitions[0].Durable, "which says nothing of one replica")
	leave(t, m, 3)
	want.InSync, want.Epoch = ids(1, 2), 1
	require.Equal(t, want, state(m))
	leave(t, m, 2)
	want.InSync, want.Eligible, want.Epoch = ids(1), ids(2), 2
	require.Equal(t, want, state(m))
	commit(t, m, m.Leave(1))
	relead(t, m)
	want.InSync, want.Eligible, want.LastKnown, want.Epoch = nil, ids(1, 2), ids(1), 3
	want.Leader, want.LeaderEpoch = -1, 1
	require.Equal(t, want, state(m))
	commit(t, m, m.Fence(ids(1), nil)...)
	relead(t, m)
	come(t, m, arrival(3))
	require.Equal(t, want, state(m), "it lacks what was acknowledged since it left")
	come(t, m, arrival(2))
	want.InSync, want.Eligible, want.LastKnown, want.Epoch = ids(2), ids(1), nil, 4
	want.Leader, want.LeaderEpoch = 2, 2
	require.Equal(t, want, state(m))
}

// The first change of a controller covers all brokers that were started again, and their possible
// losses.
func TestLeaderThatIsStartedAgainBeginsAnotherEpoch(t *testing.T) {
	for _, tt := range []struct {
		sync    string
		unclean []int32
		want    election.Partition
	}{
		{"", nil, election.Partition{InSync: ids(1, 2, 3), Leader: 1}},
		{"", ids(1), election.Partition{InSync: ids(2, 3), Leader: 2}},
		{"", ids(2), election.Partition{InSync: ids(1, 3), Leader: 1}},
		{"", ids(1, 2, 3), election.Partition{InSync: ids(1), Leader: 1, Recovering: true}},
		{"ack", ids(1, 2, 3), election.Partition{InSync: ids(1, 2, 3), Leader: 1, Durable: true}},
	} {
		m := three(t, map[string]string{"sync": tt.sync})
		one := m.Topics["one"]
		var up []Arrival
		for id := range int32(3) {
			a := arrival(id + 1)
			a.Clean = !slices.Contains(tt.unclean, a.ID)
			up = append(up, a)
		}
		commit(t, m, m.TakeOver(up, configured)...)
		tt.want.Replicas, tt.want.LeaderEpoch, tt.want.Epoch = ids(1, 2, 3), 1, 1
		require.Equal(t, tt.want, state(m), "%+v", tt)
		require.Same(t, one, m.Topics["one"], "nobody can have what the one replica has lost")
		require.Empty(t, m.Relead(100, configured))
	}
}

// The settings of a cluster may change while it is closed.
func TestSettingsChangeWhileTheClusterIsClosed(t *testing.T) {
	m := three(t, map[string]string{"sync": "ack"})
	other := func(*Image, map[string]string) Rules { return Rules{MinInSync: 1} }
	a := arrival(1)
	a.Clean = false
	commit(t, m, m.TakeOver([]Arrival{a, arrival(2), arrival(3)}, other)...)
	require.Equal(t, election.Partition{Replicas: ids(1, 2, 3), InSync: ids(2, 3), Leader: 2, LeaderEpoch: 1, Epoch: 1}, state(m),
		"what the leader that comes acknowledges is on no disk")

	m = brokers(t, "", "", "", "")
	createBoth(t, m, map[string]string{"sync": "ack"})
	require.True(t, state(m).Durable)
	commit(t, m, m.TakeOver([]Arrival{arrival(4)}, other)...)
	require.False(t, state(m).Durable, "also of partitions that nobody is there of")
}

func TestBrokerThatMayHaveLostRecordsIsNotCountedOn(t *testing.T) {
	unclean := arrival(2)
	unclean.Clean = false
	for _, tt := range []struct {
		sync string
		a    Arrival
		want election.Partition
	}{
		{"", arrival(2), election.Partition{InSync: ids(2), Eligible: ids(1), Leader: 2, LeaderEpoch: 2}},
		{"", unclean, election.Partition{Eligible: ids(1), LastKnown: ids(1), Leader: -1, LeaderEpoch: 1}},
		{"ack", unclean, election.Partition{InSync: ids(2), Eligible: ids(1), Leader: 2, LeaderEpoch: 2, Durable: true}},
	} {
		m := three(t, map[string]string{"min": "2", "sync": tt.sync})
		leave(t, m, 3)
		leave(t, m, 2)
		leave(t, m, 1)
		come(t, m, tt.a)
		tt.want.Replicas, tt.want.Epoch = ids(1, 2, 3), state(m).Epoch
		require.Equal(t, tt.want, state(m))
	}
}

// A replaced disk has lost its synced records.
func TestReplicaOnAnotherDiskIsNotCountedOn(t *testing.T) {
	replaced := arrival(2)
	replaced.Directory = metarecord.ID{7}
	m := three(t, map[string]string{"min": "2", "sync": "ack"})
	leave(t, m, 3)
	leave(t, m, 2)
	require.Equal(t, ids(2), state(m).Eligible)
	without := three(t, map[string]string{"min": "2", "sync": "ack"})
	leave(t, without, 3)
	leave(t, without, 2)
	for _, m := range []*Image{m, without} {
		commit(t, m, m.Unregister(2))
		if m == without { // the controller dies before it writes more
			commit(t, m, m.Register(replaced)...)
		}
		relead(t, m)
		require.Empty(t, state(m).Eligible)
		leave(t, m, 1)
		if m != without {
			come(t, m, replaced)
		}
		require.Equal(t, int32(-1), state(m).Leader, "it has nothing of what was acknowledged")
		require.Equal(t, ids(1), state(m).Eligible)
		require.Equal(t, []metarecord.ID{{2, 1}, {7}, {2, 3}}, m.Topics["t"].Partitions[0].Directories)
		come(t, m, arrival(1))
		require.Equal(t, int32(1), state(m).Leader)
	}
	m = three(t, map[string]string{"sync": "ack"})
	leave(t, m, 2, 3)
	leave(t, m, 1)
	commit(t, m, m.Unregister(1))
	relead(t, m)
	replaced.ID = 1
	come(t, m, replaced)
	require.Equal(t, int32(-1), state(m).Leader, "also if it was the last leader")
}

func TestSettingsChangePartitionsInTheSameChange(t *testing.T) {
	strict := map[string]string{"min": "2", "sync": "ack"}
	for _, tt := range []struct {
		name          string
		before, after map[string]string
		away, back    []int32
		want          election.Partition
	}{
		{"what is met makes nobody eligible", strict, map[string]string{"min": "1"}, ids(2, 3), nil,
			election.Partition{InSync: ids(1), Leader: 1, Durable: true}},
		{"a promise that is not made any more", strict, map[string]string{"sync": "never"}, ids(2, 3), nil,
			election.Partition{InSync: ids(1), Eligible: ids(3), Leader: 1}},
		{"a promise that was not made before", nil, map[string]string{"sync": "ack"}, nil, nil,
			election.Partition{InSync: ids(1, 2, 3), Leader: 1}},
		{"any leader rather than none", nil, map[string]string{"unclean": "true"}, ids(2, 3, 1), ids(3),
			election.Partition{InSync: ids(3), Leader: 3, Recovering: true, LeaderEpoch: 2}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			byTopic, byBrokers := three(t, tt.before), threeByBrokers(t, tt.before)
			for _, m := range []*Image{byTopic, byBrokers} {
				for _, id := range tt.away {
					leave(t, m, id)
				}
				for _, id := range tt.back {
					come(t, m, arrival(id))
				}
				before := state(m)
				if m == byTopic {
					setOnTopic(t, m, tt.after)
				} else {
					setOnBrokers(t, m, tt.after)
				}
				tt.want.Replicas, tt.want.Epoch = ids(1, 2, 3), state(m).Epoch
				require.Equal(t, tt.want, state(m))
				require.LessOrEqual(t, state(m).Epoch, before.Epoch+1)
			}
		})
	}
	m := three(t, nil)
	one := m.Topics["one"].Partitions
	setOnBrokers(t, m, strict)
	recs, err := m.AlterTopic("one", configured, func(config map[string]string, _ int) error { config["sync"] = "never"; return nil })
	require.NoError(t, err)
	require.Len(t, recs, 1)
	require.Equal(t, one, m.Topics["one"].Partitions, "partitions with one replica have nothing to say")
}

func TestLeadersProposeSets(t *testing.T) {
	m := three(t, map[string]string{"min": "2", "sync": "ack"})
	leave(t, m, 2, 3)
	come(t, m, arrival(2))
	wish := func(edit func(*Proposal)) Proposal {
		p := Proposal{Topic: m.Topics["t"].ID, Request: election.Request{
			Leader: 1, Incarnation: m.Members[1].Epoch, LeaderEpoch: state(m).LeaderEpoch, Epoch: state(m).Epoch,
			InSync: ids(1, 2), Incarnations: []int64{-1, m.Members[2].Epoch},
		}}
		edit(&p)
		return p
	}
	recs, errs := m.AlterPartitions([]Proposal{
		wish(func(p *Proposal) { p.Request.Epoch-- }),
		wish(func(p *Proposal) { p.Request.InSync[1] = 3 }),
		wish(func(p *Proposal) { p.Topic = topic.ID{8} }),
		wish(func(p *Proposal) { p.Partition = 1 }),
		wish(func(p *Proposal) { p.Partition = -1 }),
		wish(func(p *Proposal) {}),
		wish(func(p *Proposal) { p.Request.InSync, p.Request.Incarnations = ids(1), []int64{-1} }),
	}, configured)
	for i, want := range []error{election.ErrUpdateVersion, election.ErrIneligibleReplica, ErrUnknownTopic, ErrUnknownTopic, ErrUnknownTopic, nil, election.ErrUpdateVersion} {
		require.ErrorIs(t, errs[i], want, i)
	}
	require.Len(t, recs, 1)
	commit(t, m, recs...)
	require.Equal(t, election.Partition{Replicas: ids(1, 2, 3), InSync: ids(1, 2), Leader: 1, Epoch: 2, Durable: true}, state(m))
	recs, errs = m.AlterPartitions([]Proposal{wish(func(*Proposal) {})}, configured)
	require.NoError(t, errs[0])
	require.Empty(t, recs, "what is in force is no change")

	m = three(t, nil)
	setOnTopic(t, m, map[string]string{"sync": "ack"})
	require.False(t, state(m).Durable)
	recs, errs = m.AlterPartitions([]Proposal{wish(func(p *Proposal) { p.Synced = true })}, configured)
	require.NoError(t, errs[0])
	commit(t, m, recs...)
	require.True(t, state(m).Durable)
	require.Equal(t, ids(1, 2), state(m).InSync)

	late := wish(func(p *Proposal) { p.Synced = true })
	setOnTopic(t, m, map[string]string{"sync": "never"})
	late.Request.Epoch = state(m).Epoch
	setOnTopic(t, m, map[string]string{"sync": "ack"})
	_, errs = m.AlterPartitions([]Proposal{late}, configured)
	require.ErrorIs(t, errs[0], election.ErrUpdateVersion, "what was acknowledged meanwhile it had not seen synced")
}

func TestSomebodyAsksForElections(t *testing.T) {
	m := three(t, nil)
	tp := record.TopicPartition{Topic: "t"}
	ask := func(kind ElectionType) error {
		recs, errs := m.ElectLeaders(kind, []record.TopicPartition{tp, {Topic: "gone"}, {Topic: "t", Partition: 1}, {Topic: "t", Partition: -1}}, configured)
		for _, err := range errs[1:] {
			require.ErrorIs(t, err, ErrUnknownTopic)
		}
		commit(t, m, recs...)
		return errs[0]
	}
	require.ErrorIs(t, ask(PreferredElection), ErrElectionNotNeeded)
	require.ErrorIs(t, ask(UncleanElection), ErrElectionNotNeeded)
	leave(t, m, 1)
	require.ErrorIs(t, ask(PreferredElection), ErrPreferredLeaderNotAvailable)
	come(t, m, arrival(1))
	require.ErrorIs(t, ask(PreferredElection), ErrPreferredLeaderNotAvailable, "it is not in sync yet")
	s := state(m)
	recs, errs := m.AlterPartitions([]Proposal{{Topic: m.Topics["t"].ID, Request: election.Request{
		Leader: s.Leader, Incarnation: m.Members[s.Leader].Epoch, LeaderEpoch: s.LeaderEpoch, Epoch: s.Epoch, InSync: ids(1, 2, 3), Incarnations: []int64{-1, -1, -1},
	}}}, configured)
	require.NoError(t, errs[0])
	commit(t, m, recs...)
	require.NoError(t, ask(PreferredElection))
	require.Equal(t, int32(1), state(m).Leader)
	require.Equal(t, s.LeaderEpoch+1, state(m).LeaderEpoch)

	leave(t, m, 2, 3)
	leave(t, m, 1)
	require.ErrorIs(t, ask(UncleanElection), ErrEligibleLeadersNotAvailable)
	come(t, m, arrival(3))
	require.ErrorIs(t, ask(PreferredElection), ErrPreferredLeaderNotAvailable)
	require.NoError(t, ask(UncleanElection))
	want := election.Partition{Replicas: ids(1, 2, 3), InSync: ids(3), Leader: 3, Recovering: true, Epoch: state(m).Epoch, LeaderEpoch: state(m).LeaderEpoch}
	require.Equal(t, want, state(m))
	recs, errs = m.ElectLeaders(PreferredElection, []record.TopicPartition{tp, tp}, configured)
	require.Empty(t, recs)
	require.NoError(t, errs[1], "it is asked for once")
}

func TestPreferredReplicasLeadAgainWhereTheyAreInSync(t *testing.T) {
	m := brokers(t, "", "", "")
	for i, replicas := range [][]int32{{2, 1}, {2, 3}, {1, 2}, {2}} {
		cr := Creation{Name: string(rune('a' + i)), Drawn: topic.ID{9, byte(i)}, Partitions: 1, Factor: len(replicas), Assignment: [][]int32{replicas}}
		recs, err := m.CreateTopic(cr, Limits{Partitions: 10, Policy: configured})
		require.NoError(t, err)
		commit(t, m, recs...)
	}
	leave(t, m, 2)
	come(t, m, arrival(2))
	require.True(t, m.Topics["a"].Partitions[0].Unbalanced())
	require.Empty(t, m.Balance(10, configured), "it is not in sync")
	for _, name := range []string{"a", "b"} {
		tp := m.Topics[name]
		s := tp.Partitions[0].State()
		recs, errs := m.AlterPartitions([]Proposal{{Topic: tp.ID, Request: election.Request{
			Leader: s.Leader, Incarnation: m.Members[s.Leader].Epoch, LeaderEpoch: s.LeaderEpoch, Epoch: s.Epoch, InSync: []int32{s.Leader, 2}, Incarnations: []int64{-1, -1},
		}}}, configured)
		require.NoError(t, errs[0])
		commit(t, m, recs...)
	}
	recs := m.Balance(1, configured)
	require.Len(t, recs, 1)
	commit(t, m, recs...)
	commit(t, m, m.Balance(10, configured)...)
	require.Empty(t, m.Balance(10, configured))
	require.Equal(t, int32(2), m.Topics["a"].Partitions[0].Leader)
	require.Equal(t, int32(2), m.Topics["b"].Partitions[0].Leader)
	require.Equal(t, int32(2), m.Topics["b"].Partitions[0].LeaderEpoch)
}
