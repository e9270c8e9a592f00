package kafkatest

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/consumer"
	"github.com/stratalog/strata/record"
)

func TestOwnConsumerWorksInABubbleBesideTheServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(t, Config{Pipe: true, Topics: map[string]int{"a": 1}})
		c, err := consumer.New(s.Cluster(), consumer.Config{Group: "g", Topics: []string{"a"}})
		require.NoError(t, err)
		defer c.Close()
		s.Fill("a", record.String("a", "", "x"))
		b, err := c.Poll(t.Context())
		require.NoError(t, err)
		require.NotEmpty(t, b.Offsets())
	})
}
