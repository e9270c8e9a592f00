package view

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/replication"
	"github.com/stratalog/strata/topic"
)

var start = time.Unix(1_000_000, 0)

func oneTopic(name string, id topic.ID, ps ...replication.PartitionMetadata) Response {
	r := Response{}
	r.Topics = map[string]replication.TopicMetadata{name: {Name: name, ID: id, Partitions: ps}}
	return r
}

func without(name string) Response {
	r := Response{}
	r.Topics = map[string]replication.TopicMetadata{name: {Name: name, Err: &replication.UnknownTopicError{Topic: name}}}
	return r
}

func led(by, epoch int32) replication.PartitionMetadata {
	return replication.PartitionMetadata{Leader: by, LeaderEpoch: epoch}
}

func TestLeaderOfAnOlderEpochIsIgnored(t *testing.T) {
	var v View
	id := topic.NewID()
	require.True(t, v.Merge(oneTopic("t", id, led(1, 5)), start))
	require.False(t, v.Merge(oneTopic("t", id, led(2, 4)), start))
	require.EqualValues(t, 1, v.Metadata([]string{"t"}).Topics["t"].Partitions[0].Leader)
	require.True(t, v.Merge(oneTopic("t", id, led(3, 6)), start))
	require.EqualValues(t, 3, v.Metadata([]string{"t"}).Topics["t"].Partitions[0].Leader)
}

func TestNumberOfPartitionsNeverBecomesSmaller(t *testing.T) {
	var v View
	id := topic.NewID()
	v.Merge(oneTopic("t", id, led(1, 1), led(2, 1)), start)
	require.False(t, v.Merge(oneTopic("t", id, led(1, 1)), start))
	require.Len(t, v.Metadata([]string{"t"}).Topics["t"].Partitions, 2)
}

func TestTopicThatWasCreatedAgainReplacesTheOldOne(t *testing.T) {
	var v View
	v.Merge(oneTopic("t", topic.NewID(), led(1, 9), led(1, 9)), start)
	again := topic.NewID()
	require.True(t, v.Merge(oneTopic("t", again, led(2, 0)), start))
	got := v.Metadata([]string{"t"}).Topics["t"]
	require.Equal(t, again, got.ID)
	require.Len(t, got.Partitions, 1)
}

func TestTopicCountsAsDeletedOnlyAfterHalfASecondOfResponsesWithoutIt(t *testing.T) {
	var v View
	id := topic.NewID()
	v.Merge(oneTopic("t", id, led(1, 1)), start)
	require.False(t, v.Merge(without("t"), start))
	require.True(t, v.Doubtful([]string{"t"}))
	require.NoError(t, v.Metadata([]string{"t"}).Topics["t"].Err)
	require.False(t, v.Merge(oneTopic("t", id, led(1, 1)), start.Add(Doubt/2)), "a broker has it: the period begins anew")
	require.False(t, v.Doubtful([]string{"t"}))

	v.Merge(without("t"), start.Add(Doubt))
	require.False(t, v.Merge(without("t"), start.Add(2*Doubt-1)))
	require.True(t, v.Merge(without("t"), start.Add(2*Doubt)))
	require.False(t, v.Doubtful([]string{"t"}))
	require.ErrorIs(t, v.Metadata([]string{"t"}).Topics["t"].Err, replication.ErrUnknownTopic)
}

func TestTopicMissingFromAResponseAboutAllTopicsIsDeletedToo(t *testing.T) {
	var v View
	v.Merge(oneTopic("t", topic.NewID(), led(1, 1)), start)
	none := Response{AllTopics: true}
	require.False(t, v.Merge(none, start))
	require.True(t, v.Merge(none, start.Add(Doubt)))
	require.Empty(t, v.Metadata(nil).Topics)
}

func TestVersionGrowsWithEachChangeOnly(t *testing.T) {
	var v View
	id := topic.NewID()
	v.Merge(oneTopic("t", id, led(1, 1)), start)
	before := v.Version()
	v.Merge(oneTopic("t", id, led(1, 1)), start)
	require.Equal(t, before, v.Version())
	require.False(t, v.Moved("t", 0, 2, 1), "the epoch is not newer")
	require.True(t, v.Moved("t", 0, 2, 2))
	require.Equal(t, before+1, v.Version())
	require.EqualValues(t, 2, v.Metadata([]string{"t"}).Topics["t"].Partitions[0].Leader)
	require.False(t, v.Moved("t", 1, 2, 2))
	require.False(t, v.Moved("other", 0, 2, 2))
}

func TestTopicThatMayNotBeDescribedHasItsError(t *testing.T) {
	var v View
	refused := Response{}
	refused.Topics = map[string]replication.TopicMetadata{"t": {Name: "t", Err: topic.ErrInvalidName}}
	v.Merge(refused, start)
	require.ErrorIs(t, v.Metadata([]string{"t"}).Topics["t"].Err, topic.ErrInvalidName)
	v.Merge(oneTopic("t", topic.NewID(), led(1, 1)), start)
	require.NoError(t, v.Metadata([]string{"t"}).Topics["t"].Err)
}
