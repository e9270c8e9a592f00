package log

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/segment"
	"github.com/stratalog/strata/vfs"
)

// copyOf opens the copy of a cut as a log, and returns its records.
func copyOf(t *testing.T, c *Cut, fsys vfs.FS, dir string, cfg Config) (l *Log, dump string) {
	t.Helper()
	require.NoError(t, c.Backup(t.Context(), fsys, dir))
	c.Release()
	cfg.FS = fsys
	l, err := Open(dir, cfg)
	require.NoError(t, err)
	require.True(t, l.Recovery().Clean)
	return l, logDump(t, l)
}

// The copy of a cut has the records of the moment of the cut, regardless of later changes to the
// log. It includes records that were replaced by later ones of their keys, or deleted, and none
// that came later.
func TestCutIsWhatTheLogHeldWhateverComesAfter(t *testing.T) {
	t.Parallel()
	after := map[string]func(t *testing.T, l *Log){
		"appends": func(t *testing.T, l *Log) {
			for i := range 40 {
				appendKV(t, l, fmt.Sprintf("a=%d", i))
			}
		},
		"compaction": func(t *testing.T, l *Log) {
			for range 3 {
				appendKV(t, l, "a=new", "b=new", "c=new", "d=new")
			}
			require.NoError(t, l.Roll())
			require.Empty(t, clean(t, l).Compaction.Skipped)
			require.NotContains(t, logDump(t, l), "b=29")
		},
		"deletion":      func(t *testing.T, l *Log) { require.NoError(t, l.DeleteRecords(l.EndOffset()-1)); clean(t, l) },
		"a later epoch": func(t *testing.T, l *Log) { require.NoError(t, l.SetLeaderEpoch(9)); appendKV(t, l, "a=epoch 9") },
		"the end of all": func(t *testing.T, l *Log) {
			appendKV(t, l, "z=1")
			require.NoError(t, l.DeleteRecords(l.EndOffset()))
			clean(t, l)
		},
	}
	for name, change := range after {
		for _, rolled := range []bool{false, true} {
			t.Run(fmt.Sprint(name, ", rolled ", rolled), func(t *testing.T) {
				t.Parallel()
				disk := vfs.Mem()
				cfg := Config{SegmentBytes: 1000, Cleanup: CleanupCompact | CleanupDelete, MinDirtyRatio: 0.01}
				l := openClean(t, disk, cfg)
				require.NoError(t, l.SetLeaderEpoch(3))
				for i := range 30 {
					appendKV(t, l, fmt.Sprintf("%c=%d", 'a'+i%4, i))
				}
				require.NoError(t, l.DeleteRecords(5))
				if rolled {
					require.NoError(t, l.Roll())
				}
				want, start, end := logDump(t, l), l.StartOffset(), l.EndOffset()
				c, err := l.Cut()
				require.NoError(t, err)
				require.Equal(t, end, c.EndOffset())
				change(t, l)
				now := logDump(t, l)
				b, dump := copyOf(t, c, disk, "copy", cfg)
				require.Equal(t, want, dump)
				require.Equal(t, []int64{start, end}, []int64{b.StartOffset(), b.EndOffset()})
				epoch, _ := b.Epochs().Latest()
				require.EqualValues(t, 3, epoch)
				appendKV(t, b, "b=goes on")
				require.Contains(t, logDump(t, b), fmt.Sprint(want[strings.LastIndex(want, " "):], " ", end, ":b=goes on"))
				require.NoError(t, b.Close())
				require.Equal(t, now, logDump(t, l))
				require.NoError(t, l.Close())
			})
		}
	}
}

// Cuts are taken and copied while a writer appends, compacts and deletes. Each copy has
// consecutive records up to its end.
func TestCutsBesideAWriterAreWhole(t *testing.T) {
	t.Parallel()
	disk := vfs.Mem()
	cfg := Config{SegmentBytes: 500, Sync: SyncNever}
	l := openClean(t, disk, cfg)
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			appendKV(t, l, fmt.Sprintf("k=%d", i))
			if i%50 == 49 {
				_ = l.DeleteRecords(l.EndOffset() - 20)
				_, _ = l.Clean(t.Context())
			}
		}
	}()
	for i := range 30 {
		for from := l.EndOffset(); l.EndOffset() < from+20; {
			runtime.Gosched()
		}
		c, err := l.Cut()
		require.NoError(t, err)
		b, dump := copyOf(t, c, disk, fmt.Sprint("copy", i), cfg)
		var want []string
		for o := b.StartOffset(); o < b.EndOffset(); o++ {
			want = append(want, fmt.Sprintf("%d:k=%d", o, o))
		}
		require.Equal(t, strings.Join(want, " "), dump)
		require.NoError(t, b.Close())
	}
	close(stop)
	<-stopped
	require.NoError(t, l.Close())
}

func TestCutOfALogThatIsTruncatedSaysSo(t *testing.T) {
	t.Parallel()
	disk := vfs.Mem()
	l := openClean(t, disk, Config{SegmentBytes: 1000})
	fill(t, l, 30)
	c, err := l.Cut()
	require.NoError(t, err)
	require.NoError(t, l.TruncateTo(3))
	fill(t, l, 27)
	require.ErrorIs(t, c.Backup(t.Context(), disk, "copy"), ErrChanged)
	c.Release()
	_, err = disk.Stat("copy")
	require.Error(t, err)

	c, err = l.Cut()
	require.NoError(t, err)
	require.NoError(t, l.Close())
	require.ErrorIs(t, c.Backup(t.Context(), disk, "copy"), ErrClosed)
	c.Release()
	_, err = l.Cut()
	require.ErrorIs(t, err, ErrClosed)
}

// Segments that were removed from the log stay on the disk until the cut is released.
func TestReleaseOfACutGivesTheDiskBack(t *testing.T) {
	t.Parallel()
	disk := vfs.Mem()
	l := openClean(t, disk, Config{SegmentBytes: 1000})
	fill(t, l, 60)
	files := func() int {
		entries, err := disk.ReadDir(bedDir)
		require.NoError(t, err)
		return len(entries)
	}
	c, err := l.Cut()
	require.NoError(t, err)
	require.NoError(t, l.DeleteRecords(l.EndOffset()))
	before := files()
	l.Clean(t.Context())
	held := files()
	c.Release()
	c.Release()
	require.Greater(t, held, files()+2)
	require.Greater(t, before, files()+2)
	require.NoError(t, l.Close())
}

// The segment that compaction puts in the place of another has the same name. Its index files are
// wrong for the replaced segment.
func TestCopyHasNoIndexOfAnotherSegment(t *testing.T) {
	t.Parallel()
	disk := vfs.Mem()
	cfg := Config{SegmentBytes: 20000, Cleanup: CleanupCompact, MinDirtyRatio: 0.01}
	cfg.IndexIntervalBytes = 100
	l := openClean(t, disk, cfg)
	for i := range 100 {
		appendKV(t, l, fmt.Sprintf("%c=%d", 'a'+i%50, i))
	}
	require.NoError(t, l.Roll())
	c, err := l.Cut()
	require.NoError(t, err)
	require.Empty(t, clean(t, l).Compaction.Skipped)
	require.NoError(t, c.Backup(t.Context(), disk, "copy"))
	c.Release()
	index := segment.FileName(0, segment.IndexSuffix)
	now, err := vfs.ReadFile(disk, bedDir+"/"+index)
	require.NoError(t, err)
	require.NotEmpty(t, now)
	copied, err := vfs.ReadFile(disk, "copy/"+index)
	if err == nil {
		require.NotEqual(t, now, copied)
	}
	require.NoError(t, l.Close())
}
