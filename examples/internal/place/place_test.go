package place

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/consumer"
	"github.com/stratalog/strata/internal/leaktest"
	"github.com/stratalog/strata/kafkatest"
	"github.com/stratalog/strata/producer"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/topic"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

func TestExampleLeavesNothingElsewhere(t *testing.T) {
	s := kafkatest.New(t, kafkatest.Config{Topics: map[string]int{"orders": 1}})
	s.Fill("orders", record.String("orders", "k", "of another program"))
	at := At(s.Addrs()[0])
	c, err := at.Open(t.Context(), strata.Config{})
	require.NoError(t, err)
	require.NotEqual(t, "orders", at.Name("orders"))
	require.NoError(t, c.CreateTopic(t.Context(), at.Name("orders"), topic.Config{Partitions: 1}))
	p, err := producer.New(c, producer.Config{})
	require.NoError(t, err)
	_, err = p.Send(t.Context(), record.String(at.Name("orders"), "k", "of the example"))
	require.NoError(t, err)
	require.NoError(t, p.Close())
	g, err := consumer.New(c, consumer.Config{Group: at.Name("billing"), Topics: []string{at.Name("orders")}})
	require.NoError(t, err)
	_, err = g.Poll(t.Context())
	require.NoError(t, err)
	require.NoError(t, g.Close())
	require.Len(t, groups(t, s), 1)
	require.NoError(t, at.Close(c))
	require.Empty(t, groups(t, s))
	topics, err := s.Cluster().Topics(t.Context())
	require.NoError(t, err)
	for _, left := range topics {
		require.NotEqual(t, at.Name("orders"), left.Name)
	}
	require.Len(t, s.Topic("orders"), 1)
}

func groups(t *testing.T, s *kafkatest.Server) (ids []string) {
	all, err := s.Cluster().Groups(context.Background())
	require.NoError(t, err)
	for _, g := range all {
		ids = append(ids, g.ID)
	}
	return ids
}

func TestNamesInTheProcessAreAsTheyAre(t *testing.T) {
	require.Equal(t, "orders", At("").Name("orders"))
	require.False(t, At("").Elsewhere())
}

func TestProcessOfAnExampleIsAtItsPlace(t *testing.T) {
	for _, at := range []Place{At(""), At("localhost:9092")} {
		for _, v := range at.Environ() {
			name, value, _ := strings.Cut(v, "=")
			t.Setenv(name, value)
		}
		require.Equal(t, at, FromEnviron())
		require.Equal(t, at.Elsewhere(), at.Another() != at, "a second run has other names elsewhere")
	}
}
