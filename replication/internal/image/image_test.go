package image

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/metarecord"
	"github.com/stratalog/strata/topic"
)

func applyAll(t *testing.T, m *Image, recs ...metarecord.Record) {
	t.Helper()
	for _, rec := range recs {
		require.NoError(t, m.Apply(rec))
	}
}

func set(name, key, value string) *metarecord.Config {
	return &metarecord.Config{ResourceType: metarecord.ResourceTopic, ResourceName: name, Name: key, Value: &value}
}

func TestPublishedTopicsNeverChange(t *testing.T) {
	m := New()
	id := topic.NewID()
	applyAll(t, m, &metarecord.Topic{Name: "a", ID: id}, set("a", "k", "1"), &metarecord.Partition{TopicID: id, Replicas: []int32{1}, ISR: []int32{1}, Leader: 1})
	m.Publish(3)
	old := m.Topics["a"]
	applyAll(t, m, set("a", "k", "2"), &metarecord.Partition{Partition: 1, TopicID: id, Leader: 1},
		&metarecord.PartitionChange{TopicID: id, Leader: -1, ISR: []int32{}, Replicas: []int32{2}, Recovery: -1})
	m.Publish(6)
	require.Equal(t, &Topic{Name: "a", ID: id, Config: map[string]string{"k": "1"},
		Partitions: []Partition{{Replicas: []int32{1}, ISR: []int32{1}, Leader: 1}}}, old)
	require.Equal(t, &Topic{Name: "a", ID: id, Config: map[string]string{"k": "2"},
		Partitions: []Partition{{Replicas: []int32{2}, ISR: nil, Leader: -1, LeaderEpoch: 1, PartitionEpoch: 1, unbroken: 1, rare: &partitionExtra{ledBy: 1}}, {Leader: 1}}}, m.Topics["a"])
	require.Equal(t, int64(6), m.Version)
	require.Equal(t, 2, m.Partitions)
}

func TestLeaderEpochGrowsOnlyWithTheLeader(t *testing.T) {
	m := New()
	id := topic.NewID()
	applyAll(t, m, &metarecord.Topic{Name: "a", ID: id}, &metarecord.Partition{TopicID: id, Replicas: []int32{1, 2}, ISR: []int32{1, 2}, Leader: 1},
		&metarecord.PartitionChange{TopicID: id, Leader: metarecord.NoChange, ISR: []int32{1}, Recovery: -1},
		&metarecord.PartitionChange{TopicID: id, Leader: 2, Recovery: -1})
	p := m.Topics["a"].Partitions[0]
	require.Equal(t, int32(1), p.LeaderEpoch)
	require.Equal(t, int32(2), p.PartitionEpoch)
	require.Equal(t, []int32{1}, p.ISR)
}

func TestRecordsThatDoNotFitAreRefused(t *testing.T) {
	m := New()
	id, gone := topic.NewID(), topic.NewID()
	applyAll(t, m, &metarecord.Topic{Name: "a", ID: id}, &metarecord.Topic{Name: "gone", ID: gone}, &metarecord.RemoveTopic{ID: gone}, &metarecord.NoOp{},
		&metarecord.ProducerIDs{Next: 2000})
	for name, rec := range map[string]metarecord.Record{
		"name again":           &metarecord.Topic{Name: "a", ID: topic.NewID()},
		"id again":             &metarecord.Topic{Name: "b", ID: id},
		"bad name":             &metarecord.Topic{Name: "../b", ID: topic.NewID()},
		"removed twice":        &metarecord.RemoveTopic{ID: gone},
		"partition of nothing": &metarecord.Partition{TopicID: gone},
		"gap":                  &metarecord.Partition{Partition: 1, TopicID: id},
		"change of nothing":    &metarecord.PartitionChange{TopicID: id},
		"change below zero":    &metarecord.PartitionChange{TopicID: id, Partition: -1},
		"config of nothing":    set("gone", "k", "v"),
		"config of a logger":   &metarecord.Config{ResourceType: 8, ResourceName: "g"},
		"ids go back":          &metarecord.ProducerIDs{Next: 1000},
	} {
		require.Error(t, m.Apply(rec), name)
	}
	require.Equal(t, "gone", m.Removed[gone])
	require.Empty(t, m.Topics["a"].Partitions)
	require.Equal(t, int64(2000), m.NextProducerID)
}

// Epochs without a leader, and later epochs of the same leader, belong to one lead.
func TestLeadLastsUntilAnotherBrokerLeads(t *testing.T) {
	id := topic.NewID()
	m := New()
	applyAll(t, m, &metarecord.Topic{Name: "a", ID: id}, &metarecord.Partition{TopicID: id, Replicas: []int32{1, 2, 3}, Leader: 2, LeaderEpoch: 3})
	for _, step := range []struct {
		leader int32
		want   Lead
	}{{2, Lead{2, 3}}, {-1, Lead{2, 3}}, {-1, Lead{2, 3}}, {2, Lead{2, 3}}, {metarecord.NoChange, Lead{2, 3}}, {1, Lead{1, 8}}, {2, Lead{2, 9}}, {-1, Lead{2, 9}}, {3, Lead{3, 11}}} {
		applyAll(t, m, &metarecord.PartitionChange{TopicID: id, Leader: step.leader, Recovery: -1})
		again := New()
		applyAll(t, again, m.Snapshot(nil)...)
		for _, m := range []*Image{m, again} {
			require.Equal(t, step.want, m.ByID[id].Partitions[0].Led(), "%+v", step)
		}
	}
	applyAll(t, m, &metarecord.Partition{Partition: 1, TopicID: id, Replicas: []int32{1}, Leader: -1, LeaderEpoch: 7})
	require.Zero(t, m.ByID[id].Partitions[1].Led(), "an earlier version does not have it")
	applyAll(t, m, &metarecord.Partition{Partition: 2, TopicID: id, Replicas: []int32{1}, Leader: 1, LeaderEpoch: 100_000, LedBy: 1, LedSince: 7})
	require.Equal(t, Lead{1, 100_000 - 65_535}, m.ByID[id].Partitions[2].Led(), "older epochs do not count")
	applyAll(t, m, &metarecord.Partition{Partition: 3, TopicID: id, Replicas: []int32{1}, Leader: 1, LeaderEpoch: 5, LedBy: 1, LedSince: 9})
	require.Equal(t, Lead{1, 5}, m.ByID[id].Partitions[3].Led(), "a lead that begins later than now")
}

// A partition keeps all fields of its records, also in a snapshot.
func TestPartitionKeepsAllThatItsRecordsSay(t *testing.T) {
	id := topic.NewID()
	one, two := metarecord.ID{1}, metarecord.ID{2}
	full := &metarecord.Partition{
		Partition: 0, TopicID: id, Replicas: []int32{1, 2}, ISR: []int32{1}, Removing: []int32{2}, Adding: []int32{3},
		Leader: 1, LeaderEpoch: 4, PartitionEpoch: 9, Recovering: true, Directories: []metarecord.ID{one, two},
		EligibleLeaders: []int32{2}, LastKnownLeader: []int32{1},
		Durable: true,
	}
	said := func(recs ...metarecord.Record) *metarecord.Partition {
		m := New()
		applyAll(t, m, &metarecord.Topic{Name: "a", ID: id})
		applyAll(t, m, recs...)
		m.Publish(1)
		again := New()
		applyAll(t, again, m.Snapshot(nil)...)
		again.Publish(1)
		require.Equal(t, m, again)
		return m.Topics["a"].Partitions[0].record(0, id).(*metarecord.Partition)
	}
	require.Equal(t, full, said(full))
	plain := &metarecord.Partition{TopicID: id, Replicas: []int32{1, 2}, ISR: []int32{1, 2}, Leader: 2, LeaderEpoch: 3}
	require.Equal(t, plain, said(plain))
	require.Equal(t, full, said(plain,
		&metarecord.PartitionChange{TopicID: id, Leader: 1, Recovery: 1, ISR: []int32{1}, Removing: []int32{2}, Adding: []int32{3},
			EligibleLeaders: []int32{2}, LastKnownLeader: []int32{1}, Directories: []metarecord.ID{one, two}, Durable: metarecord.Set},
		noChange(id), noChange(id), noChange(id), noChange(id), noChange(id), noChange(id), noChange(id), noChange(id)))
	emptied := said(full, &metarecord.PartitionChange{TopicID: id, Leader: metarecord.NoChange, Recovery: 0, Removing: []int32{}, Adding: []int32{},
		EligibleLeaders: []int32{}, LastKnownLeader: []int32{}, Directories: []metarecord.ID{}, Durable: metarecord.Unset})
	require.Equal(t, &metarecord.Partition{TopicID: id, Replicas: []int32{1, 2}, ISR: []int32{1}, Leader: 1, LeaderEpoch: 4, PartitionEpoch: 10}, emptied)

	m := New()
	applyAll(t, m, &metarecord.Topic{Name: "a", ID: id})
	require.Error(t, m.Apply(&metarecord.Partition{TopicID: id, Replicas: []int32{1, 2}, Directories: []metarecord.ID{one}}))
	applyAll(t, m, full)
	for _, bad := range []*metarecord.PartitionChange{
		{TopicID: id, Leader: metarecord.NoChange, Recovery: -1, Directories: []metarecord.ID{one}},
		{TopicID: id, Leader: metarecord.NoChange, Recovery: -1, Replicas: []int32{1}, Directories: []metarecord.ID{one, two}},
	} {
		require.Error(t, m.Apply(bad))
	}
}

func noChange(id topic.ID) *metarecord.PartitionChange {
	return &metarecord.PartitionChange{TopicID: id, Leader: metarecord.NoChange, Recovery: -1}
}
