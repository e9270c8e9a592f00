package replication

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/vfs"
)

func TestProducerIDsAreNeverHandedOutTwice(t *testing.T) {
	fsys := vfs.Mem()
	seen := map[int64]bool{}
	var mu sync.Mutex
	for restart := range 6 {
		c := open(t, fsys)
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for range 400 { // more than a block
					id, epoch, err := c.InitProducerID(t.Context())
					mu.Lock()
					if err != nil || epoch != 0 || id < 0 || seen[id] {
						t.Errorf("restart %d: id %d epoch %d seen %t: %v", restart, id, epoch, seen[id], err)
					}
					seen[id] = true
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		if restart%2 == 0 {
			fsys = fsys.Kill()
		} else {
			fsys = fsys.CrashWith(vfs.CrashOptions{Data: vfs.CrashLost, Sizes: vfs.CrashLost, Entries: vfs.CrashLost})
		}
	}
	require.Len(t, seen, 6*1600)
}

func TestProducerIDIsNotHandedOutIfItsBlockCannotBeWritten(t *testing.T) {
	fsys := vfs.Mem()
	c, err := Open(Config{FS: fsys})
	require.NoError(t, err)
	defer c.Close() // fails: the metadata log is broken
	for range producerIDBlock {
		_, _, err := c.InitProducerID(t.Context())
		require.NoError(t, err)
	}
	broken := errors.New("disk gone")
	fsys.Inject(vfs.Fault{Ops: vfs.OpSync, Times: vfs.Always, Err: broken})
	_, _, err = c.InitProducerID(t.Context())
	require.ErrorIs(t, err, broken)
}

// After an open, the first producer waits for no disk to get its id. The exception is a new
// cluster without changes.
func TestFirstProducerIDsAreReservedByTheOpen(t *testing.T) {
	fsys := vfs.Mem()
	for opens := range int64(3) {
		c := open(t, fsys)
		if opens == 0 {
			create(t, c, "orders", 1)
			create(t, c, "payments", 1) // ends the founding
		}
		before := fsys.Count(vfs.OpSync | vfs.OpSyncDir | vfs.OpWrite)
		id, _, err := c.InitProducerID(t.Context())
		require.NoError(t, err)
		require.Equal(t, opens*producerIDBlock, id, "none was handed out before")
		require.Equal(t, before, fsys.Count(vfs.OpSync|vfs.OpSyncDir|vfs.OpWrite))
		fsys = fsys.CrashWith(vfs.CrashOptions{Data: vfs.CrashLost, Sizes: vfs.CrashLost, Entries: vfs.CrashLost})
	}
}

// The metadata is an older copy, and partitions have records of ids that it has not handed out
// yet. A new producer gets another id, so its records are not taken for duplicates.
func TestProducerIDsOfRecordsAreNotHandedOutAgain(t *testing.T) {
	fsys := vfs.Mem()
	c := open(t, fsys)
	create(t, c, "orders", 1)
	send := func(c *Cluster, value string) {
		id, epoch, err := c.InitProducerID(t.Context())
		require.NoError(t, err)
		var b record.Builder
		b.Reset(0)
		b.SetProducer(id, epoch, 0)
		b.AppendKV(0, nil, []byte(value), nil)
		p, err := b.Build(record.None)
		require.NoError(t, err)
		done := make(chan partition.ProduceResult, 1)
		c.Produce(&partition.ProduceRequest{TopicPartition: at("orders", 0), Batch: p, Done: func(r partition.ProduceResult) { done <- r }})
		require.NoError(t, (<-done).Err)
	}
	send(c, "a")
	require.NoError(t, c.Close())
	old := fsys.Kill()
	for _, value := range []string{"b", "c"} {
		c = open(t, fsys)
		send(c, value)
		require.NoError(t, c.Close())
	}
	replaceDir(t, old, fsys, root+"/__cluster_metadata-0")
	c = openWith(t, Config{FS: fsys, Dir: "data", AcceptMetadataLoss: true})
	send(c, "d")
	require.NoError(t, c.Close())
	c = open(t, fsys)
	send(c, "e")
	require.Equal(t, []string{"a", "b", "c", "d", "e"}, values(t, c, at("orders", 0)))
}

func TestInitProducerIDEndsWithItsContextAndTheCluster(t *testing.T) {
	c, err := Open(Config{})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, _, err = c.InitProducerID(ctx)
	require.ErrorIs(t, err, context.Canceled)
	require.NoError(t, c.Close())
	_, _, err = c.InitProducerID(t.Context())
	require.ErrorIs(t, err, ErrClosed)
}
