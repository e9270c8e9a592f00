package log

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/log/internal/manifest"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/vfs"
)

// closedLog makes a log of some segments and closes it.
func closedLog(t *testing.T) (disk *vfs.MemFS, want []string) {
	t.Helper()
	disk = vfs.Mem()
	l, err := Open("log", Config{FS: disk, SegmentBytes: 1000})
	require.NoError(t, err)
	fill(t, l, 50)
	require.Greater(t, len(l.Segments()), 3)
	want = values(t, l)
	require.NoError(t, l.Close())
	return disk, want
}

func TestMissingSegmentIsAnErrorThatNamesIt(t *testing.T) {
	t.Parallel()
	disk, _ := closedLog(t)
	entries, err := disk.ReadDir("log")
	require.NoError(t, err)
	n := 0
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".log") {
			continue
		}
		n++
		other := disk.Kill()
		require.NoError(t, other.Remove(filepath.Join("log", e.Name())))
		_, err := Open("log", Config{FS: other})
		require.ErrorIs(t, err, ErrMissingSegment)
		require.ErrorContains(t, err, e.Name())
	}
	require.Greater(t, n, 3)
}

func TestMissingAndForeignFilesBesideTheSegmentsDoNoHarm(t *testing.T) {
	t.Parallel()
	disk, want := closedLog(t)
	entries, err := disk.ReadDir("log")
	require.NoError(t, err)
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), "index") {
			require.NoError(t, disk.Remove(filepath.Join("log", e.Name())))
		}
	}
	require.NoError(t, vfs.WriteFile(disk, "log/notes.txt", []byte("mine")))
	require.NoError(t, vfs.WriteFile(disk, "log/123.log", []byte("not a segment's name")))
	l, err := Open("log", Config{FS: disk, SegmentBytes: 1000})
	require.NoError(t, err)
	require.Equal(t, want, values(t, l))
	for i := range int64(50) {
		p, err := l.Read(nil, i, 1)
		require.NoError(t, err)
		b, _, err := record.Parse(p)
		require.NoError(t, err)
		require.Equal(t, i, b.BaseOffset)
	}
	offset, err := l.OffsetAt(time.Unix(0, 0))
	require.NoError(t, err)
	require.Zero(t, offset)
	require.NoError(t, l.Close())
	p, err := vfs.ReadFile(disk, "log/notes.txt")
	require.NoError(t, err)
	require.Equal(t, "mine", string(p))
}

func TestDamagedOrNewerStateIsRefusedWithAReason(t *testing.T) {
	t.Parallel()
	disk, _ := closedLog(t)
	path := filepath.Join("log", stateFile)
	good, err := vfs.ReadFile(disk, path)
	require.NoError(t, err)
	for bit := range 8 * len(good) {
		p := append([]byte(nil), good...)
		p[bit/8] ^= 1 << (bit % 8)
		_, err := manifest.Parse(p)
		require.Error(t, err, "bit %d", bit)
	}
	for n := range len(good) {
		_, err := manifest.Parse(good[:n])
		require.Error(t, err)
	}
	other := disk.Kill()
	p := append([]byte(nil), good...)
	p[len(p)-1]++
	require.NoError(t, vfs.WriteFile(other, path, p))
	_, err = Open("log", Config{FS: other})
	var corrupt *CorruptError
	require.ErrorAs(t, err, &corrupt)
	require.Equal(t, path, corrupt.Path)
	p = append([]byte(nil), good...)
	p[11] = 9
	require.NoError(t, vfs.WriteFile(other, path, p))
	_, err = Open("log", Config{FS: other})
	require.ErrorIs(t, err, ErrNewerFormat)
	require.ErrorContains(t, err, "open it with that version")
}

func TestDamageInTheMiddleIsReportedWhenItIsRead(t *testing.T) {
	t.Parallel()
	disk, _ := closedLog(t)
	f, err := disk.OpenFile("log/00000000000000000000.log", os.O_RDWR, 0)
	require.NoError(t, err)
	var b [1]byte
	_, err = f.ReadAt(b[:], 100)
	require.NoError(t, err)
	b[0] ^= 4
	_, err = f.WriteAt(b[:], 100)
	require.NoError(t, err)
	require.NoError(t, f.Close())
	l, err := Open("log", Config{FS: disk})
	require.NoError(t, err)
	_, err = l.Read(nil, 1, 1<<20)
	require.ErrorIs(t, err, ErrCorrupt)
	var corrupt *CorruptError
	require.ErrorAs(t, err, &corrupt)
	require.Contains(t, corrupt.Path, "00000000000000000000.log")
	last := l.EndOffset() - 1
	p, err := l.Read(nil, last, 1)
	require.NoError(t, err, "the rest can be read")
	require.NotEmpty(t, p)
	n := 0
	for _, err := range l.Records(0) {
		if err != nil {
			n++
			require.ErrorIs(t, err, ErrCorrupt)
		}
	}
	require.Equal(t, 1, n, "yielded once")
	require.NoError(t, l.Close())
}

func TestRecoveryFollowsTheSyncPolicyThatTheLogWasWrittenUnder(t *testing.T) {
	t.Parallel()
	for seed := range uint64(30) {
		disk := vfs.Mem()
		l, err := Open("log", Config{FS: disk, Sync: SyncNever})
		require.NoError(t, err)
		big := make([]byte, 200<<10)
		for range 3 {
			_, err = l.Append(t.Context(), record.Record{Value: big})
			require.NoError(t, err)
		}
		after := disk.Crash(seed)
		require.NoError(t, l.Close())
		// The second open has the stricter policy; gaps from before are no damage.
		again, err := Open("log", Config{FS: after, Sync: SyncOnAck})
		require.NoError(t, err, "seed %d", seed)
		require.Equal(t, again.EndOffset(), again.DurableOffset())
		require.NoError(t, again.Close())
	}
}

func TestBackupHoldsWhatWasThereAndIsALogOfItsOwn(t *testing.T) {
	t.Parallel()
	disk := vfs.Mem()
	l, err := Open("log", Config{FS: disk, SegmentBytes: 1000})
	require.NoError(t, err)
	fill(t, l, 40)
	require.NoError(t, l.DeleteRecords(7))
	require.NoError(t, l.SetLeaderEpoch(3))
	want := values(t, l)
	require.NoError(t, l.Backup(t.Context(), nil, "backup"))
	fill(t, l, 10)
	require.Error(t, l.Backup(t.Context(), nil, "backup"), "it is not empty")
	for i, at := range []*vfs.MemFS{disk.Crash(1), disk} {
		b, err := Open("backup", Config{FS: at, SegmentBytes: 1000})
		require.NoError(t, err)
		require.EqualValues(t, 7, b.StartOffset())
		require.Equal(t, want, values(t, b), i)
		epoch, _ := b.Epochs().Latest()
		require.EqualValues(t, 3, epoch)
		_, err = b.Append(t.Context(), record.String("", "", "more"))
		require.NoError(t, err)
		require.NoError(t, b.Close())
	}
	require.EqualValues(t, 50, l.EndOffset())
	require.Len(t, values(t, l), 43, "the log does not see what the backup got")
	require.NoError(t, l.Close())
}

func TestDeletedRecordsStayDeletedAfterAKillAndAPowerCut(t *testing.T) {
	t.Parallel()
	for seed := range uint64(10) {
		disk := vfs.Mem()
		l := openMem(t, disk)
		fill(t, l, 10)
		require.NoError(t, l.DeleteRecords(6))
		for _, at := range []*vfs.MemFS{disk.Kill(), disk.Crash(seed)} {
			again := openMem(t, at)
			require.EqualValues(t, 6, again.StartOffset())
			require.Equal(t, []string{"6", "7", "8", "9"}, values(t, again))
			require.NoError(t, again.Close())
		}
		require.NoError(t, l.Close())
	}
}

func TestReturnedAndGivenBytesAreNotShared(t *testing.T) {
	t.Parallel()
	l := openMem(t, vfs.Mem())
	value := []byte("value")
	_, err := l.Read(nil, 0, 1) // keeps the tail in memory
	require.NoError(t, err)
	for i := range 3 {
		_, err := l.Append(t.Context(), record.Record{Value: value})
		require.NoError(t, err)
		copy(value, fmt.Sprintf("chan%d", i)) // the caller owns the bytes again
		p, err := l.Read(nil, int64(i), 1)
		require.NoError(t, err)
		clear(p)
		copy(value, "value")
	}
	require.Equal(t, []string{"value", "value", "value"}, values(t, l))
	require.NoError(t, l.Close())
}

// Invalid values are rejected before any file is created.
func TestOpenRefusesWhatCannotBeMeant(t *testing.T) {
	t.Parallel()
	for _, cfg := range []Config{
		{Cleanup: 8}, {Cleanup: 255}, {IndexIntervalBytes: -1}, {IndexBytes: -1},
	} {
		disk := vfs.Mem()
		cfg.FS = disk
		_, err := Open("log", cfg)
		require.ErrorContains(t, err, "is out of range")
		_, err = disk.Stat("log")
		require.ErrorIs(t, err, fs.ErrNotExist)
	}
	_, err := OpenDirectory("", DirectoryConfig{FS: vfs.Mem()})
	require.ErrorIs(t, err, fs.ErrInvalid)
	_, err = Open("", Config{FS: vfs.Mem()})
	require.ErrorIs(t, err, fs.ErrInvalid)
}
