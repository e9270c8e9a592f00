package replication

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/metarecord"
	"github.com/stratalog/strata/log"
	"github.com/stratalog/strata/replication/internal/image"
	"github.com/stratalog/strata/replication/internal/metalog"
	"github.com/stratalog/strata/topic"
	"github.com/stratalog/strata/vfs"
)

// One change may be larger than the largest batch. It is written as a transaction, and applies as
// a whole.
func TestChangeOfAnySizeIsMade(t *testing.T) {
	if testing.Short() {
		t.Skip("writes 2 x 17 MiB of metadata")
	}
	fsys := vfs.Mem()
	c := openWith(t, Config{FS: fsys, Dir: "data", Brokers: 2, metaSlack: 1 << 30})
	props := map[string]string{"segment.bytes": "1048576", "max.compaction.lag.ms": "5000"}
	for _, key := range []string{
		"retention.ms", "segment.ms", "retention.bytes", "flush.ms", "flush.messages", "index.interval.bytes", "segment.index.bytes",
		"file.delete.delay.ms", "delete.retention.ms", "min.compaction.lag.ms", "max.message.bytes", "message.timestamp.before.max.ms",
		"message.timestamp.after.max.ms", "segment.jitter.ms",
	} {
		props[key] = "4096"
	}
	const n = 3500
	var specs []TopicSpec
	for i := range n {
		specs = append(specs, TopicSpec{fmt.Sprint(i, strings.Repeat("-", 240)), topic.Config{Properties: props}})
	}
	for _, err := range c.CreateTopics(t.Context(), specs) {
		require.NoError(t, err)
	}
	size, _ := c.meta.Sizes()
	require.Greater(t, size, int64(metalog.MaxBatchBytes))
	require.NoError(t, c.Close())
	kinds := ""
	for _, rec := range metaRecords(t, fsys, 2) {
		switch rec := rec.(type) {
		case *metarecord.BeginTransaction:
			kinds += "<" + rec.Name
		case *metarecord.EndTransaction:
			kinds += ">"
		case *metarecord.Topic:
			kinds += "t"
		}
	}
	require.Equal(t, "<change"+strings.Repeat("t", n)+">", kinds)
	c = openWith(t, Config{FS: fsys, Dir: "data", Brokers: 2})
	require.Len(t, names(t, c), n)
}

func TestRecordThatNoBatchCanHoldIsRefusedBeforeAnythingIsWritten(t *testing.T) {
	c := open(t, vfs.Mem())
	end := c.meta.Own().EndOffset()
	huge := strings.Repeat("x", metalog.MaxRecordBytes)
	err := c.change(t.Context(), func(*image.Image) ([]metarecord.Record, error) {
		return []metarecord.Record{&metarecord.NoOp{}, &metarecord.Config{ResourceType: metarecord.ResourceBroker, Name: "log.retention.ms", Value: &huge}}, nil
	})
	require.ErrorIs(t, err, log.ErrRecordTooLarge)
	require.Equal(t, end, c.meta.Own().EndOffset())
	create(t, c, "orders", 1)
}

// A disk that fails in the middle of a large change fences its broker, and the change is made.
func TestLargeChangeGoesOnWithoutACopyThatFails(t *testing.T) {
	for _, broken := range []int{1, 2, 3} { // 1 is the controller
		inTheMiddle := false
		for after := 0; ; after++ {
			ds := newDisks(3)
			cfg := ds.config()
			cfg.metaPart = 100
			c, err := Open(cfg)
			require.NoError(t, err)
			create(t, c, "first", 3)
			end := c.meta.Own().EndOffset()
			mend := ds[broken-1].Inject(vfs.Fault{Ops: vfs.OpWrite, Pattern: "*.log", After: after, Times: vfs.Always, Err: errDisk})
			require.NoError(t, c.CreateTopic(t.Context(), "second", topic.Config{Partitions: 9, Properties: properties("retention.ms", "1000")}))
			left := c.Brokers()
			create(t, c, "third", 3)
			if len(left) == 2 && after > 0 && c.meta.Own().EndOffset() > end {
				inTheMiddle = true
			}
			_ = c.Close() // may return the broken disk's error
			mend()
			again, err := Open(ds.config())
			require.NoError(t, err)
			require.Equal(t, []string{"first", "second", "third"}, names(t, again), "broker %d, after %d", broken, after)
			require.Len(t, leaders(t, again, "second"), 9)
			require.Equal(t, []int32{1, 2, 3}, again.Brokers())
			require.NoError(t, again.Close())
			ds.requireEqualCopies(t)
			if len(left) == 3 { // the change had ended before
				require.Greater(t, after, 3)
				break
			}
			require.Equal(t, slices.DeleteFunc([]int32{1, 2, 3}, func(id int32) bool { return int(id) == broken }), left)
		}
		require.True(t, inTheMiddle)
	}
}

// If too many disks fail in the middle of a large change, the change is taken back.
func TestLargeChangeIsTakenBackAsAWhole(t *testing.T) {
	for after := range 5 {
		fsys := vfs.Mem()
		cfg := Config{FS: fsys, Dir: "data", metaPart: 100}
		c, err := Open(cfg)
		require.NoError(t, err)
		create(t, c, "first", 3)
		size, _ := c.meta.Sizes()
		mend := fsys.Inject(vfs.Fault{Ops: vfs.OpWrite, Pattern: "*.log", After: after, Err: errDisk})
		require.ErrorIs(t, c.CreateTopic(t.Context(), "second", topic.Config{Partitions: 9}), errDisk)
		mend()
		require.Equal(t, []string{"first"}, names(t, c))
		now, _ := c.meta.Sizes()
		require.Equal(t, size, now)
		create(t, c, "third", 1)
		require.NoError(t, c.Close())
		again := open(t, fsys.Kill())
		require.Equal(t, []string{"first", "third"}, names(t, again), "after %d", after)
	}
}

// A log without its beginning is refused, whatever it begins with.
func TestMetadataLogThatBeginsWithALargeChangeIsDamaged(t *testing.T) {
	fsys := vfs.Mem()
	c := openWith(t, Config{FS: fsys, Dir: "data", metaPart: 100})
	require.NoError(t, c.AlterBrokerConfig(t.Context(), AllBrokers, ConfigChange{Key: "log.retention.ms", Value: "2000"}))
	begin := c.meta.Own().EndOffset()
	create(t, c, "orders", 9)
	require.NoError(t, c.Close())
	l, err := log.Open(metaDir, log.Config{FS: fsys, Cleanup: log.CleanupNone})
	require.NoError(t, err)
	require.NoError(t, l.DeleteRecords(begin))
	require.NoError(t, l.Close())
	_, err = Open(Config{FS: fsys, Dir: "data"})
	requireDirectoryError(t, err, ErrDamaged, "backup")
}
