package kafka

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
)

func TestCodesHaveKafkasNames(t *testing.T) {
	require.Equal(t, "NONE", Code(0).String())
	// franz-go's list has the name of older releases
	renamed := map[Code]string{NotLeaderOrFollower: "NOT_LEADER_FOR_PARTITION"}
	for c := UnknownServerError; c <= ShareSessionLimitReached; c++ {
		if c == 0 {
			continue
		}
		want := kerr.TypedErrorForCode(int16(c)).Message
		if renamed[c] != "" {
			require.Equal(t, renamed[c], want)
			continue
		}
		require.Equal(t, want, c.String())
	}
	require.Equal(t, "134", Code(134).String())
	require.Equal(t, "-2", Code(-2).String())
}

func TestKeysHaveKafkasNames(t *testing.T) {
	require.Equal(t, "OffsetCommit", OffsetCommit.String())
	require.Equal(t, "InitProducerID", InitProducerID.String())
	require.Equal(t, "DescribeTopicPartitions", DescribeTopicPartitions.String())
	require.Equal(t, "Unknown", Key(1000).String())
}
