package log

import (
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/sample"
	"github.com/stratalog/strata/vfs"
)

// epochLog makes a log with records of three leader epochs over several segments.
func epochLog(t *testing.T, disk vfs.FS) *Log {
	t.Helper()
	l, err := Open("log", Config{FS: disk, SegmentBytes: 1000})
	require.NoError(t, err)
	for _, epoch := range []int32{2, 5, 6} {
		require.NoError(t, l.SetLeaderEpoch(epoch))
		fill(t, l, 30)
	}
	require.Greater(t, len(l.Segments()), 3)
	return l
}

func TestMissingLeaderEpochsAreFoundInTheBatches(t *testing.T) {
	t.Parallel()
	for name, leave := range map[string]func(t *testing.T, l *Log, disk *vfs.MemFS) *vfs.MemFS{
		"closed": func(t *testing.T, l *Log, disk *vfs.MemFS) *vfs.MemFS {
			require.NoError(t, l.Close())
			return disk
		},
		"killed":    func(_ *testing.T, _ *Log, disk *vfs.MemFS) *vfs.MemFS { return disk.Kill() },
		"power cut": func(_ *testing.T, _ *Log, disk *vfs.MemFS) *vfs.MemFS { return disk.Crash(1) },
		"below the start": func(t *testing.T, l *Log, disk *vfs.MemFS) *vfs.MemFS {
			require.NoError(t, l.DeleteRecords(40))
			require.NoError(t, l.Close())
			return disk
		},
	} {
		t.Run(name, func(t *testing.T) {
			disk := vfs.Mem()
			l := epochLog(t, disk)
			after := leave(t, l, disk)
			require.NoError(t, l.Close())
			want, err := vfs.ReadFile(after, "log/"+epochFile)
			require.NoError(t, err)
			require.NoError(t, after.Remove("log/"+epochFile))

			l, err = OpenReadOnly("log", Config{FS: after})
			require.NoError(t, err)
			_, end := l.Epochs().EndOffsetFor(5)
			require.EqualValues(t, 60, end)
			require.NoError(t, l.Close())
			_, err = after.Stat("log/" + epochFile)
			require.Error(t, err, "a reader changes nothing")

			l, err = Open("log", Config{FS: after})
			require.NoError(t, err)
			require.EqualValues(t, 5, l.Epochs().At(45))
			latest, ok := l.Epochs().Latest()
			require.True(t, ok)
			require.EqualValues(t, 6, latest)
			require.NoError(t, l.Close())
			got, err := vfs.ReadFile(after, "log/"+epochFile)
			require.NoError(t, err)
			require.Equal(t, string(want), string(got))
		})
	}
}

func TestLogWithoutLeaderEpochsIsNotWalkedForThem(t *testing.T) {
	t.Parallel()
	disk, _ := closedLog(t)
	before := disk.Count(vfs.OpRead)
	l, err := Open("log", Config{FS: disk})
	require.NoError(t, err)
	require.Less(t, disk.Count(vfs.OpRead)-before, int64(5))
	require.NoError(t, l.Close())
}

// A power cut can restore bytes that were truncated, where the truncation was not durable or space
// was reused. They can be a complete batch with the right offset and CRC. Only the later leader
// epoch that began at that offset shows that the batch is stale.
func TestStaleBatchOfAnEarlierLeaderIsCut(t *testing.T) {
	t.Parallel()
	for _, rolled := range []bool{false, true} {
		disk := vfs.Mem()
		l, err := Open("log", Config{FS: disk})
		require.NoError(t, err)
		require.NoError(t, l.SetLeaderEpoch(3))
		fill(t, l, 10)
		if rolled {
			require.NoError(t, l.Roll())
		}
		fill(t, l, 2)
		stale, err := l.Read(nil, 10, 1<<20)
		require.NoError(t, err)
		require.NoError(t, l.TruncateTo(10))
		require.NoError(t, l.SetLeaderEpoch(4))
		want := values(t, l)

		name, pos := l.active().Path(), l.active().Size()
		after := disk.Crash(1)
		require.NoError(t, l.Close())
		f, err := after.OpenFile(name, os.O_RDWR, 0)
		require.NoError(t, err)
		_, err = f.WriteAt(stale, pos)
		require.NoError(t, err)
		require.NoError(t, f.Close())

		l, err = Open("log", Config{FS: after})
		require.NoError(t, err)
		require.EqualValues(t, 10, l.EndOffset())
		require.EqualValues(t, len(stale), l.Recovery().CutBytes)
		require.EqualValues(t, 10, l.Recovery().CutOffset)
		fill(t, l, 1)
		require.Equal(t, append(want, "0"), values(t, l))
		require.EqualValues(t, 4, l.Epochs().At(10))
		require.NoError(t, l.Close())
	}
}

// closedWithEpochs returns the disk of a closed log, and the epochs that it has.
func closedWithEpochs(t *testing.T) (*vfs.MemFS, []epochEntry) {
	t.Helper()
	disk := vfs.Mem()
	l := epochLog(t, disk)
	require.NoError(t, l.Close())
	return disk, []epochEntry{{2, 0}, {5, 30}, {6, 60}}
}

func TestEachWrongBitOfTheLeaderEpochsOfAClosedLogIsMended(t *testing.T) {
	t.Parallel()
	name := "log/" + epochFile
	disk, want := closedWithEpochs(t)
	good, err := vfs.ReadFile(disk, name)
	require.NoError(t, err)
	require.Equal(t, epochText(want), good)
	look := sample.OneIn(t, 4)
	for bit := range 8 * len(good) {
		if !look(bit) {
			continue
		}
		damaged := disk.Kill()
		p := slices.Clone(good)
		p[bit/8] ^= 1 << (bit % 8)
		require.NoError(t, vfs.WriteFile(damaged, name, p))

		l, err := OpenReadOnly("log", Config{FS: damaged})
		require.NoError(t, err, "%q", p)
		require.Equal(t, want, l.Epochs().list(), "%q", p)
		require.NoError(t, l.Close())
		now, err := vfs.ReadFile(damaged, name)
		require.NoError(t, err)
		require.Equal(t, p, now, "a reader changes nothing")

		l, err = Open("log", Config{FS: damaged})
		require.NoError(t, err, "%q", p)
		require.Equal(t, want, l.Epochs().list(), "%q", p)
		require.Len(t, values(t, l), 90)
		require.NoError(t, l.Close())
		now, err = vfs.ReadFile(damaged, name)
		require.NoError(t, err)
		require.Equal(t, good, now)
	}
}

// A leader that was killed before its first append leaves an epoch without a batch, and a Kafka
// broker may have written the file since.
func TestLeaderEpochsThatAgreeWithTheBatchesStay(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"an epoch without a batch": "0\n4\n2 0\n5 30\n6 60\n7 90\n",
		"written another way":      "0\n3\n02 0\n5 30\n6 60\n",
	} {
		disk, _ := closedWithEpochs(t)
		require.NoError(t, vfs.WriteFile(disk, "log/"+epochFile, []byte(text)))
		l, err := Open("log", Config{FS: disk})
		require.NoError(t, err, name)
		want, err := parseEpochs(text)
		require.NoError(t, err)
		require.Equal(t, want, l.Epochs().list(), name)
		require.NoError(t, l.Close())
	}
}

func TestLeaderEpochBehindRecordsWithoutOneStays(t *testing.T) {
	t.Parallel()
	disk := vfs.Mem()
	for epoch := int32(0); epoch < 5; epoch++ {
		l, err := Open("log", Config{FS: disk})
		require.NoError(t, err)
		if epoch == 0 {
			fill(t, l, 1)
			require.NoError(t, l.SetLeaderEpoch(1))
			fill(t, l, 1)
		} else {
			require.NoError(t, l.SetLeaderEpoch(epoch+1))
			require.Equal(t, []epochEntry{{1, 1}, {epoch + 1, 2}}, l.Epochs().list())
		}
		require.NoError(t, l.Close())
	}
}

// Deleted records have removed their leader epochs from the file.
func TestLeaderEpochsOfAClosedLogAreMendedBehindItsStart(t *testing.T) {
	t.Parallel()
	disk := vfs.Mem()
	l := epochLog(t, disk)
	require.NoError(t, l.DeleteRecords(40))
	want := slices.Clone(l.Epochs().list())
	require.Equal(t, []epochEntry{{5, 40}, {6, 60}}, want)
	require.NoError(t, l.Close())
	for _, text := range []string{"0\n2\n4 40\n6 60\n", "0\n2\n5 40\n6 64\n", "0\n2\n5 40\n7 60\n", "0\n2\n5 50\n6 60\n"} {
		damaged := disk.Kill()
		require.NoError(t, vfs.WriteFile(damaged, "log/"+epochFile, []byte(text)))
		l, err := Open("log", Config{FS: damaged})
		require.NoError(t, err, text)
		require.Equal(t, want, l.Epochs().list(), text)
		require.NoError(t, l.Close())
	}
	require.NoError(t, vfs.WriteFile(disk, "log/"+epochFile, []byte("0\n3\n5 40\n6 60\n9 90\n")))
	l, err := Open("log", Config{FS: disk})
	require.NoError(t, err)
	require.Equal(t, append(want, epochEntry{9, 90}), l.Epochs().list(), "no batch contradicts it")
	require.NoError(t, l.Close())
}
