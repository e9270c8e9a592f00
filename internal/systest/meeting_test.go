package systest

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/consumer"
	"github.com/stratalog/strata/producer"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/topic"
)

// openWith opens a cluster in memory with topics of two partitions each.
func openWith(t *testing.T, topics ...string) *strata.Cluster {
	t.Helper()
	c, err := strata.Open(strata.Config{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	for _, name := range topics {
		require.NoError(t, c.CreateTopic(t.Context(), name, topic.Config{Partitions: 2}))
	}
	return c
}

// readAll reads n records of topics from their start, without a group, and returns their values by
// topic, sorted.
func readAll(t *testing.T, c *strata.Cluster, n int, topics ...string) map[string][]string {
	t.Helper()
	from := record.Offsets{}
	for _, name := range topics {
		starts, err := c.Offsets(t.Context(), name, strata.Earliest)
		require.NoError(t, err)
		for tp, o := range starts {
			from[tp] = o
		}
	}
	g, err := consumer.New(c, consumer.Config{Assign: from})
	require.NoError(t, err)
	defer g.Close()
	values := map[string][]string{}
	for r, err := range g.Records(t.Context()) {
		require.NoError(t, err)
		values[r.Topic] = append(values[r.Topic], string(r.Value))
		if n--; n == 0 {
			break
		}
	}
	for _, vs := range values {
		slices.Sort(vs)
	}
	return values
}

func TestProducersAndConsumersMeetManyToMany(t *testing.T) {
	topics := []string{"clicks", "orders", "payments"}
	c := openWith(t, topics...)
	want := map[string][]string{}
	var producers sync.WaitGroup
	for who := range 3 {
		p, err := producer.New(c, producer.Config{})
		require.NoError(t, err)
		for i := range 20 {
			for _, name := range topics {
				want[name] = append(want[name], fmt.Sprintf("%s %d from %d", name, i, who))
			}
		}
		producers.Go(func() { // each producer writes to all topics, each topic is written by all
			for i := range 20 {
				for _, name := range topics {
					p.SendAsync(t.Context(), record.String(name, "", fmt.Sprintf("%s %d from %d", name, i, who)), func(_ record.Record, err error) {
						if err != nil {
							t.Error(err)
						}
					})
				}
			}
			if err := p.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	producers.Wait()
	for _, vs := range want {
		slices.Sort(vs)
	}
	for range 2 { // each reader reads all topics, each topic is read by several
		require.Equal(t, want, readAll(t, c, 180, topics...))
	}
	require.Equal(t, map[string][]string{"orders": want["orders"]}, readAll(t, c, 60, "orders"))
}

// Producers and consumers do not wait for each other, nor need the other side to exist.
func TestProducersAndConsumersKnowNothingOfEachOther(t *testing.T) {
	c := openWith(t, "orders")
	idle, err := consumer.New(c, consumer.Config{Group: "never polls", Topics: []string{"orders"}})
	require.NoError(t, err)
	early := make(chan record.Record, 1)
	reader, err := consumer.New(c, consumer.Config{Group: "early", Topics: []string{"orders"}})
	require.NoError(t, err)
	go func() {
		// It reads before the first record is written.
		for r, err := range reader.Records(t.Context()) {
			if err != nil {
				t.Error(err)
			}
			early <- r
			break
		}
	}()

	p, err := producer.New(c, producer.Config{MaxBufferedBytes: 64 << 10, DeliveryTimeout: 10 * time.Second})
	require.NoError(t, err)
	big := make([]byte, 16<<10)
	const n = 400 // 6 MiB: more than all buffers between producer and consumer
	for range n {
		_, err := p.Send(t.Context(), record.Record{Topic: "orders", Value: big})
		require.NoError(t, err, "nobody has to read for a producer to go on")
	}
	require.Equal(t, "orders", (<-early).Topic)
	require.NoError(t, p.Close())
	require.NoError(t, reader.Close())
	require.Len(t, readAll(t, c, n, "orders")["orders"], n, "nobody has to write for a consumer to go on")
	require.NoError(t, idle.Close())
}
