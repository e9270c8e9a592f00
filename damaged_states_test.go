package strata_test

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/consumer"
	"github.com/stratalog/strata/group"
	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/log"
	"github.com/stratalog/strata/producer"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/share"
	"github.com/stratalog/strata/topic"
	"github.com/stratalog/strata/transaction"
	"github.com/stratalog/strata/vfs"
)

// A call that waits for a coordinator whose partition is damaged returns the file and the offset
// of the damage. It does so even if the caller's context ends the wait.
func TestWaitsForADamagedCoordinatorEndWithTheDamage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := vfs.Mem()
		cfg := strata.Config{Dir: "data", FS: disk, Group: group.Config{OffsetsPartitions: 1},
			Transactions: transaction.Config{Topic: transaction.TopicConfig{Partitions: 1}}, Shares: share.Config{Topic: share.TopicConfig{Partitions: 1}}}
		writeCoordinatorStates(t, cfg)
		for _, name := range []string{"__transaction_state", "__consumer_offsets", "__share_group_state"} {
			flipBit(t, disk, fmt.Sprintf("data/broker-1/%s-0/%020d.log", name, 0), 66)
		}

		c, err := strata.Open(cfg)
		require.NoError(t, err)
		defer c.Close()
		damaged := func(call string, file string, wait func(ctx context.Context) error) {
			t.Helper()
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			defer cancel()
			err := wait(ctx)
			var damage *log.CorruptError
			require.ErrorAs(t, err, &damage, call)
			require.Contains(t, damage.Error(), file+"-0/00000000000000000000.log is damaged at byte 0 (offset 0)", call)
			if ctx.Err() != nil {
				require.ErrorIs(t, err, context.DeadlineExceeded, call)
			}
		}

		p, err := producer.New(c, producer.Config{TransactionalID: "tx"})
		require.NoError(t, err)
		damaged("InitTransactions", "__transaction_state", p.InitTransactions)
		damaged("Begin", "__transaction_state", func(ctx context.Context) error { _, err := p.Begin(ctx); return err })
		first, done := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(done)
			close(first)
			_, _ = p.Begin(t.Context()) // until MaxBlock
		}()
		<-first
		synctest.Wait()
		damaged("Begin behind another one", "__transaction_state", func(ctx context.Context) error { _, err := p.Begin(ctx); return err })
		<-done
		require.NoError(t, p.Close())

		for _, protocol := range []consumer.Protocol{consumer.ProtocolClassic, consumer.ProtocolConsumer} {
			m, err := consumer.New(c, consumer.Config{Group: "g", Topics: []string{"orders"}, Protocol: protocol})
			require.NoError(t, err)
			damaged("Poll", "__consumer_offsets", func(ctx context.Context) error { _, err := m.Poll(ctx); return err })
			_ = m.Close()
		}

		s, err := consumer.NewShare(c, consumer.ShareConfig{Group: "s", Topics: []string{"orders"}})
		require.NoError(t, err)
		damaged("Share.Poll", "__share_group_state", func(ctx context.Context) error { _, err := s.Poll(ctx); return err })
		require.NoError(t, s.Close())
	})
}

// writeCoordinatorStates creates a cluster with a record in each internal topic and closes it.
func writeCoordinatorStates(t *testing.T, cfg strata.Config) {
	c, err := strata.Open(cfg)
	require.NoError(t, err)
	require.NoError(t, c.CreateTopic(t.Context(), "orders", topic.Config{Partitions: 1}))
	p, err := producer.New(c, producer.Config{TransactionalID: "tx"})
	require.NoError(t, err)
	require.NoError(t, p.Transact(t.Context(), func(tx *producer.Txn) error {
		return tx.Send(t.Context(), record.String("orders", "", "a"))
	}))
	require.NoError(t, p.Close())
	require.NoError(t, c.ResetOffsets(t.Context(), "g", record.Offsets{{Topic: "orders"}: 0}))
	s, err := consumer.NewShare(c, consumer.ShareConfig{Group: "s", Topics: []string{"orders"}})
	require.NoError(t, err)
	_, err = s.Poll(t.Context())
	require.NoError(t, err)
	require.NoError(t, s.Close())
	require.NoError(t, c.Close())
}

// flipBit flips one bit of the byte at an offset of a file.
func flipBit(t *testing.T, fsys vfs.FS, name string, at int64) {
	f, err := fsys.OpenFile(name, os.O_RDWR, 0)
	require.NoError(t, err)
	defer f.Close()
	b := []byte{0}
	_, err = f.ReadAt(b, at)
	require.NoError(t, err)
	b[0] ^= 1
	_, err = f.WriteAt(b, at)
	require.NoError(t, err)
}
