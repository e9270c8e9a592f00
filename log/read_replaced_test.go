package log

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/vfs"
)

// A reader that goes from one segment to the next finds the next one replaced by compaction. It
// continues in the replacement, not behind it.
func TestReadGoesOnInWhatHasReplacedTheNextSegment(t *testing.T) {
	t.Parallel()
	cfg := compacting
	cfg.FS, cfg.SegmentBytes = vfs.Mem(), 300 // each segment is compacted by itself
	l, err := Open("log", cfg)
	require.NoError(t, err)
	for i, keys := range []string{"abc", "ade", "afg", "h"} {
		for j, key := range keys {
			var b record.Builder
			b.AppendKV(1, []byte(string(key)), []byte(strings.Repeat("x", 10)), nil)
			p := b.Bytes()
			// so large a gap is between segments, not inside one
			record.SetBaseOffset(p, int64(i)<<32+int64(j))
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

// logFilesOf counts the .log files of the log in bedDir, and the removed files that are not
// deleted yet.
func logFilesOf(t *testing.T, disk *vfs.MemFS) (live, deleted int) {
	entries, err := disk.ReadDir(bedDir)
	require.NoError(t, err)
	for _, e := range entries {
		switch {
		case strings.HasSuffix(e.Name(), ".log"):
			live++
		case strings.HasSuffix(e.Name(), ".deleted"):
			deleted++
		}
	}
	return live, deleted
}

// A directory sync takes an hour while segments are replaced. Readers reach the replaced segments,
// at first ones that no reader has read before. They take no time, and do not spin either, or time
// would stand still.
func TestReadersWaitForNoDiskWhileSegmentsAreReplaced(t *testing.T) {
	for name, replace := range map[string]func(l *Log) error{
		"compaction": func(l *Log) error { _, err := l.Clean(t.Context()); return err },
		"restart":    func(l *Log) error { return l.exclusively(func(w *writer) error { return w.restartAt(0) }) },
	} {
		synctest.Test(t, func(t *testing.T) {
			disk := vfs.Mem()
			require.NoError(t, compactedLog(t, disk).Close())
			l := openClean(t, disk, compacting)
			stop := disk.Inject(vfs.Fault{Ops: vfs.OpSyncDir, Delay: time.Hour, Times: vfs.Always})
			replaced := make(chan error, 1)
			go func() { replaced <- replace(l) }()
			time.Sleep(5 * time.Minute) // never at the moment at which the disk is done
			for met := 0; ; time.Sleep(10 * time.Minute) {
				if len(replaced) > 0 {
					require.NoError(t, <-replaced)
					require.Greater(t, met, 3, name)
					break
				}
				if _, deleted := logFilesOf(t, disk); deleted == 0 {
					continue
				}
				met++
				start := time.Now()
				for from := range int64(7) {
					p, err := l.readSegments(nil, from, 1)
					require.NoError(t, err)
					require.NotEmpty(t, p)
				}
				aborted, err := l.AbortedTxns(0, 100)
				require.NoError(t, err)
				require.Len(t, aborted, 1)
				_, _, err = l.OffsetForTimestamp(time.UnixMilli(math.MaxInt32))
				require.NoError(t, err)
				require.Zero(t, time.Since(start), name)
			}
			_, deleted := logFilesOf(t, disk)
			require.Zero(t, deleted, name)
			stop()
			require.NoError(t, l.Close())
		})
	}
}
