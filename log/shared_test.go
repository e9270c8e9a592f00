package log

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/segment"
	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/log/internal/journal"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/vfs"
)

// sharing is a directory whose logs always share their syncs, and some logs of it.
type sharing struct {
	fs   *vfs.MemFS
	dir  *Directory
	logs []*Log
}

func openSharing(t *testing.T, fsys *vfs.MemFS, n int) *sharing {
	t.Helper()
	d, err := OpenDirectory(sharedDir, DirectoryConfig{FS: fsys, JournalBytes: 64 << 10})
	require.NoError(t, err)
	require.NoError(t, d.alwaysShare())
	s := &sharing{fs: fsys, dir: d}
	for i := range n {
		s.logs = append(s.logs, s.open(t, i))
	}
	return s
}

func (s *sharing) open(t *testing.T, i int) *Log {
	t.Helper()
	l, err := Open(logPath(i), Config{FS: s.fs, Dir: s.dir})
	require.NoError(t, err)
	return l
}

// append appends a record to each log, in one shared round if they arrive together, and returns
// the errors.
func (s *sharing) append(value string) error {
	errs := make([]error, len(s.logs))
	var wg sync.WaitGroup
	for i, l := range s.logs {
		wg.Go(func() { _, errs[i] = l.Append(context.Background(), record.Record{Value: []byte(value)}) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

func (s *sharing) close(t *testing.T) {
	t.Helper()
	for _, l := range s.logs {
		require.NoError(t, l.Close())
	}
	require.NoError(t, s.dir.Close())
}

func exists(t *testing.T, fsys vfs.FS, name string) bool {
	t.Helper()
	_, err := fsys.Stat(filepath.Join(sharedDir, name))
	if !errors.Is(err, fs.ErrNotExist) {
		require.NoError(t, err)
	}
	return err == nil
}

func lostAll() vfs.CrashOptions {
	return vfs.CrashOptions{Data: vfs.CrashLost, Sizes: vfs.CrashLost, Entries: vfs.CrashLost}
}

// sharedValues returns the values of a log.
func sharedValues(t *testing.T, l *Log) (vs []string) {
	t.Helper()
	for r, err := range l.Records(l.StartOffset()) {
		require.NoError(t, err)
		if vs = append(vs, string(r.Value)); r.Offset == l.EndOffset()-1 {
			break
		}
	}
	return vs
}

// valuesAfter opens the directory, returns the values of one of its logs, and closes both.
func valuesAfter(t *testing.T, fsys vfs.FS, i int) []string {
	t.Helper()
	d, err := OpenDirectory(sharedDir, DirectoryConfig{FS: fsys})
	require.NoError(t, err)
	l, err := Open(logPath(i), Config{FS: fsys, Dir: d})
	require.NoError(t, err)
	if l.EndOffset() == l.StartOffset() {
		require.NoError(t, errors.Join(l.Close(), d.Close()))
		return nil
	}
	vs := sharedValues(t, l)
	require.NoError(t, errors.Join(l.Close(), d.Close()))
	return vs
}

// Checklist row D21: records that were acknowledged with a sync of only the journal survive a
// power cut that loses the bytes of their segments.
func TestAppendsToManyLogsShareASyncAndSurviveAPowerCut(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		disk := vfs.Mem() // each sync takes long enough for all other appends to arrive
		disk.Inject(vfs.Fault{Ops: vfs.OpSync, Times: vfs.Always, Delay: time.Millisecond})
		s := openSharing(t, disk, 6)
		require.NoError(t, s.append("first"))
		before := s.fs.Count(vfs.OpSync)
		for range 10 {
			require.NoError(t, s.append("more"))
		}
		require.LessOrEqual(t, s.fs.Count(vfs.OpSync)-before, int64(20), "two each time: of the first append, and of those that came meanwhile")
		require.Zero(t, s.logs[0].Stats().Syncs, "of the log's own files")
		require.Equal(t, s.logs[0].EndOffset(), s.logs[0].DurableOffset())
		cut := s.fs.CrashWith(lostAll())
		d, err := OpenDirectory(sharedDir, DirectoryConfig{FS: cut})
		require.NoError(t, err)
		require.False(t, exists(t, cut, journalFile), "recovery has emptied it")
		for i := range s.logs {
			l, err := Open(logPath(i), Config{FS: cut, Dir: d})
			require.NoError(t, err)
			require.Len(t, sharedValues(t, l), 11)
			require.Positive(t, l.Recovery().JournalBytes)
			require.Zero(t, l.Recovery().CutBytes)
			require.NoError(t, l.Close())
		}
		require.NoError(t, d.Close())
		s.close(t)
		require.False(t, exists(t, s.fs, journalFile), "closed in order: Kafka's files are all there is")
		require.Len(t, valuesAfter(t, s.fs.CrashWith(lostAll()), 3), 11)
	})
}

// One or two busy logs sync their own files: no journal.
func TestFewBusyLogsSyncForThemselves(t *testing.T) {
	t.Parallel()
	fsys := vfs.Mem()
	d, err := OpenDirectory(sharedDir, DirectoryConfig{FS: fsys})
	require.NoError(t, err)
	d.syncer.journal.busyTimes = 1
	s := &sharing{fs: fsys, dir: d}
	for i := range 2 {
		s.logs = append(s.logs, s.open(t, i))
	}
	for range 100 {
		require.NoError(t, s.append("value"))
	}
	require.False(t, exists(t, fsys, journalFile))
	s.close(t)
}

// Many busy logs get a journal automatically.
func TestManyBusyLogsGetAJournal(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		fsys := vfs.Mem()
		fsys.Inject(vfs.Fault{Ops: vfs.OpSync, Times: vfs.Always, Delay: time.Millisecond})
		d, err := OpenDirectory(sharedDir, DirectoryConfig{FS: fsys, JournalBytes: 64 << 10})
		require.NoError(t, err)
		s := &sharing{fs: fsys, dir: d}
		for i := range 8 {
			s.logs = append(s.logs, s.open(t, i))
		}
		for range 40 {
			require.NoError(t, s.append("value"))
		}
		require.True(t, d.syncer.journal.ready())
		before, begin := fsys.Count(vfs.OpSync), time.Now()
		for range 50 {
			require.NoError(t, s.append("value"))
		}
		require.Less(t, fsys.Count(vfs.OpSync)-before, int64(200), "for 400 appends")
		require.Less(t, time.Since(begin), 150*time.Millisecond, "about one sync, of 1 ms, each time")
		s.close(t)
	})
}

// An idle journal is emptied: its records are in the logs' own files.
func TestAnIdleJournalIsEmptied(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := openSharing(t, vfs.Mem(), 3)
		require.NoError(t, s.append("value"))
		c, err := journal.Load(s.fs, filepath.Join(sharedDir, journalFile))
		require.NoError(t, err)
		require.NotEmpty(t, c.Entries)
		time.Sleep(3 * journalIdle)
		synctest.Wait()
		c, err = journal.Load(s.fs, filepath.Join(sharedDir, journalFile))
		require.NoError(t, err)
		require.Empty(t, c.Entries)
		cut := s.fs.CrashWith(lostAll())
		require.NoError(t, cut.Remove(filepath.Join(sharedDir, journalFile)))
		require.NoError(t, cut.Remove(filepath.Join(sharedDir, markFile)))
		require.Equal(t, []string{"value"}, valuesAfter(t, cut, 1))
		require.NoError(t, s.append("another"))
		s.close(t)
	})
}

// When the journal cannot be written, every log is as safe as without it.
func TestAFailedJournalFallsBackToTheLogsOwnSyncs(t *testing.T) {
	t.Parallel()
	for _, op := range []vfs.Op{vfs.OpWrite, vfs.OpSync} {
		s := openSharing(t, vfs.Mem(), 4)
		require.NoError(t, s.append("first"))
		s.fs.Inject(vfs.Fault{Ops: op, Pattern: journalFile + "*", Err: syscall.EIO, Times: vfs.Always})
		require.NoError(t, s.append("second"))
		cut := s.fs.CrashWith(lostAll())
		for i := range s.logs {
			require.Equal(t, []string{"first", "second"}, valuesAfter(t, cut.Kill(), i))
		}
		require.NoError(t, s.append("third"))
		require.False(t, s.dir.syncer.journal.ready())
		cut = s.fs.CrashWith(lostAll())
		for i := range s.logs {
			require.Equal(t, []string{"first", "second", "third"}, valuesAfter(t, cut.Kill(), i))
		}
		s.close(t)
		require.False(t, exists(t, s.fs, journalFile), "all logs were closed in order")
	}
}

// A log whose file fails breaks. Its acknowledged records are in the journal, and stay there.
func TestALogThatCannotSyncItsFileKeepsWhatTheJournalHas(t *testing.T) {
	t.Parallel()
	s := openSharing(t, vfs.Mem(), 3)
	require.NoError(t, s.append("first"))
	s.fs.Inject(vfs.Fault{Ops: vfs.OpSync, Pattern: "00000000000000000000.log", Err: syscall.EIO})
	require.ErrorIs(t, s.dir.drainJournal(), syscall.EIO)
	var broken int
	for _, l := range s.logs {
		_, err := l.Append(context.Background(), record.Record{Value: []byte("second")})
		if err != nil {
			broken++
			require.ErrorIs(t, err, syscall.EIO)
			require.ErrorIs(t, l.Close(), syscall.EIO)
			continue
		}
		require.NoError(t, l.Close())
	}
	require.Equal(t, 1, broken, "other logs go on")
	d := s.dir
	// Opened again in the same process, and after a power cut: the record is there.
	for i := range s.logs {
		s.logs[i] = s.open(t, i)
		require.Equal(t, "first", sharedValues(t, s.logs[i])[0])
	}
	cut := s.fs.CrashWith(lostAll())
	for i := range s.logs {
		require.Equal(t, "first", valuesAfter(t, cut.Kill(), i)[0])
		require.NoError(t, s.logs[i].Close())
	}
	require.NoError(t, d.Close())
	require.True(t, exists(t, s.fs, journalFile), "a log was not closed in order")
	for i := range s.logs {
		require.Equal(t, "first", valuesAfter(t, s.fs, i)[0])
	}
	require.False(t, exists(t, s.fs, journalFile))
}

// A journal that is emptied between its sync and the acknowledgements keeps the synced records:
// they are in the logs' files.
func TestAJournalEmptiedBeforeTheAcknowledgementLosesNothing(t *testing.T) {
	t.Parallel()
	s := openSharing(t, vfs.Mem(), 3)
	var drained atomic.Bool
	s.fs.Observe(vfs.Observer{After: func(e vfs.Event, _ error) {
		if e.Op == vfs.OpSync && filepath.Base(e.Name) == journalFile+".tmp" && drained.CompareAndSwap(false, true) {
			if err := s.dir.drainJournal(); err != nil {
				t.Error(err)
			}
		}
	}})
	require.NoError(t, s.append("value"))
	require.True(t, drained.Load())
	cut := s.fs.CrashWith(lostAll())
	for i := range s.logs {
		require.Equal(t, []string{"value"}, valuesAfter(t, cut.Kill(), i))
	}
	s.close(t)
}

// Large rounds are written only once, to the logs' own files.
func TestLargeRoundsAreSyncedByThemselves(t *testing.T) {
	t.Parallel()
	s := openSharing(t, vfs.Mem(), 3)
	require.NoError(t, s.append(string(make([]byte, journalRound))))
	require.Zero(t, s.dir.syncer.journal.current.Frames())
	require.Len(t, valuesAfter(t, s.fs.CrashWith(lostAll()), 2), 1)
	s.close(t)
}

// A broker that has since worked in the directory has recovered the logs in its way: the journal
// is kept, and not replayed.
func TestAJournalIsNotReplayedIntoWhatKafkaHasRecovered(t *testing.T) {
	t.Parallel()
	segmentFile := filepath.Join(logPath(0), "00000000000000000000.log")
	crashed := func(t *testing.T) *vfs.MemFS {
		s := openSharing(t, vfs.Mem(), 2)
		require.NoError(t, s.append("first"))
		for _, l := range s.logs {
			require.NoError(t, l.syncNow())
			// The state is written: the journal's earlier entries are void.
			require.NoError(t, l.DeleteRecords(1))
		}
		require.NoError(t, s.append("ours"))
		cut := s.fs.CrashWith(lostAll())
		s.close(t)
		return cut
	}
	aside := func(t *testing.T, fsys vfs.FS) {
		names, err := fsys.ReadDir(sharedDir)
		require.NoError(t, err)
		kept := 0
		for _, e := range names {
			if filepath.Ext(e.Name()) == ".aside" {
				kept++
			}
		}
		require.Equal(t, 1, kept)
		require.False(t, exists(t, fsys, journalFile))
	}
	t.Run("checkpoints", func(t *testing.T) {
		cut := crashed(t)
		require.NoError(t, vfs.WriteFile(cut, filepath.Join(sharedDir, recoveryPointFile), []byte("0\n1\ntopic 0 1\n")))
		require.Equal(t, []string(nil), valuesAfter(t, cut, 0))
		aside(t, cut)
	})
	t.Run("other batches", func(t *testing.T) {
		cut := crashed(t)
		theirs := appended(t, cut, segmentFile, "theirs")
		require.Equal(t, []string{"theirs"}, valuesAfter(t, theirs, 0))
		aside(t, theirs)
		require.Equal(t, []string{"ours"}, valuesAfter(t, cut, 1), "without that")
	})
	t.Run("an older copy of the file", func(t *testing.T) {
		cut := crashed(t)
		f, err := cut.OpenFile(segmentFile, os.O_RDWR, 0)
		require.NoError(t, err)
		require.NoError(t, f.Truncate(20))
		require.NoError(t, f.Close())
		d, err := OpenDirectory(sharedDir, DirectoryConfig{FS: cut})
		require.NoError(t, err)
		aside(t, cut)
		require.NoError(t, d.Close())
	})
}

// appended returns a copy of fsys with a batch behind the first one of a segment.
func appended(t *testing.T, fsys *vfs.MemFS, name, value string) *vfs.MemFS {
	t.Helper()
	fsys = fsys.Kill()
	p, err := vfs.ReadFile(fsys, name)
	require.NoError(t, err)
	first, size, err := record.Parse(p)
	require.NoError(t, err)
	var b record.Builder
	b.Append(&record.Record{Value: []byte(value)})
	batch, err := b.Build(record.None)
	require.NoError(t, err)
	record.SetBaseOffset(batch, first.NextOffset())
	f, err := fsys.OpenFile(name, os.O_RDWR, 0)
	require.NoError(t, err)
	_, err = f.WriteAt(batch, int64(size))
	require.NoError(t, errors.Join(err, f.Sync(), f.Close()))
	return fsys
}

// A log is not opened alone while the journal beside it may have records that its files lack. A
// read-only open fails if the files do lack them.
func TestALogAloneIsRefusedUntilItsDirectorysJournalIsReplayed(t *testing.T) {
	t.Parallel()
	s := openSharing(t, vfs.Mem(), 2)
	require.NoError(t, s.append("value"))
	killed, cut := s.fs.Kill(), s.fs.CrashWith(lostAll())
	s.close(t)
	for _, fsys := range []*vfs.MemFS{killed, cut} {
		_, err := Open(logPath(0), Config{FS: fsys})
		require.ErrorIs(t, err, ErrJournaled)
	}
	l, err := OpenReadOnly(logPath(0), Config{FS: killed})
	require.NoError(t, err, "the process died, the files have everything")
	require.Equal(t, []string{"value"}, sharedValues(t, l))
	require.NoError(t, l.Close())
	_, err = OpenReadOnly(logPath(0), Config{FS: cut})
	require.ErrorIs(t, err, ErrJournaled)
	require.Equal(t, []string{"value"}, valuesAfter(t, cut, 1), "the directory")
	l, err = Open(logPath(0), Config{FS: cut})
	require.NoError(t, err)
	require.Equal(t, []string{"value"}, sharedValues(t, l))
	require.NoError(t, l.Close())
}

func TestADamagedOrNewerJournalIsRefused(t *testing.T) {
	t.Parallel()
	s := openSharing(t, vfs.Mem(), 2)
	for range 4 {
		require.NoError(t, s.append("value"))
	}
	path := filepath.Join(sharedDir, journalFile)
	damage := func(pos int64, p ...byte) *vfs.MemFS {
		fsys := s.fs.Kill()
		f, err := fsys.OpenFile(path, os.O_RDWR, 0)
		require.NoError(t, err)
		_, err = f.WriteAt(p, pos)
		require.NoError(t, errors.Join(err, f.Close()))
		return fsys
	}
	_, err := OpenDirectory(sharedDir, DirectoryConfig{FS: damage(4096+70, 1, 2, 3)})
	var corrupt *CorruptError
	require.ErrorAs(t, err, &corrupt)
	require.Equal(t, path, corrupt.Path)
	_, err = OpenDirectory(sharedDir, DirectoryConfig{FS: damage(11, 9)})
	require.ErrorIs(t, err, ErrNewerFormat)
	s.close(t)
}

// A log that leaves SyncOnAck has its files synced: from then on it may roll without a sync.
func TestLeavingSyncOnAckTakesTheJournalsPartIntoTheFiles(t *testing.T) {
	t.Parallel()
	s := openSharing(t, vfs.Mem(), 2)
	require.NoError(t, s.append("value"))
	require.NoError(t, s.logs[0].Reconfigure(Config{Sync: SyncNever}))
	// The closed segment is synced in the background: it must be complete before that.
	hold := make(chan struct{})
	stop := s.fs.Observe(vfs.Observer{Before: func(e vfs.Event) {
		if e.Op == vfs.OpSync && strings.HasSuffix(e.Name, segment.LogSuffix) {
			<-hold
		}
	}})
	require.NoError(t, s.logs[0].Roll())
	disk := s.fs.CrashWith(lostAll())
	close(hold)
	stop()
	require.Equal(t, []string{"value"}, valuesAfter(t, disk, 0))
	s.close(t)
}

// A copy of a log does not need the journal of the original.
func TestABackupIsWholeWithoutTheJournal(t *testing.T) {
	t.Parallel()
	s := openSharing(t, vfs.Mem(), 2)
	require.NoError(t, s.append("value"))
	other := vfs.Mem()
	require.NoError(t, s.logs[0].Backup(t.Context(), other, "copy"))
	l, err := Open("copy", Config{FS: other.CrashWith(lostAll())})
	require.NoError(t, err)
	require.Equal(t, []string{"value"}, sharedValues(t, l))
	require.NoError(t, l.Close())
	s.close(t)
}

// Each call of a directory with a journal fails once: no acknowledged record is lost.
func TestSharedSyncsSurviveAFaultAtEveryCall(t *testing.T) {
	t.Parallel()
	for after := 0; ; after++ {
		s := openSharing(t, vfs.Mem(), 3)
		var hit atomic.Bool
		stop := s.fs.Observe(vfs.Observer{After: func(_ vfs.Event, err error) {
			if errors.Is(err, syscall.EIO) {
				hit.Store(true)
			}
		}})
		s.fs.Inject(vfs.Fault{Ops: vfs.OpWrite | vfs.OpSync | vfs.OpSyncDir, After: after, Err: syscall.EIO})
		acked := make([][]string, len(s.logs))
		for k := range 12 {
			for i, l := range s.logs {
				if _, err := l.Append(context.Background(), record.Record{Value: []byte{byte('a' + k)}}); err == nil {
					acked[i] = append(acked[i], string(rune('a'+k)))
				}
			}
			if k == 6 {
				_ = s.dir.drainJournal()
			}
		}
		stop()
		cut := s.fs.CrashWith(lostAll())
		for i, l := range s.logs {
			_ = l.Close()
			require.Subset(t, append(valuesAfter(t, cut.Kill(), i), ""), acked[i], "call %d, log %d", after, i)
		}
		_ = s.dir.Close()
		if !hit.Load() {
			return
		}
	}
}
