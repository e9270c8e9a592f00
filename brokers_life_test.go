package strata_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/consumer"
	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/producer"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/replication"
	"github.com/stratalog/strata/topic"
	"github.com/stratalog/strata/vfs"
)

// Brokers are killed, stopped and started while clients are at work. Every record that was
// acknowledged is read once and in order, and clients need no help.
func TestClientsRideThroughBrokersThatComeAndGo(t *testing.T) {
	const partitions, each = 6, 150
	c, err := strata.Open(strata.Config{FS: vfs.Mem(), Dir: "data", Brokers: 3})
	require.NoError(t, err)
	require.NoError(t, c.CreateTopic(t.Context(), "orders", topic.Config{Partitions: partitions}))
	p, err := producer.New(c, producer.Config{RetryBackoff: time.Millisecond, RetryBackoffMax: 5 * time.Millisecond})
	require.NoError(t, err)
	reader, err := consumer.New(c, consumer.Config{Topics: []string{"orders"}})
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var clients, faults sync.WaitGroup
	for part := range int32(partitions) {
		clients.Go(func() {
			for i := range each {
				if _, err := p.Send(ctx, record.String("orders", "", strconv.Itoa(i)).To(part)); err != nil {
					t.Errorf("send: %v", err)
				}
			}
		})
	}
	seen := make([]int, partitions)
	clients.Go(func() {
		left := partitions * each
		for r, err := range reader.Records(ctx) {
			if err != nil {
				t.Errorf("read: %v", err)
				return
			}
			if want := strconv.Itoa(seen[r.Partition]); string(r.Value) != want {
				t.Errorf("record %s instead of %s in partition %d at %d", r.Value, want, r.Partition, r.Offset)
				return
			}
			seen[r.Partition]++
			if left--; left == 0 {
				return
			}
		}
	})
	stop := make(chan struct{})
	rounds := 0
	faults.Go(func() {
		rnd := rand.New(rand.NewPCG(1, 2))
		for ; ; rounds++ {
			select {
			case <-stop:
				if rounds >= 3 {
					return
				}
			default:
			}
			id := int32(rnd.IntN(3) + 1)
			var err error
			if rnd.IntN(2) == 0 {
				err = c.KillBroker(id)
			} else {
				err = c.StopBroker(ctx, id)
			}
			if err != nil && !errors.Is(err, replication.ErrLastBroker) {
				t.Errorf("end: %v", err)
			}
			if err == nil {
				if err := c.StartBroker(ctx, id); err != nil {
					t.Errorf("start: %v", err)
				}
			}
		}
	})
	clients.Wait()
	close(stop)
	faults.Wait()
	t.Logf("%d brokers ended and started", rounds)
	ends, err := c.Offsets(t.Context(), "orders", partition.Latest)
	require.NoError(t, err)
	for part := range partitions {
		require.Equal(t, each, seen[part], fmt.Sprint("partition ", part))
		require.EqualValues(t, each, ends[record.TopicPartition{Topic: "orders", Partition: int32(part)}], "nothing is there twice")
	}
	require.Len(t, c.Brokers(), 3)
	require.NoError(t, reader.Close())
	require.NoError(t, p.Close())
	require.NoError(t, c.Close())
}
