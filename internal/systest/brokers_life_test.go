package systest

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
	"github.com/stratalog/strata/group"
	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/log"
	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/producer"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/replication"
	"github.com/stratalog/strata/topic"
	"github.com/stratalog/strata/transaction"
	"github.com/stratalog/strata/vfs"
)

// Brokers are killed, stopped and started while clients are running. Every acknowledged record is
// read once and in order, and the clients see no error.
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

// The topics of groups and transactions are created on first use. A broker that is down at that
// moment still becomes one of their replicas, so that any other broker may die once it is back.
func TestInternalTopicsMadeWhileABrokerIsAwayHaveReplicasOnIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, err := strata.Open(strata.Config{
			Brokers: 3, LeaderBalanceInterval: log.Unlimited, Group: group.Config{OffsetsPartitions: 1},
			Transactions: transaction.Config{Topic: transaction.TopicConfig{Partitions: 1}},
		})
		require.NoError(t, err)
		defer func() { require.NoError(t, c.Close()) }()
		require.NoError(t, c.CreateTopic(t.Context(), "orders", topic.Config{Assignment: [][]int32{{1, 2, 3}}, MinInSyncReplicas: 2}))
		require.NoError(t, c.StopBroker(t.Context(), 1))
		p, err := producer.New(c, producer.Config{TransactionalID: "billing"})
		require.NoError(t, err)
		defer func() { require.NoError(t, p.Close()) }()
		orders := record.TopicPartition{Topic: "orders"}
		transact := func() {
			t.Helper()
			require.NoError(t, p.Transact(t.Context(), func(tx *producer.Txn) error { return tx.Send(t.Context(), record.String("orders", "", "paid")) }))
			require.NoError(t, c.ResetOffsets(t.Context(), "g", record.Offsets{orders: 0}))
		}
		transact()
		require.NoError(t, c.StartBroker(t.Context(), 1))
		allInSync := func() {
			t.Helper()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			for _, name := range []string{"orders", "__transaction_state", "__consumer_offsets"} {
				require.NoError(t, c.WaitISR(ctx, record.TopicPartition{Topic: name}, 1, 2, 3), name)
			}
		}
		allInSync()
		for _, id := range []int32{2, 3} {
			require.NoError(t, c.KillBroker(id))
			transact()
			require.NoError(t, c.StartBroker(t.Context(), id))
			allInSync()
		}
	})
}
