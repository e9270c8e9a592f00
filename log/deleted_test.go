package log_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/log"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/vfs"
)

// deletedFiles returns the names of the files that wait to be deleted.
func deletedFiles(t *testing.T, fsys vfs.FS, dir string) (names []string) {
	t.Helper()
	entries, err := fsys.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), ".deleted") {
			names = append(names, e.Name())
		}
	}
	return names
}

// openDelayed returns a log of four segments of five records with one key.
func openDelayed(t *testing.T, cfg log.Config) (*log.Log, *vfs.MemFS) {
	t.Helper()
	fsys := vfs.Mem()
	cfg.FS, cfg.DeleteDelay = fsys, time.Minute
	l, err := log.Open("log", cfg)
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() }) // also if the test fails
	for range 4 {
		for range 5 {
			_, err := l.Append(t.Context(), record.Record{Key: []byte("k"), Value: bytes.Repeat([]byte("v"), 200)})
			require.NoError(t, err)
		}
		require.NoError(t, l.Roll())
	}
	return l, fsys
}

func clean(t *testing.T, l *log.Log) error {
	t.Helper()
	_, err := l.Clean(context.Background())
	return err
}

func TestFilesOfRemovedSegmentsAreDeletedAfterTheDelay(t *testing.T) {
	compacted := log.Config{Cleanup: log.CleanupCompact, MinDirtyRatio: 0.01, RetentionAge: log.Unlimited}
	for name, c := range map[string]struct {
		cfg    log.Config
		remove func(t *testing.T, l *log.Log) error
		files  int
	}{
		"retention":   {log.Config{RetentionBytes: 1}, clean, 3},
		"compaction":  {compacted, clean, 4},
		"truncation":  {log.Config{}, func(_ *testing.T, l *log.Log) error { return l.TruncateTo(7) }, 3},
		"all of them": {log.Config{}, func(_ *testing.T, l *log.Log) error { return l.TruncateFully(100) }, 5},
		"records deleted": {log.Config{RetentionAge: log.Unlimited}, func(t *testing.T, l *log.Log) error {
			return errors.Join(l.DeleteRecords(12), clean(t, l))
		}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, fsys := openDelayed(t, c.cfg)
				require.NoError(t, c.remove(t, l))
				require.Len(t, deletedFiles(t, fsys, "log"), c.files)
				time.Sleep(59 * time.Second)
				synctest.Wait()
				require.Len(t, deletedFiles(t, fsys, "log"), c.files)
				time.Sleep(2 * time.Second)
				synctest.Wait()
				require.Empty(t, deletedFiles(t, fsys, "log"))
				require.NoError(t, l.Close())
			})
		})
	}
}

func TestShortenedDelayHoldsForWhatIsRemovedAfterwards(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, fsys := openDelayed(t, log.Config{RetentionAge: log.Unlimited})
		require.NoError(t, errors.Join(l.DeleteRecords(5), clean(t, l)))
		require.NoError(t, l.Reconfigure(log.Config{RetentionAge: log.Unlimited, DeleteDelay: time.Second}))
		require.NoError(t, errors.Join(l.DeleteRecords(10), clean(t, l)))
		require.Len(t, deletedFiles(t, fsys, "log"), 2)
		require.NoError(t, l.Reconfigure(log.Config{RetentionAge: log.Unlimited}))
		require.NoError(t, errors.Join(l.DeleteRecords(15), clean(t, l)))
		require.Len(t, deletedFiles(t, fsys, "log"), 2, "without a delay at once")
		time.Sleep(61 * time.Second)
		synctest.Wait()
		require.Empty(t, deletedFiles(t, fsys, "log"))
		require.NoError(t, l.Close())
	})
}

func TestFilesThatWaitAreLeftByCloseAndDeletedByTheNextOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, fsys := openDelayed(t, log.Config{RetentionBytes: 1})
		require.NoError(t, clean(t, l))
		require.NoError(t, l.Backup(t.Context(), nil, "backup"))
		require.Empty(t, deletedFiles(t, fsys, "backup"))
		require.NoError(t, l.Close())
		time.Sleep(time.Hour)
		synctest.Wait()
		require.Len(t, deletedFiles(t, fsys, "log"), 3, "a closed log does nothing")

		l, err := log.Open("log", log.Config{FS: fsys})
		require.NoError(t, err)
		require.Empty(t, deletedFiles(t, fsys, "log"))
		require.Equal(t, int64(15), l.StartOffset())
		require.NoError(t, l.Close())
	})
}

func TestFileThatCannotBeDeletedStaysUntilTheNextOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		l, fsys := openDelayed(t, log.Config{RetentionBytes: 1, Logger: slog.New(slog.NewTextHandler(&out, nil))})
		require.NoError(t, clean(t, l))
		heal := fsys.Inject(vfs.Fault{Ops: vfs.OpRemove, Pattern: "*.deleted", Times: vfs.Always, Err: errors.New("disk broken")})
		time.Sleep(61 * time.Second)
		synctest.Wait()
		require.Contains(t, out.String(), "disk broken")
		require.Len(t, deletedFiles(t, fsys, "log"), 3)
		heal()
		_, err := l.Append(t.Context(), record.Record{Value: []byte("v")})
		require.NoError(t, err, "the log goes on")
		require.NoError(t, l.Close())
		l, err = log.Open("log", log.Config{FS: fsys})
		require.NoError(t, err)
		require.Empty(t, deletedFiles(t, fsys, "log"))
		require.NoError(t, l.Close())
	})
}
