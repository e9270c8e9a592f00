package image

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/metarecord"
	"github.com/stratalog/strata/topic"
)

// lax returns rules without requirements.
func lax(*Image, map[string]string) Rules { return Rules{MinInSync: 1} }

var limits = Limits{Partitions: 100, Factor: 1, Policy: lax}

// cluster returns an image of topics and brokers 1 to 5. Broker 4 is fenced and broker 5 is
// leaving.
func cluster(t *testing.T) *Image {
	t.Helper()
	m := New()
	var all []Arrival
	for id := int32(1); id <= 5; id++ {
		all = append(all, Arrival{ID: id, Incarnation: metarecord.ID{1, byte(id)}, Directory: metarecord.ID{2, byte(id)}, Rack: string(rune('a' + id%2))})
	}
	commit(t, m, m.TakeOver(all, lax)...)
	commit(t, m, m.Fence([]int32{4}, nil)...)
	commit(t, m, m.Leave(5))
	for i, name := range []string{"orders", "a.b", "gone", "__consumer_offsets"} {
		recs, err := m.CreateTopic(Creation{Name: name, Drawn: topic.ID{9, byte(i)}, Partitions: 2, Factor: 1, Config: map[string]string{"k": "v"}}, limits)
		require.NoError(t, err)
		commit(t, m, recs...)
	}
	recs, err := m.DeleteTopic("gone")
	require.NoError(t, err)
	commit(t, m, recs...)
	return m
}

// commit applies records to the image, as their writer does.
func commit(t *testing.T, m *Image, recs ...metarecord.Record) {
	t.Helper()
	applyAll(t, m, recs...)
	m.Publish(m.Version + int64(len(recs)))
}

// replicasOf returns the replicas of the partitions in records.
func replicasOf(recs []metarecord.Record) (all [][]int32) {
	for _, rec := range recs {
		if p, ok := rec.(*metarecord.Partition); ok {
			all = append(all, p.Replicas)
		}
	}
	return all
}

func TestCommandsAreDecided(t *testing.T) {
	create := func(cr Creation) func(*Image) ([]metarecord.Record, error) {
		return func(m *Image) ([]metarecord.Record, error) {
			cr.Drawn = topic.ID{7}
			return m.CreateTopic(cr, limits)
		}
	}
	grow := func(g Growth) func(*Image) ([]metarecord.Record, error) {
		return func(m *Image) ([]metarecord.Record, error) { return m.AddPartitions(g, limits) }
	}
	remove := func(name string) func(*Image) ([]metarecord.Record, error) {
		return func(m *Image) ([]metarecord.Record, error) { return m.DeleteTopic(name) }
	}
	policy := new(*PolicyError)
	for name, tc := range map[string]struct {
		decide   func(*Image) ([]metarecord.Record, error)
		want     error
		as       any
		replicas [][]int32 // of an accepted command
	}{
		"placed where the last topic ended":     {create(Creation{Name: "new", Partitions: 4, Factor: 1}), nil, nil, [][]int32{{1}, {2}, {3}, {1}}},
		"two replicas":                          {create(Creation{Name: "new", Partitions: 2, Factor: 2}), nil, nil, [][]int32{{1, 2}, {2, 3}}},
		"by hand":                               {create(Creation{Name: "new", Partitions: 2, Factor: 2, Assignment: [][]int32{{3, 1}, {1, 2}}}), nil, nil, [][]int32{{3, 1}, {1, 2}}},
		"a name again":                          {create(Creation{Name: "orders", Partitions: 1, Factor: 1}), ErrTopicExists, nil, nil},
		"a name that collides":                  {create(Creation{Name: "a_b", Partitions: 1, Factor: 1}), topic.ErrInvalidName, nil, nil},
		"the name of a deleted topic":           {create(Creation{Name: "gone", Partitions: 1, Factor: 1}), nil, nil, [][]int32{{1}}},
		"an id again":                           {create(Creation{Name: "new", ID: topic.ID{9}, Partitions: 1, Factor: 1}), ErrTopicIDInUse, nil, nil},
		"the id of a deleted topic":             {create(Creation{Name: "new", ID: topic.ID{9, 2}, Partitions: 1, Factor: 1}), ErrTopicIDInUse, nil, nil},
		"the same again":                        {create(Creation{Name: "orders", ID: topic.ID{9}, Partitions: 2, Factor: 1, Config: map[string]string{"k": "v"}}), nil, nil, nil},
		"the same with other settings":          {create(Creation{Name: "orders", ID: topic.ID{9}, Partitions: 2, Factor: 1}), ErrTopicExists, nil, nil},
		"the same with other replicas":          {create(Creation{Name: "orders", ID: topic.ID{9}, Partitions: 2, Factor: 1, Assignment: [][]int32{{3}, {3}}, Config: map[string]string{"k": "v"}}), ErrTopicExists, nil, nil},
		"more replicas than brokers that serve": {create(Creation{Name: "new", Partitions: 1, Factor: 4}), nil, nil, [][]int32{{1, 2, 3, 4}}},
		"more replicas than brokers":            {create(Creation{Name: "new", Partitions: 1, Factor: 6}), ErrInvalidReplicationFactor, nil, nil},
		"too many partitions":                   {create(Creation{Name: "new", Partitions: 95, Factor: 1}), nil, policy, nil},
		"by hand, an unknown broker":            {create(Creation{Name: "new", Partitions: 1, Factor: 1, Assignment: [][]int32{{9}}}), ErrUnknownBroker, nil, nil},
		"by hand, a negative broker":            {create(Creation{Name: "new", Partitions: 1, Factor: 1, Assignment: [][]int32{{-1}}}), ErrUnknownBroker, nil, nil},
		"by hand, a fenced broker":              {create(Creation{Name: "new", Partitions: 1, Factor: 1, Assignment: [][]int32{{4}}}), ErrInvalidAssignment, nil, nil},
		"by hand, a leaving broker":             {create(Creation{Name: "new", Partitions: 1, Factor: 1, Assignment: [][]int32{{5}}}), ErrInvalidAssignment, nil, nil},
		"by hand, a broker twice":               {create(Creation{Name: "new", Partitions: 1, Factor: 2, Assignment: [][]int32{{1, 1}}}), ErrInvalidAssignment, nil, nil},
		"by hand, of different lengths":         {create(Creation{Name: "new", Partitions: 2, Factor: 2, Assignment: [][]int32{{1, 2}, {1}}}), ErrInvalidAssignment, nil, nil},
		"by hand, of no replicas":               {create(Creation{Name: "new", Partitions: 1, Factor: 1, Assignment: [][]int32{{}}}), ErrInvalidAssignment, nil, nil},
		"by hand, of too few partitions":        {create(Creation{Name: "new", Partitions: 2, Factor: 1, Assignment: [][]int32{{1}}}), ErrInvalidAssignment, nil, nil},
		"more partitions":                       {grow(Growth{Topic: "orders", Total: 4}), nil, nil, [][]int32{{3}, {1}}},
		"more partitions, by hand":              {grow(Growth{Topic: "orders", Total: 3, Assignment: [][]int32{{2}}}), nil, nil, [][]int32{{2}}},
		"more partitions, by hand, unknown":     {grow(Growth{Topic: "orders", Total: 3, Assignment: [][]int32{{9}}}), ErrUnknownBroker, nil, nil},
		"more partitions, by hand, too many":    {grow(Growth{Topic: "orders", Total: 3, Assignment: [][]int32{{1}, {2}}}), ErrInvalidAssignment, nil, nil},
		"more partitions, other replicas":       {grow(Growth{Topic: "orders", Total: 3, Assignment: [][]int32{{1, 2}}}), ErrInvalidAssignment, nil, nil},
		"not more partitions":                   {grow(Growth{Topic: "orders", Total: 2}), ErrInvalidPartitions, nil, nil},
		"more partitions than there may be":     {grow(Growth{Topic: "orders", Total: 97}), nil, policy, nil},
		"more partitions of no topic":           {grow(Growth{Topic: "gone", Total: 97}), ErrUnknownTopic, nil, nil},
		"deletion":                              {remove("orders"), nil, nil, nil},
		"deletion of no topic":                  {remove("gone"), ErrUnknownTopic, nil, nil},
		"deletion of an internal topic":         {remove("__consumer_offsets"), nil, policy, nil},
	} {
		t.Run(name, func(t *testing.T) {
			m := cluster(t)
			recs, err := tc.decide(m)
			require.Equal(t, cluster(t), m, "deciding changes nothing")
			if tc.want != nil || tc.as != nil {
				require.Empty(t, recs)
				require.Error(t, err)
				require.True(t, tc.as != nil && errors.As(err, tc.as) || tc.want != nil && errors.Is(err, tc.want), "%v", err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, tc.replicas, replicasOf(recs))
			commit(t, m, recs...)
		})
	}
}

func TestTopicsOfOneCommandAreDecidedOneByOne(t *testing.T) {
	m := cluster(t)
	recs, errs := m.CreateTopics([]Creation{
		{Name: "x.y", Drawn: topic.ID{1}, Partitions: 1, Factor: 1},
		{Name: "x_y", Drawn: topic.ID{2}, Partitions: 1, Factor: 1},
		{Name: "x.y", Drawn: topic.ID{3}, Partitions: 1, Factor: 1},
		{Name: "one", ID: topic.ID{4}, Partitions: 1, Factor: 1},
		{Name: "two", ID: topic.ID{4}, Partitions: 1, Factor: 1},
		{Name: "orders", ID: topic.ID{9}, Partitions: 2, Factor: 1, Config: map[string]string{"k": "v"}},
		{Name: "most", Drawn: topic.ID{5}, Partitions: 90, Factor: 1},
		{Name: "more", Drawn: topic.ID{6}, Partitions: 3, Factor: 1},
		{Name: "last", Drawn: topic.ID{7}, Partitions: 2, Factor: 1},
	}, limits)
	for i, want := range []error{nil, topic.ErrInvalidName, ErrTopicExists, nil, ErrTopicIDInUse, nil, nil, &PolicyError{}, nil} {
		switch {
		case want == nil:
			require.NoError(t, errs[i], i)
		case errors.As(want, new(*PolicyError)):
			require.ErrorAs(t, errs[i], new(*PolicyError), i)
		default:
			require.ErrorIs(t, errs[i], want, i)
		}
	}
	commit(t, m, recs...)
	require.Equal(t, []string{"__consumer_offsets", "a.b", "last", "most", "one", "orders", "x.y"}, slices.Sorted(maps.Keys(m.Topics)))
	require.Equal(t, 100, m.Partitions)
	require.NotEqual(t, m.Topics["x.y"].Partitions[0].Leader, m.Topics["one"].Partitions[0].Leader, "the round goes on")
}

func TestSettingsAreDecided(t *testing.T) {
	m := cluster(t)
	refused := errors.New("refused")
	edit := func(config map[string]string, factor int) error {
		require.Equal(t, 1, factor)
		delete(config, "k")
		config["z"], config["a"] = "1", "2"
		return nil
	}
	recs, err := m.AlterTopic("orders", lax, edit)
	require.NoError(t, err)
	require.Equal(t, cluster(t), m)
	require.Len(t, recs, 3)
	commit(t, m, recs...)
	require.Equal(t, map[string]string{"z": "1", "a": "2"}, m.Topics["orders"].Config)
	_, err = m.AlterTopic("gone", lax, edit)
	require.ErrorIs(t, err, ErrUnknownTopic)
	_, err = m.AlterTopic("orders", lax, func(map[string]string, int) error { return refused })
	require.ErrorIs(t, err, refused)
	all := func(map[string]string) (map[string]string, error) { return map[string]string{"x": "1"}, nil }
	for id, want := range map[int32]error{AllBrokers: nil, 4: nil, 9: ErrUnknownBroker} {
		recs, err := m.AlterBroker(id, lax, all)
		require.ErrorIs(t, err, want)
		commit(t, m, recs...)
	}
	require.Equal(t, map[string]map[string]string{"": {"x": "1"}, "4": {"x": "1"}}, m.BrokerConfigs)
	_, err = m.AlterBroker(1, lax, func(map[string]string) (map[string]string, error) { return nil, refused })
	require.ErrorIs(t, err, refused)
}

// Leaders follow the serving brokers. A leader without a replacement is missing until its broker
// returns.
func TestLeadersFollowWhoServes(t *testing.T) {
	for _, eligible := range []bool{true, false} {
		t.Run(fmt.Sprint(eligible), func(t *testing.T) { leadersFollow(t, eligible) })
	}
}

func leadersFollow(t *testing.T, eligible bool) {
	m := cluster(t)
	require.True(t, m.EligibleReplicas())
	if !eligible {
		commit(t, m, &metarecord.FeatureLevel{Name: "eligible.leader.replicas.version"})
	}
	recs, err := m.CreateTopic(Creation{Name: "new", Drawn: topic.ID{7}, Partitions: 3, Factor: 2, Assignment: [][]int32{{1, 2}, {2, 3}, {3, 1}}}, limits)
	require.NoError(t, err)
	commit(t, m, recs...)
	leaders := func(name string) (ids []int32) {
		for _, p := range m.Topics[name].Partitions {
			ids = append(ids, p.Leader)
		}
		return ids
	}
	relead := func() {
		for {
			recs := m.Relead(2, lax)
			if commit(t, m, recs...); len(recs) == 0 {
				return
			}
		}
	}
	relead()
	require.Equal(t, []int32{1, 2, 3}, leaders("new"))
	require.Equal(t, []int32{1, 2}, leaders("orders"))
	commit(t, m, m.Leave(1))
	relead()
	require.Equal(t, []int32{2, 2, 3}, leaders("new"), "who leaves leads nothing")
	require.Equal(t, []int32{2}, m.Topics["new"].Partitions[0].ISR)
	require.Equal(t, []int32{-1, 2}, leaders("orders"))
	commit(t, m, m.Fence([]int32{1, 2, 3}, nil)...)
	relead()
	require.Equal(t, []int32{-1, -1, -1}, leaders("new"))
	require.Empty(t, m.Topics["new"].Partitions[0].ISR)
	if one := m.Topics["orders"].Partitions[0]; eligible {
		require.Empty(t, one.ISR)
		require.Equal(t, []int32{1}, one.State().Eligible)
		require.Equal(t, []int32{1}, one.State().LastKnown)
	} else {
		require.Equal(t, []int32{1}, one.ISR, "the one replica stays in sync")
		require.Empty(t, one.State().Eligible)
		require.Empty(t, one.State().LastKnown)
	}
	commit(t, m, m.Register(Arrival{ID: 1, Directory: metarecord.ID{2, 1}})...)
	relead()
	require.Equal(t, []int32{-1, -1, -1}, leaders("new"), "it was not in sync when the others left")
	require.Equal(t, []int32{1, -1}, leaders("orders"))
	one := m.Topics["orders"].Partitions[0].State()
	require.Equal(t, int32(2), one.LeaderEpoch)
	require.Equal(t, []int32{1}, one.InSync)
	require.Empty(t, one.Eligible)
	require.False(t, one.Recovering, "nobody can have what it may have lost")
	commit(t, m, m.Register(Arrival{ID: 2, Directory: metarecord.ID{2, 2}, Clean: true})...)
	relead()
	require.Equal(t, []int32{2, 2, -1}, leaders("new"))
	require.Equal(t, int32(3), m.Topics["new"].Partitions[0].LeaderEpoch)
}

func TestSnapshotHasOneOrder(t *testing.T) {
	m := cluster(t)
	for i := range 20 {
		recs, err := m.CreateTopic(Creation{Name: "t" + strings.Repeat("x", i), Drawn: topic.ID{8, byte(i)}, Partitions: 1, Factor: 1}, limits)
		require.NoError(t, err)
		commit(t, m, recs...)
		recs, err = m.DeleteTopic("t" + strings.Repeat("x", i))
		require.NoError(t, err)
		commit(t, m, recs...)
	}
	want := m.Snapshot(m.Removed)
	for range 10 {
		require.Equal(t, want, m.Snapshot(m.Removed))
	}
}

// Configurations of groups are altered, survive a snapshot and are bounded. Published
// configurations do not change.
func TestConfigurationsOfGroups(t *testing.T) {
	testNamedConfigs(t, (*Image).AlterGroup, (*Image).Groups)
}

// Configurations of client metrics behave like configurations of groups.
func TestConfigurationsOfClientMetrics(t *testing.T) {
	testNamedConfigs(t, (*Image).AlterClientMetrics, (*Image).ClientMetrics)
}

func testNamedConfigs(t *testing.T,
	alter func(m *Image, name string, edit func(map[string]string) (map[string]string, error)) ([]metarecord.Record, error),
	configs func(*Image) *NamedConfigs,
) {
	m := New()
	set := func(id, key, value string) ([]metarecord.Record, error) {
		return alter(m, id, func(before map[string]string) (map[string]string, error) {
			after := map[string]string{}
			maps.Copy(after, before)
			if after[key] = value; value == "" {
				delete(after, key)
			}
			return after, nil
		})
	}
	for _, c := range [][3]string{{"a", "x", "1"}, {"a", "y", "2"}, {"b", "x", "3"}, {"a", "x", "4"}} {
		recs, err := set(c[0], c[1], c[2])
		require.NoError(t, err)
		require.Len(t, recs, 1)
		commit(t, m, recs...)
	}
	m.Publish(1)
	published := configs(m)
	require.Equal(t, []string{"a", "b"}, published.Names())
	require.Equal(t, map[string]string{"x": "4", "y": "2"}, published.Of("a"))
	recs, err := set("b", "x", "")
	require.NoError(t, err)
	commit(t, m, recs...)
	require.Equal(t, []string{"a"}, configs(m).Names())
	require.Equal(t, map[string]string{"x": "3"}, published.Of("b"))

	again := New()
	commit(t, again, m.Snapshot(nil)...)
	again.Publish(1)
	m.Publish(1)
	require.Equal(t, configs(m), configs(again))

	_, err = set("c", "x", strings.Repeat("v", maxNamedConfigBytes))
	var refused *PolicyError
	require.ErrorAs(t, err, &refused)
	for _, key := range []string{"x", "y"} {
		recs, err = set("a", key, "")
		require.NoError(t, err)
		commit(t, m, recs...)
	}
	require.Nil(t, configs(m))
}
