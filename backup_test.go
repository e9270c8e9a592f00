package strata_test

import (
	"context"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/consumer"
	"github.com/stratalog/strata/group"
	"github.com/stratalog/strata/producer"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/topic"
	"github.com/stratalog/strata/vfs"
)

// checkOffsets requires that no committed offset is beyond its partition's end, and returns the
// committed offsets.
func checkOffsets(t *testing.T, c *strata.Cluster) record.Offsets {
	t.Helper()
	ends, err := c.Offsets(t.Context(), "orders", strata.Latest)
	require.NoError(t, err)
	committed, err := c.FetchOffsets(t.Context(), "billing", nil)
	require.NoError(t, err)
	offsets := record.Offsets{}
	for tp, o := range committed {
		if o.Offset >= 0 {
			offsets[tp] = o.Offset
			require.LessOrEqual(t, o.Offset, ends[tp], "%v is committed up to %d, and ends at %d", tp, o.Offset, ends[tp])
		}
	}
	return offsets
}

// Records may be written, read and committed at any time during a backup: the copy has no
// committed offset without its record.
func TestCommittedOffsetsOfABackupNeverPointPastRecords(t *testing.T) {
	fsys := vfs.Mem()
	c, err := strata.Open(strata.Config{FS: fsys, Dir: "data", Group: group.Config{OffsetsPartitions: 2}})
	require.NoError(t, err)
	defer c.Close()
	require.NoError(t, c.CreateTopic(t.Context(), "orders", topic.Config{Partitions: 2}))
	var mu sync.Mutex // partitions are copied concurrently
	work := func(values ...string) {
		mu.Lock()
		defer mu.Unlock()
		p, err := producer.New(c, producer.Config{Partitioner: topic.Manual()})
		require.NoError(t, err)
		for _, v := range values {
			for part := range int32(2) {
				_, err := p.Send(context.Background(), record.String("orders", "", v).To(part))
				require.NoError(t, err)
			}
		}
		require.NoError(t, p.Close())
		ends, err := c.Offsets(context.Background(), "orders", strata.Latest)
		require.NoError(t, err)
		require.NoError(t, c.ResetOffsets(context.Background(), "billing", ends))
	}
	work("before", "before")
	copies := map[string]bool{}
	remove := fsys.Observe(vfs.Observer{
		Before: func(e vfs.Event) {
			if e.Op == vfs.OpRename && filepath.Dir(e.NewName) == filepath.Join("copy", "broker-1") && strings.HasSuffix(e.Name, ".partial") {
				work("during " + e.NewName)
				mu.Lock()
				copies[filepath.Base(e.NewName)] = true
				mu.Unlock()
			}
		},
	})
	require.NoError(t, c.Backup(t.Context(), "copy"))
	remove()
	require.Contains(t, copies, "orders-0")
	require.Contains(t, copies, "orders-1")
	require.Contains(t, copies, "__cluster_metadata-0")
	require.Len(t, copies, 4, "and one partition of the offsets topic")

	restored, err := strata.Open(strata.Config{FS: fsys, Dir: "copy"})
	require.NoError(t, err)
	defer restored.Close()
	offsets := checkOffsets(t, restored)
	require.Len(t, offsets, 2)
	require.GreaterOrEqual(t, offsets[record.TopicPartition{Topic: "orders"}], int64(2), "what was committed before is")
}

func TestBackupOfABusyClusterOpensAndServes(t *testing.T) {
	dir := t.TempDir()
	c, err := strata.Open(strata.Config{Dir: filepath.Join(dir, "data")})
	require.NoError(t, err)
	require.NoError(t, c.CreateTopic(t.Context(), "orders", topic.Config{Partitions: 4}))
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	sent, read := make(chan struct{}, 1), make(chan struct{}, 1)
	signal := func(ch chan struct{}) {
		select {
		case ch <- struct{}{}:
		default:
		}
	}
	wg.Go(func() {
		p, err := producer.New(c, producer.Config{})
		if err != nil {
			t.Error(err)
			return
		}
		defer p.Close()
		for i := 0; ctx.Err() == nil; i++ {
			if _, err := p.Send(ctx, record.String("orders", fmt.Sprint(i%50), fmt.Sprint(i))); err != nil && ctx.Err() == nil {
				t.Error(err)
			}
			signal(sent)
		}
	})
	wg.Go(func() {
		g, err := consumer.New(c, consumer.Config{Group: "billing", Topics: []string{"orders"}, Commit: consumer.CommitManual})
		if err != nil {
			t.Error(err)
			return
		}
		defer g.Close()
		for r, err := range g.Records(ctx) {
			if err == nil {
				err = g.Commit(ctx, r)
			}
			if err != nil && ctx.Err() == nil {
				t.Error(err)
				return
			}
			signal(read)
		}
	})
	const copies = 3
	for i := range copies {
		<-sent
		<-read
		require.NoError(t, c.Backup(t.Context(), filepath.Join(dir, fmt.Sprint(i))))
	}
	stop()
	wg.Wait()
	require.NoError(t, c.Close())
	for i := range copies {
		b, err := strata.Open(strata.Config{Dir: filepath.Join(dir, fmt.Sprint(i))})
		require.NoError(t, err)
		offsets := checkOffsets(t, b)
		require.NotEmpty(t, offsets)
		next := map[int32]int64{}
		n := 0
		for r, err := range consumer.Read(t.Context(), b, consumer.ReadConfig{Topic: "orders"}) {
			require.NoError(t, err)
			require.Equal(t, next[r.Partition], r.Offset)
			next[r.Partition]++
			n++
		}
		require.Positive(t, n)
		send(t, b, "goes on") // with a producer id of its own
		require.NoError(t, b.Close())
	}
}

func TestBackupOfAClusterInMemoryGoesToTheDisk(t *testing.T) {
	c, err := strata.Open(strata.Config{})
	require.NoError(t, err)
	require.NoError(t, c.CreateTopic(t.Context(), "orders", topic.Config{Partitions: 1}))
	send(t, c, "a", "b")
	require.Equal(t, []string{"a"}, consume(t, c, 1))
	dir := filepath.Join(t.TempDir(), "saved")
	require.NoError(t, c.Backup(t.Context(), dir))
	require.ErrorIs(t, c.Backup(t.Context(), dir), fs.ErrExist)
	require.NoError(t, c.Close())
	c, err = strata.Open(strata.Config{Dir: dir})
	require.NoError(t, err)
	require.Equal(t, []string{"b"}, consume(t, c, 1))
	require.NoError(t, c.Close())
}
