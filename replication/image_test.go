package replication

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/metarecord"
	"github.com/stratalog/strata/topic"
)

func applyAll(t *testing.T, m *image, recs ...metarecord.Record) {
	t.Helper()
	for _, rec := range recs {
		require.NoError(t, m.apply(rec))
	}
}

func set(name, key, value string) *metarecord.Config {
	return &metarecord.Config{ResourceType: metarecord.ResourceTopic, ResourceName: name, Name: key, Value: &value}
}

func TestPublishedTopicsNeverChange(t *testing.T) {
	m := newImage()
	id := topic.NewID()
	applyAll(t, m, &metarecord.Topic{Name: "a", ID: id}, set("a", "k", "1"), &metarecord.Partition{TopicID: id, Replicas: []int32{1}, ISR: []int32{1}, Leader: 1})
	m.publish(3)
	old := m.topics["a"]
	applyAll(t, m, set("a", "k", "2"), &metarecord.Partition{Partition: 1, TopicID: id, Leader: 1},
		&metarecord.PartitionChange{TopicID: id, Leader: -1, ISR: []int32{}, Replicas: []int32{2}, Recovery: -1})
	m.publish(6)
	require.Equal(t, &topicImage{name: "a", id: id, config: map[string]string{"k": "1"},
		partitions: []partitionImage{{replicas: []int32{1}, isr: []int32{1}, leader: 1}}}, old)
	require.Equal(t, &topicImage{name: "a", id: id, config: map[string]string{"k": "2"},
		partitions: []partitionImage{{replicas: []int32{2}, isr: nil, leader: -1, leaderEpoch: 1, partitionEpoch: 1}, {leader: 1}}}, m.topics["a"])
	require.Equal(t, int64(6), m.version)
	require.Equal(t, 2, m.partitions)
}

func TestLeaderEpochGrowsOnlyWithTheLeader(t *testing.T) {
	m := newImage()
	id := topic.NewID()
	applyAll(t, m, &metarecord.Topic{Name: "a", ID: id}, &metarecord.Partition{TopicID: id, Replicas: []int32{1, 2}, ISR: []int32{1, 2}, Leader: 1},
		&metarecord.PartitionChange{TopicID: id, Leader: metarecord.NoChange, ISR: []int32{1}, Recovery: -1},
		&metarecord.PartitionChange{TopicID: id, Leader: 2, Recovery: -1})
	p := m.topics["a"].partitions[0]
	require.Equal(t, int32(1), p.leaderEpoch)
	require.Equal(t, int32(2), p.partitionEpoch)
	require.Equal(t, []int32{1}, p.isr)
}

func TestRecordsThatDoNotFitAreRefused(t *testing.T) {
	m := newImage()
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
		"config of a group":    &metarecord.Config{ResourceType: 32, ResourceName: "g"},
		"ids go back":          &metarecord.ProducerIDs{Next: 1000},
	} {
		require.Error(t, m.apply(rec), name)
	}
	require.Equal(t, "gone", m.removed[gone])
	require.Empty(t, m.topics["a"].partitions)
	require.Equal(t, int64(2000), m.nextProducerID)
}

func TestReplicasAreSpreadEvenly(t *testing.T) {
	require.Equal(t, [][]int32{{1}, {1}}, place([]int32{1}, 0, 2, 1))
	require.Equal(t, [][]int32{{1, 2}, {2, 3}, {3, 1}, {1, 2}}, place([]int32{1, 2, 3}, 0, 4, 2))
	require.Equal(t, [][]int32{{2, 3, 1}}, place([]int32{1, 2, 3}, 4, 1, 3), "partitions added later go on where the first ones ended")
}

// All that the records of a partition say is kept, by a snapshot too.
func TestPartitionKeepsAllThatItsRecordsSay(t *testing.T) {
	id := topic.NewID()
	one, two := metarecord.ID{1}, metarecord.ID{2}
	full := &metarecord.Partition{
		Partition: 0, TopicID: id, Replicas: []int32{1, 2}, ISR: []int32{1}, Removing: []int32{2}, Adding: []int32{3},
		Leader: 1, LeaderEpoch: 4, PartitionEpoch: 9, Recovering: true, Directories: []metarecord.ID{one, two},
		EligibleLeaders: []int32{2}, LastKnownLeader: []int32{1},
	}
	said := func(recs ...metarecord.Record) *metarecord.Partition {
		m := newImage()
		applyAll(t, m, &metarecord.Topic{Name: "a", ID: id})
		applyAll(t, m, recs...)
		m.publish(1)
		again := newImage()
		applyAll(t, again, m.snapshot(nil)...)
		again.publish(1)
		require.Equal(t, m, again)
		return m.topics["a"].partitions[0].record(0, id).(*metarecord.Partition)
	}
	require.Equal(t, full, said(full))
	plain := &metarecord.Partition{TopicID: id, Replicas: []int32{1, 2}, ISR: []int32{1, 2}, Leader: 2, LeaderEpoch: 3}
	require.Equal(t, plain, said(plain))
	require.Equal(t, full, said(plain,
		&metarecord.PartitionChange{TopicID: id, Leader: 1, Recovery: 1, ISR: []int32{1}, Removing: []int32{2}, Adding: []int32{3},
			EligibleLeaders: []int32{2}, LastKnownLeader: []int32{1}, Directories: []metarecord.ID{one, two}},
		noChange(id), noChange(id), noChange(id), noChange(id), noChange(id), noChange(id), noChange(id), noChange(id)))
	emptied := said(full, &metarecord.PartitionChange{TopicID: id, Leader: metarecord.NoChange, Recovery: 0, Removing: []int32{}, Adding: []int32{},
		EligibleLeaders: []int32{}, LastKnownLeader: []int32{}, Directories: []metarecord.ID{}})
	require.Equal(t, &metarecord.Partition{TopicID: id, Replicas: []int32{1, 2}, ISR: []int32{1}, Leader: 1, LeaderEpoch: 4, PartitionEpoch: 10}, emptied)

	m := newImage()
	applyAll(t, m, &metarecord.Topic{Name: "a", ID: id})
	require.Error(t, m.apply(&metarecord.Partition{TopicID: id, Replicas: []int32{1, 2}, Directories: []metarecord.ID{one}}))
	applyAll(t, m, full)
	for _, bad := range []*metarecord.PartitionChange{
		{TopicID: id, Leader: metarecord.NoChange, Recovery: -1, Directories: []metarecord.ID{one}},
		{TopicID: id, Leader: metarecord.NoChange, Recovery: -1, Replicas: []int32{1}, Directories: []metarecord.ID{one, two}},
	} {
		require.Error(t, m.apply(bad))
	}
}

func noChange(id topic.ID) *metarecord.PartitionChange {
	return &metarecord.PartitionChange{TopicID: id, Leader: metarecord.NoChange, Recovery: -1}
}
