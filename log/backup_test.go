package log

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/segment"
	"github.com/stratalog/strata/vfs"
)

func segmentsOf(t *testing.T, fsys vfs.FS, dir string) (names []string) {
	t.Helper()
	entries, err := fsys.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), segment.LogSuffix) {
			names = append(names, e.Name())
		}
	}
	return names
}

// openBackup returns the records of the copy, and false if there is none.
func openBackup(t *testing.T, fsys vfs.FS, cfg Config) (got []string, start int64, ok bool) {
	t.Helper()
	if entries, err := fsys.ReadDir("backup"); errors.Is(err, fs.ErrNotExist) || err == nil && len(entries) == 0 {
		return nil, 0, false
	}
	cfg.FS = fsys
	b, err := Open("backup", cfg)
	require.NoError(t, err)
	defer func() { require.NoError(t, b.Close()) }()
	require.Equal(t, b.EndOffset(), b.DurableOffset())
	return values(t, b), b.StartOffset(), true
}

// A crash before any call leaves a complete copy or none. The original log is unchanged, as if no
// backup had run.
func TestCrashDuringBackupLeavesAWholeCopyOrNone(t *testing.T) {
	t.Parallel()
	for _, policy := range []SyncPolicy{SyncOnAck, SyncNever} {
		t.Run(fmt.Sprint(policy), func(t *testing.T) {
			t.Parallel()
			disk := vfs.Mem()
			cfg := Config{FS: disk, SegmentBytes: 1000, Sync: policy}
			l, err := Open("log", cfg)
			require.NoError(t, err)
			fill(t, l, 40)
			require.NoError(t, l.DeleteRecords(7))
			require.NoError(t, l.SetLeaderEpoch(3))
			fill(t, l, 5)
			var one sync.Mutex // guards the counters: segments that were rolled are synced in the background
			want, states, whole := values(t, l), 0, 0
			check := func(at *vfs.MemFS, what string) {
				states++
				got, start, ok := openBackup(t, at, cfg)
				if !ok {
					return
				}
				whole++
				require.Equal(t, want, got, what)
				require.EqualValues(t, 7, start, what)
				if policy != SyncOnAck {
					return
				}
				again := cfg
				again.FS = at
				o, err := Open("log", again)
				require.NoError(t, err, what)
				require.Equal(t, want, values(t, o), what)
				require.NoError(t, o.Close())
			}
			remove := disk.Observe(vfs.Observer{Before: func(e vfs.Event) {
				if e.Op&vfs.OpChange == 0 {
					return
				}
				one.Lock()
				defer one.Unlock()
				check(disk.Kill(), "killed before "+e.String())
				for seed := range uint64(4) {
					check(disk.Crash(seed), fmt.Sprintf("power cut %d before %s", seed, e))
				}
				check(disk.CrashWith(vfs.CrashOptions{Data: vfs.CrashLost, Sizes: vfs.CrashLost, Entries: vfs.CrashKept}), "names only, before "+e.String())
				check(disk.CrashWith(vfs.CrashOptions{Data: vfs.CrashTorn, Sizes: vfs.CrashKept, Entries: vfs.CrashKept}), "torn, before "+e.String())
			}})
			require.NoError(t, l.Backup(t.Context(), nil, "backup"))
			remove()
			one.Lock()
			require.Greater(t, states, 50)
			before := whole
			for seed := range uint64(20) {
				check(disk.Crash(seed), fmt.Sprintf("power cut %d afterwards", seed))
			}
			check(disk.CrashWith(vfs.CrashOptions{Data: vfs.CrashLost, Sizes: vfs.CrashLost, Entries: vfs.CrashLost}), "all that was not synced lost, afterwards")
			require.Equal(t, before+21, whole, "it survives whatever comes once Backup has returned")
			one.Unlock()
			require.NoError(t, l.Close())
		})
	}
}

// A hard link is the same file: truncation cuts sealed segments in place, and a copy appends to
// its last segment. So the original and the copy share no file.
func TestOriginalAndBackupCannotChangeEachOther(t *testing.T) {
	t.Parallel()
	disk := vfs.Mem()
	cfg := Config{FS: disk, SegmentBytes: 1000}
	l, err := Open("log", cfg)
	require.NoError(t, err)
	fill(t, l, 60)
	require.Greater(t, len(segmentsOf(t, disk, "log")), 3)
	want := values(t, l)
	require.NoError(t, l.Backup(t.Context(), nil, "backup"))
	require.NoError(t, l.TruncateTo(5)) // inside of the first segment
	fill(t, l, 3)
	cut := values(t, l)
	require.Len(t, cut, 8)
	b, err := Open("backup", cfg)
	require.NoError(t, err)
	require.True(t, b.Recovery().Clean)
	require.Equal(t, want, values(t, b), "the original was cut, not the copy")
	require.NoError(t, b.TruncateTo(2))
	fill(t, b, 20)
	require.NoError(t, b.Close())
	require.Equal(t, cut, values(t, l), "the copy was cut, not the original")
	require.NoError(t, l.Close())
	l, err = Open("log", cfg)
	require.NoError(t, err)
	require.Equal(t, cut, values(t, l))
	require.NoError(t, l.Close())
}

func TestBackupOfALogThatIsCutMeanwhileIsThatOfTheCutLog(t *testing.T) {
	t.Parallel()
	disk := vfs.Mem()
	cfg := Config{FS: disk, SegmentBytes: 1000}
	l, err := Open("log", cfg)
	require.NoError(t, err)
	fill(t, l, 60)
	cut := false
	remove := disk.Observe(vfs.Observer{Before: func(e vfs.Event) {
		if e.Op == vfs.OpWrite && strings.Contains(e.Name, partialSuffix) && strings.HasSuffix(e.Name, "28.log") && !cut {
			cut = true
			require.NoError(t, l.TruncateTo(12))
			fill(t, l, 30)
		}
	}})
	require.NoError(t, l.Backup(t.Context(), nil, "backup"))
	remove()
	require.True(t, cut, segmentsOf(t, disk, "log"))
	got, _, ok := openBackup(t, disk, cfg)
	require.True(t, ok)
	require.Equal(t, values(t, l), got, "nothing of before the cut is mixed in")
	require.NoError(t, l.Close())
}

func TestBackupOfALogThatIsCutAgainAndAgainSaysSo(t *testing.T) {
	t.Parallel()
	disk := vfs.Mem()
	cfg := Config{FS: disk, SegmentBytes: 1000}
	l, err := Open("log", cfg)
	require.NoError(t, err)
	fill(t, l, 60)
	cuts := 0
	stop := disk.Observe(vfs.Observer{Before: func(e vfs.Event) {
		if e.Op == vfs.OpWrite && strings.Contains(e.Name, partialSuffix) && strings.HasSuffix(e.Name, "28.log") {
			cuts++
			require.NoError(t, l.TruncateTo(40))
			fill(t, l, 20)
		}
	}})
	require.ErrorIs(t, l.Backup(t.Context(), nil, "backup"), ErrChanged)
	stop()
	require.Equal(t, backupAttempts, cuts)
	entries, err := disk.ReadDir(".")
	require.NoError(t, err)
	require.Len(t, entries, 1, "nothing is left but the log")
	require.NoError(t, l.Backup(t.Context(), nil, "backup"))
	got, _, ok := openBackup(t, disk, cfg)
	require.True(t, ok)
	require.Equal(t, values(t, l), got)
	require.NoError(t, l.Close())
}

func TestAppendsGoOnDuringABackup(t *testing.T) {
	t.Parallel()
	disk := vfs.Mem()
	cfg := Config{FS: disk, SegmentBytes: 1000}
	l, err := Open("log", cfg)
	require.NoError(t, err)
	fill(t, l, 40)
	want := values(t, l)
	appended := 0
	remove := disk.Observe(vfs.Observer{Before: func(e vfs.Event) {
		if e.Op == vfs.OpWrite && strings.Contains(e.Name, partialSuffix) {
			appended++
			fill(t, l, 1) // on this goroutine: it would never return if the backup blocked appends
		}
	}})
	require.NoError(t, l.Backup(t.Context(), nil, "backup"))
	remove()
	require.Greater(t, appended, 3)
	got, _, _ := openBackup(t, disk, cfg)
	require.Equal(t, want, got, "what it was when the backup began")
	require.Len(t, values(t, l), len(want)+appended)
	require.NoError(t, l.Close())
}

func TestBackupRefusesWhatIsNotEmptyAndWhatIsDamaged(t *testing.T) {
	t.Parallel()
	disk, elsewhere := vfs.Mem(), vfs.Mem()
	cfg := Config{FS: disk, SegmentBytes: 1000}
	l, err := Open("log", cfg)
	require.NoError(t, err)
	fill(t, l, 40)
	require.NoError(t, vfs.MakeDir(disk, "used", 0o755))
	require.NoError(t, vfs.WriteFile(disk, "used/file", []byte("x")))
	require.ErrorIs(t, l.Backup(t.Context(), nil, "used"), fs.ErrExist)
	require.ErrorIs(t, l.Backup(t.Context(), nil, ""), fs.ErrInvalid)
	require.NoError(t, vfs.MakeDir(disk, "backup", 0o755))
	require.NoError(t, l.Backup(t.Context(), nil, "backup"), "an empty one is fine")
	require.NoError(t, l.Backup(t.Context(), elsewhere, "backup"), "another file system too")
	got, _, _ := openBackup(t, elsewhere, cfg)
	require.Equal(t, values(t, l), got)

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, l.Backup(ctx, nil, "cancelled"), context.Canceled)
	name := "log/" + segmentsOf(t, disk, "log")[1]
	damage(t, disk, name, 200)
	var damaged *CorruptError
	require.ErrorAs(t, l.Backup(t.Context(), nil, "of-damaged"), &damaged)
	entries, err := disk.ReadDir(".")
	require.NoError(t, err)
	for _, e := range entries {
		require.NotContains(t, e.Name(), partialSuffix, "nothing is left of a failed backup")
	}
	_ = l.Close()
	require.ErrorIs(t, l.Backup(t.Context(), nil, "late"), ErrClosed)
}

// damage inverts one byte of a file.
func damage(t *testing.T, fsys vfs.FS, name string, at int64) {
	t.Helper()
	f, err := fsys.OpenFile(name, os.O_RDWR, 0)
	require.NoError(t, err)
	var b [1]byte
	_, err = f.ReadAt(b[:], at)
	require.NoError(t, err)
	b[0] = ^b[0]
	_, err = f.WriteAt(b[:], at)
	require.NoError(t, errors.Join(err, f.Close()))
}
