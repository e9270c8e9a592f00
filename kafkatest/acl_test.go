package kafkatest

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stratalog/strata/acl"
)

func TestACLsOfAConfigAreInForce(t *testing.T) {
	s := New(t, Config{Topics: map[string]int{"mine": 1, "theirs": 1}, Brokers: 2, ACLs: []acl.Entry{{
		ResourceType: acl.Topic, ResourceName: "mine", PatternType: acl.Literal, Principal: "User:ANONYMOUS", Host: "*", Operation: acl.Write, Permission: acl.Allow,
	}}})
	client, err := kgo.NewClient(kgo.SeedBrokers(s.Addrs()...))
	require.NoError(t, err)
	defer client.Close()
	require.NoError(t, client.ProduceSync(t.Context(), &kgo.Record{Topic: "mine", Value: []byte("v")}).FirstErr())
	require.ErrorIs(t, client.ProduceSync(t.Context(), &kgo.Record{Topic: "theirs", Value: []byte("v")}).FirstErr(), kerr.TopicAuthorizationFailed)
	_, err = s.Cluster().DeleteACLs(t.Context(), acl.Everything())
	require.NoError(t, err)
	require.ErrorIs(t, client.ProduceSync(t.Context(), &kgo.Record{Topic: "mine", Value: []byte("v")}).FirstErr(), kerr.TopicAuthorizationFailed)
}
