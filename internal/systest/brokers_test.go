package systest

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/consumer"
	"github.com/stratalog/strata/producer"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/topic"
)

// Producers, consumers and groups need not know the number of brokers. They find records,
// committed offsets and coordinators on any broker, also after a restart.
func TestClientsFindWhatSeveralBrokersHold(t *testing.T) {
	dir := t.TempDir()
	const records = 60
	read := func(c *strata.Cluster, from, to int) {
		t.Helper()
		g, err := consumer.New(c, consumer.Config{Group: "billing", Topics: []string{"orders"}})
		require.NoError(t, err)
		left := map[string]bool{}
		for i := from; i < to; i++ {
			left[fmt.Sprint(i)] = true
		}
		again := 0
		for r, err := range g.Records(t.Context()) {
			require.NoError(t, err)
			if !left[string(r.Value)] {
				again++
			}
			if delete(left, string(r.Value)); len(left) == 0 {
				break
			}
		}
		require.LessOrEqual(t, again, 1, "what is committed is not read again, but for the record that the loop ended with")
		require.NoError(t, g.Close())
	}
	write := func(c *strata.Cluster, from, to int) {
		t.Helper()
		p, err := producer.New(c, producer.Config{})
		require.NoError(t, err)
		for i := from; i < to; i++ {
			_, err := p.Send(t.Context(), record.String("orders", fmt.Sprint("key ", i), fmt.Sprint(i)))
			require.NoError(t, err)
		}
		require.NoError(t, p.Close())
	}
	c, err := strata.Open(strata.Config{Dir: dir, Brokers: 3})
	require.NoError(t, err)
	require.NoError(t, c.CreateTopic(t.Context(), "orders", topic.Config{Partitions: 7}))
	write(c, 0, records)
	read(c, 0, records)
	led := map[int32]bool{}
	for p := range int32(50) {
		led[c.Backend().Leader("__consumer_offsets", p)] = true
	}
	require.Equal(t, map[int32]bool{1: true, 2: true, 3: true}, led, "groups are spread over the brokers")
	require.NoError(t, c.Close())

	c, err = strata.Open(strata.Config{Dir: dir})
	require.NoError(t, err)
	write(c, records, 2*records)
	read(c, records, 2*records)
	require.NoError(t, c.Close())
}
