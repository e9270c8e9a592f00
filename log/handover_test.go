package log

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/vfs"
)

// handOver makes a directory with a log of several segments that was closed properly, so that a
// Kafka broker can use it.
func handOver(t *testing.T) (disk *vfs.MemFS, bases []int64, values []string) {
	t.Helper()
	disk = vfs.Mem()
	d, err := OpenDirectory("data", DirectoryConfig{FS: disk})
	require.NoError(t, err)
	l, err := Open("data/t-0", Config{Dir: d, SegmentBytes: 300})
	require.NoError(t, err)
	fill(t, l, 20)
	require.NoError(t, l.DeleteRecords(1))
	for _, s := range l.list() {
		bases = append(bases, s.Base())
	}
	require.Greater(t, len(bases), 4)
	values = valuesOf(t, l)
	inDirectory{l, d}.close(t)
	return disk, bases, values
}

func valuesOf(t *testing.T, l *Log) (values []string) {
	t.Helper()
	for r, err := range l.Records(l.StartOffset()) {
		require.NoError(t, err)
		values = append(values, fmt.Sprintf("%d: %s", r.Offset, r.Value))
	}
	return values
}

// brokerCompacts replaces the segments from bases, as Kafka's cleaner does: the first batch of
// each segment stays (UnifiedLog.replaceSegments). step is called before each change.
func brokerCompacts(t *testing.T, disk *vfs.MemFS, bases []int64, step func()) {
	t.Helper()
	var result []byte
	for _, base := range bases {
		p, err := vfs.ReadFile(disk, filePath("data/t-0", base, ".log"))
		require.NoError(t, err)
		_, n, err := record.Parse(p)
		require.NoError(t, err)
		result = append(result, p[:n]...)
	}
	suffixes := []string{".log", ".index", ".timeindex"}
	rename := func(base int64, from, to string) {
		for _, suffix := range suffixes {
			name := filePath("data/t-0", base, suffix)
			if _, err := disk.Stat(name + from); err != nil {
				continue
			}
			step()
			require.NoError(t, disk.Rename(name+from, name+to))
		}
	}
	for _, suffix := range suffixes {
		step()
		var p []byte
		if suffix == ".log" {
			p = result
		}
		require.NoError(t, vfs.WriteFile(disk, filePath("data/t-0", bases[0], suffix)+".cleaned", p))
	}
	rename(bases[0], ".cleaned", ".swap")
	for _, base := range bases {
		rename(base, "", ".deleted")
	}
	rename(bases[0], ".swap", "")
	entries, err := disk.ReadDir("data/t-0")
	require.NoError(t, err)
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), ".deleted") {
			step()
			require.NoError(t, disk.Remove("data/t-0/"+e.Name()))
		}
	}
	require.NoError(t, disk.SyncDir("data/t-0"))
}

// brokerStarts changes the directory as Kafka 4.3 does before it changes a log.
func brokerStarts(t *testing.T, disk *vfs.MemFS) {
	t.Helper()
	require.NoError(t, disk.Remove("data/"+cleanShutdownFile))
	if _, err := disk.Stat("data/" + cleanerFile); err != nil {
		require.NoError(t, vfs.WriteFile(disk, "data/"+cleanerFile, nil))
	}
	require.NoError(t, disk.SyncDir("data"))
}

func brokerStops(t *testing.T, disk *vfs.MemFS) {
	t.Helper()
	require.NoError(t, vfs.WriteFile(disk, "data/"+cleanShutdownFile, []byte(`{"version":0,"brokerEpoch":7}`)))
}

// A Kafka broker compacts a log that this package closed properly, and is killed at any step. By
// its own rules (LogLoader) either the sources count, or the result.
func TestBrokerThatIsKilledInACompactionLeavesALogThatOpens(t *testing.T) {
	t.Parallel()
	disk, bases, before := handOver(t)
	sources := bases[1:4]
	var after []string
	for _, v := range before {
		var offset int64
		_, err := fmt.Sscanf(v, "%d:", &offset)
		require.NoError(t, err)
		if offset < sources[0] || offset >= bases[4] || slices.Contains(sources, offset) {
			after = append(after, v)
		}
	}
	require.Less(t, len(after), len(before)-3)
	brokerStarts(t, disk)
	var kills []*vfs.MemFS
	step := func() { kills = append(kills, disk.Kill()) }
	brokerCompacts(t, disk, sources, step)
	step()
	swapped := 0
	for i, left := range kills {
		ro, err := OpenReadOnly("data/t-0", Config{FS: left})
		require.NoError(t, err, "killed before step %d", i)
		shown := valuesOf(t, ro)
		require.NoError(t, ro.Close())
		for range 2 {
			o := openInDirectory(t, left)
			require.EqualValues(t, 1, o.log.StartOffset())
			got := valuesOf(t, o.log)
			if swapped > 0 || !slices.Equal(before, got) {
				require.Equal(t, after, got, "killed before step %d", i)
				swapped++
			}
			require.Equal(t, got, shown)
			o.close(t)
		}
	}
	require.Greater(t, swapped, 10)
}

// The state file of a log is outdated once a broker has used the log, until an open has taken in
// the broker's changes. That also holds if each such open crashes, and for a log that is not
// opened.
func TestCrashWhileWhatABrokerLeftIsTakenInBelievesNoOldState(t *testing.T) {
	t.Parallel()
	for _, killed := range []bool{false, true} {
		disk, bases, before := handOver(t)
		brokerStarts(t, disk)
		brokerCompacts(t, disk, bases[1:4], func() {})
		if !killed {
			brokerStops(t, disk)
		}
		check := func(left *vfs.MemFS, what any) {
			o := openInDirectory(t, left)
			require.Len(t, o.log.list(), len(bases)-2, "crash before %v", what)
			require.EqualValues(t, 1, o.log.StartOffset())
			got := valuesOf(t, o.log)
			require.Less(t, len(got), len(before))
			require.Equal(t, before[len(before)-3:], got[len(got)-3:])
			o.close(t)
		}
		var o inDirectory
		for _, m := range moments(disk, modelledCrashes(disk, 2), func() { o = openInDirectory(t, disk) }) {
			check(m.disk, m.before)
		}
		o.close(t)

		d, err := OpenDirectory("data", DirectoryConfig{FS: disk})
		require.NoError(t, err)
		require.NoError(t, d.Close())
		check(disk, "nothing: it was not opened")
	}
}

// A file that describes the logs is removed before the marks that show a broker's changes.
func TestFileThatABrokersWorkVoidsIsRemovedBeforeTheMarks(t *testing.T) {
	t.Parallel()
	const file = "notes"
	disk, _, _ := handOver(t)
	require.NoError(t, vfs.WriteFile(disk, "data/"+file, []byte("of the logs")))
	cfg := DirectoryConfig{Void: []string{file, "missing"}}
	opened := func(fsys *vfs.MemFS) (taken, there bool) {
		c := cfg
		c.FS = fsys
		d, err := OpenDirectory("data", c)
		require.NoError(t, err)
		require.NoError(t, d.Close())
		_, err = fsys.Stat("data/" + file)
		return d.Taken(), err == nil
	}
	taken, there := opened(disk.Kill())
	require.False(t, taken)
	require.True(t, there)
	brokerStarts(t, disk)
	for _, m := range moments(disk, modelledCrashes(disk, 2), func() { taken, there = opened(disk) }) {
		_, there := opened(m.disk)
		require.False(t, there, "crash before %v", m.before)
	}
	require.True(t, taken)
	require.False(t, there)
}

// A crash during the open of a properly closed directory is not taken for a broker's changes.
func TestCrashWhileADirectoryIsOpenedLeavesItsStates(t *testing.T) {
	t.Parallel()
	disk, _, before := handOver(t)
	var o inDirectory
	for _, m := range moments(disk, modelledCrashes(disk, 3), func() { o = openInDirectory(t, disk); o.close(t) }) {
		require.NoError(t, func() error { _, err := m.disk.Stat("data/t-0/" + stateFile); return err }())
		again := openInDirectory(t, m.disk)
		_, known, err := readState(m.disk, "data/t-0")
		require.NoError(t, err)
		require.True(t, known)
		_, err = m.disk.Stat("data/t-0/" + stateFile + ".aside")
		require.Error(t, err, "crash before %v: its state was set aside", m.before)
		require.Equal(t, before, valuesOf(t, again.log))
		again.close(t)
	}
}

// A removed or damaged clean-shutdown marker is not taken for a broker's changes: no file that a
// broker changes has changed.
func TestMissingMarkerAloneIsNoWorkOfABroker(t *testing.T) {
	t.Parallel()
	disk := vfs.Mem()
	d, err := OpenDirectory("data", DirectoryConfig{FS: disk})
	require.NoError(t, err)
	l, err := Open("data/t-0", Config{Dir: d, SegmentBytes: 300})
	require.NoError(t, err)
	fill(t, l, 20)
	require.NoError(t, l.DeleteRecords(1))
	before := valuesOf(t, l)
	require.NoError(t, l.Close())
	d.LeaveNote("a note")
	// of a broker, earlier
	require.NoError(t, vfs.WriteFile(disk, "data/"+cleanerFile, []byte("0\n0\n")))
	require.NoError(t, d.Close())
	for name, ruin := range map[string]func(*vfs.MemFS) error{
		"removed": func(fsys *vfs.MemFS) error { return fsys.Remove("data/" + cleanShutdownFile) },
		"empty":   func(fsys *vfs.MemFS) error { return vfs.WriteFile(fsys, "data/"+cleanShutdownFile, nil) },
		"removed with a checkpoint": func(fsys *vfs.MemFS) error {
			return errors.Join(fsys.Remove("data/"+cleanShutdownFile), fsys.Remove("data/"+recoveryPointFile))
		},
		"one byte": func(fsys *vfs.MemFS) error {
			return vfs.WriteFile(fsys, "data/"+cleanShutdownFile, []byte(`{"version":0,"brokerEpoch":-3}`))
		},
	} {
		left := disk.Kill()
		require.NoError(t, ruin(left))
		ro, err := OpenReadOnly("data/t-0", Config{FS: left})
		require.NoError(t, err)
		require.Equal(t, before, valuesOf(t, ro), name)
		require.NoError(t, ro.Close())
		d, err := OpenDirectory("data", DirectoryConfig{FS: left})
		require.NoError(t, err)
		require.False(t, d.Taken(), name)
		require.Equal(t, "a note", d.Note(), name)
		l, err := Open("data/t-0", Config{Dir: d})
		require.NoError(t, err)
		require.True(t, l.Recovery().Clean)
		require.Equal(t, before, valuesOf(t, l), name)
		inDirectory{l, d}.close(t)
	}
	for name, use := range map[string]func(*vfs.MemFS) error{
		"killed": func(fsys *vfs.MemFS) error { brokerStarts(t, fsys); return nil },
		"stopped": func(fsys *vfs.MemFS) error {
			return vfs.WriteFile(fsys, "data/"+cleanShutdownFile, []byte(`{"version":0,"brokerEpoch":7}`))
		},
		"replication": func(fsys *vfs.MemFS) error {
			return errors.Join(fsys.Remove("data/"+cleanShutdownFile), vfs.WriteFile(fsys, "data/replication-offset-checkpoint", []byte("0\n0\n")))
		},
		"an earlier version's": func(fsys *vfs.MemFS) error {
			return errors.Join(fsys.Remove("data/"+cleanShutdownFile), vfs.WriteFile(fsys, "data/"+closedFile, []byte(closedText+"a note")))
		},
	} {
		left := disk.Kill()
		require.NoError(t, use(left))
		d, err := OpenDirectory("data", DirectoryConfig{FS: left})
		require.NoError(t, err)
		require.True(t, d.Taken(), name)
		require.Empty(t, d.Note(), name)
		require.NoError(t, d.Close())
	}
}
