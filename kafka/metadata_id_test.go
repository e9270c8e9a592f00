package kafka

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata/topic"
)

func TestMetadataByIDIgnoresTheNameBesideIt(t *testing.T) {
	s, addr := serve(t, Config{})
	require.NoError(t, s.cluster.CreateTopic(t.Context(), "t", topic.Config{Partitions: 2}))
	id, _ := s.cluster.TopicID("t")
	// the Java client sends an empty one
	for _, name := range []*string{nil, kmsg.StringPtr(""), kmsg.StringPtr("another")} {
		req := &kmsg.MetadataRequest{Topics: []kmsg.MetadataRequestTopic{{Topic: name, TopicID: id}}}
		got := ask[*kmsg.MetadataResponse](t, addr, 13, req).Topics[0]
		require.Zero(t, got.ErrorCode)
		require.Equal(t, "t", *got.Topic)
		require.Len(t, got.Partitions, 2)
	}
}
