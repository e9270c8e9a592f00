package log

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/vfs"
)

// A reader that goes from one segment to the next finds that next one replaced by compaction: it
// goes on in what took its place, and not behind.
func TestReadGoesOnInWhatHasReplacedTheNextSegment(t *testing.T) {
	t.Parallel()
	cfg := compacting
	cfg.FS, cfg.SegmentBytes = vfs.Mem(), 300 // each is compacted by itself
	l, err := Open("log", cfg)
	require.NoError(t, err)
	for i, keys := range []string{"abc", "ade", "afg", "h"} {
		for j, key := range keys {
			var b record.Builder
			b.AppendKV(1, []byte(string(key)), []byte(strings.Repeat("x", 10)), nil)
			p := b.Bytes()
			record.SetBaseOffset(p, int64(i)<<32+int64(j)) // so large a gap is between segments, not in one
			record.SetLeaderEpoch(p, 0)
			done := make(chan error, 1)
			l.Submit(&Append{Batch: p, KeepOffsets: true, Done: func(a *Append) { done <- a.Err }})
			require.NoError(t, <-done)
		}
	}
	require.Len(t, l.Segments(), 4)
	require.NoError(t, l.Close())
	disk := cfg.FS.(*vfs.MemFS)
	l, err = Open("log", cfg)
	require.NoError(t, err)
	replaced := false
	stop := disk.Observe(vfs.Observer{Before: func(e vfs.Event) {
		if e.Op == vfs.OpRead && strings.HasSuffix(e.Name, "00000000000000000000.log") && !replaced {
			replaced = true
			clean(t, l)
		}
	}})
	p, err := l.Read(nil, 5, 1)
	stop()
	require.NoError(t, err)
	require.True(t, replaced)
	require.Len(t, l.Segments(), 4)
	b, _, err := record.Parse(p)
	require.NoError(t, err)
	require.EqualValues(t, 1<<32+1, b.BaseOffset, "a has a later value")
	require.NoError(t, l.Close())
}
