package kafka

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// A sort of all entries for each entry took 20 minutes.
func TestElectLeadersSortsAMillionEntriesOfOneTopicOnce(t *testing.T) {
	t.Parallel()
	const entries = 1_000_000
	topics := make([]kmsg.ElectLeadersRequestTopic, entries)
	for i := range topics {
		topics[i] = kmsg.ElectLeadersRequestTopic{Topic: "t", Partitions: []int32{int32(entries - i), 7}}
	}
	wanted, err := (&call{}).electable(t.Context(), topics)
	require.NoError(t, err)
	require.Len(t, wanted["t"], entries)
}
