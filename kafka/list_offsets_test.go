package kafka

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata/topic"
)

func TestListOffsetsRefusesWhatItsVersionDoesNotHave(t *testing.T) {
	s, addr := serve(t, Config{})
	require.NoError(t, s.cluster.CreateTopic(t.Context(), "t", topic.Config{}))
	list := func(version int16, topic string, timestamp int64, epoch int32) *kmsg.ListOffsetsResponseTopicPartition {
		req := kmsg.NewPtrListOffsetsRequest()
		p := kmsg.NewListOffsetsRequestTopicPartition()
		p.Timestamp, p.CurrentLeaderEpoch = timestamp, epoch
		req.Topics = []kmsg.ListOffsetsRequestTopic{{Topic: topic, Partitions: []kmsg.ListOffsetsRequestTopicPartition{p}}}
		return &ask[*kmsg.ListOffsetsResponse](t, addr, version, req).Topics[0].Partitions[0]
	}
	for _, c := range []struct {
		version   int16
		timestamp int64
		want      Code
	}{
		{1, -1, 0}, {1, -2, 0}, {6, -3, UnsupportedVersion}, {7, -3, 0}, {7, -4, UnsupportedVersion}, {8, -4, 0},
		{8, -5, UnsupportedVersion}, {9, -5, 0}, {10, -6, UnsupportedVersion}, {11, -6, 0}, {11, -7, UnsupportedVersion}, {11, 0, 0},
	} {
		got := list(c.version, "t", c.timestamp, -1)
		require.Equal(t, c.want, Code(got.ErrorCode), "version %d, timestamp %d", c.version, c.timestamp)
	}
	require.Equal(t, UnknownTopicOrPartition, Code(list(11, "none", -1, -1).ErrorCode))
	require.Equal(t, UnknownLeaderEpoch, Code(list(11, "t", -1, 7).ErrorCode))
}
