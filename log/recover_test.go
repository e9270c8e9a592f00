package log

import (
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/sample"
	"github.com/stratalog/strata/internal/segment"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/vfs"
)

// crashTwice kills work at each of its calls that change something. It then cuts the power at each
// such call of the recovery that follows. opens gets every resulting disk.
func crashTwice(t *testing.T, disk *vfs.MemFS, work func(), opens func(t *testing.T, fsys *vfs.MemFS)) {
	t.Helper()
	n, i, look := 0, 0, sample.OneIn(t, sampled(1, 5))
	for _, first := range moments(disk, randomCrashes(disk, 0), work) {
		cutOrKilled := modelledCrashes(first.disk, 3)
		for _, second := range moments(first.disk, cutOrKilled, func() { opens(t, first.disk) }) {
			if i++; look(i) {
				opens(t, second.disk)
				n++
			}
		}
	}
	require.Greater(t, n, sampled(50, 10))
}

// Checklist row D3: the renames of a killed process are not on the disk yet when recovery
// continues its work.
func TestPowerCutWhileRecoveryFinishesARemoval(t *testing.T) {
	t.Parallel()
	cfg := Config{SegmentBytes: 300, Sync: SyncOnAck, RetentionBytes: 400}
	for name, work := range map[string]func(l *Log) error{
		"retention":     func(l *Log) error { _, err := l.Retain(t.Context()); return err },
		"truncation":    func(l *Log) error { return l.TruncateTo(9) },
		"a new begin":   func(l *Log) error { return l.TruncateFully(100) },
		"deleted below": func(l *Log) error { return l.DeleteRecords(11) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			disk := vfs.Mem()
			l := openClean(t, disk, cfg)
			fill(t, l, 20)
			before := l.EndOffset()
			// Killed in a truncation, the log may end with the segment in which it ends.
			list := l.list()
			kept := list[floor(list, 9)+1].Base()
			crashTwice(t, disk, func() { require.NoError(t, work(l)) }, func(t *testing.T, fsys *vfs.MemFS) {
				again := openClean(t, fsys, cfg)
				require.Contains(t, []int64{before, 9, 100, kept}, again.EndOffset())
				for r, err := range again.Records(again.StartOffset()) {
					require.NoError(t, err)
					require.Equal(t, fmt.Sprint(r.Offset), string(r.Value))
				}
				require.Empty(t, again.Recovery().SetAside)
				require.NoError(t, again.Close())
			})
			require.NoError(t, l.Close())
		})
	}
}

// gapsOfKafka makes a directory as a Kafka broker leaves it: closed segments with gaps from
// compaction, no strata.state.
func gapsOfKafka(t *testing.T, disk *vfs.MemFS, killed bool) (segments int, dump string) {
	t.Helper()
	d, err := OpenDirectory("data", DirectoryConfig{FS: disk})
	require.NoError(t, err)
	cfg := compacting
	cfg.Dir, cfg.SegmentBytes = d, 300
	l, err := Open("data/t-0", cfg)
	require.NoError(t, err)
	for i := range 25 {
		for _, kv := range []string{fmt.Sprintf("k%d=%d", i, i), "last=1", fmt.Sprintf("k%d=%d", i+1, i)} {
			// A batch of its own: a batch that loses its last record still has the same end.
			appendKV(t, l, kv)
		}
		require.NoError(t, l.Roll())
	}
	appendKV(t, l, "end=1")
	clean(t, l)
	gaps := 0
	list := l.list()
	for i, s := range list[:len(list)-1] {
		next := int64(0)
		require.NoError(t, s.Headers(0, func(b *record.Batch, _ int64) bool { next = b.NextOffset(); return true }))
		if next < list[i+1].Base() {
			gaps++
		}
	}
	require.Greater(t, gaps, 3, "the test is about gaps")
	segments, dump = len(list), logDump(t, l)
	require.NoError(t, l.Close())
	require.NoError(t, d.Close())
	require.NoError(t, disk.Remove("data/t-0/"+stateFile))
	if killed {
		require.NoError(t, disk.Remove("data/"+cleanShutdownFile))
		require.NoError(t, vfs.WriteFile(disk, "data/"+recoveryPointFile, []byte("0\n1\nt 0 10\n")))
	}
	return segments, dump
}

// Compaction leaves gaps, and they are no damage.
func TestDirectoryOfKafkaWithGapsKeepsAllSegments(t *testing.T) {
	t.Parallel()
	for _, killed := range []bool{false, true} {
		disk := vfs.Mem()
		segments, dump := gapsOfKafka(t, disk, killed)
		for round := range 3 {
			d, err := OpenDirectory("data", DirectoryConfig{FS: disk})
			require.NoError(t, err)
			l, err := Open("data/t-0", Config{Dir: d})
			require.NoError(t, err)
			require.Equal(t, !killed || round > 0 && round < 2, l.Recovery().Clean, "killed=%v, time %d", killed, round)
			require.Len(t, l.Segments(), segments)
			require.Equal(t, dump, logDump(t, l))
			require.Empty(t, l.Recovery().SetAside)
			if round == 1 { // it has a state by now, and the power fails
				disk = disk.CrashWith(vfs.CrashOptions{Data: vfs.CrashLost, Sizes: vfs.CrashLost, Entries: vfs.CrashLost})
			}
			st, known, err := readState(disk, "data/t-0")
			require.NoError(t, err)
			require.True(t, known, "it gets a state")
			require.Len(t, st.Belonging(), segments)
			require.NoError(t, l.Close())
			require.NoError(t, d.Close())
			if killed && round == 1 {
				break
			}
		}
	}
}

// Checklist row D19: the end of a segment is lost, so no later segment can be joined to it. The
// later segments are set aside, and named in the report.
func TestSegmentsBehindALostEndAreSetAside(t *testing.T) {
	t.Parallel()
	disk := vfs.Mem()
	cfg := Config{SegmentBytes: 300}
	l := openClean(t, disk, cfg)
	fill(t, l, 30)
	list := l.list()
	require.Greater(t, len(list), 4)
	// Another boot.
	disk = disk.CrashWith(vfs.CrashOptions{Data: vfs.CrashKept, Sizes: vfs.CrashKept, Entries: vfs.CrashKept})
	require.NoError(t, l.Close())
	st, _, err := readState(disk, bedDir)
	require.NoError(t, err)
	st.RecoveryPoint = 0 // nothing was synced
	require.NoError(t, storeState(disk, bedDir, st))
	p, err := vfs.ReadFile(disk, list[1].Path())
	require.NoError(t, err)
	_, first, err := record.Parse(p)
	require.NoError(t, err)
	// Its end is lost, after its first batch.
	require.NoError(t, vfs.WriteFile(disk, list[1].Path(), p[:first]))
	kept := map[string][]byte{}
	var want []string
	for _, s := range list[2:] {
		name := filepath.Base(s.Path()) + ".aside"
		want = append(want, name)
		kept[name], err = vfs.ReadFile(disk, s.Path())
		require.NoError(t, err)
	}
	planned := disk.Kill()
	steps := func(rep RecoveryReport) []RecoveryStep { return rep.Steps }

	rep, err := PlanRecovery(bedDir, Config{FS: planned})
	require.NoError(t, err)
	before, err := planned.ReadDir(bedDir)
	require.NoError(t, err)
	again := openClean(t, disk, cfg)
	require.Equal(t, steps(again.Recovery()), steps(rep), "the plan is what is done")
	require.Equal(t, list[1].Base()+1, again.EndOffset())
	require.Equal(t, again.EndOffset(), again.Recovery().CutOffset)
	var aside []string
	for _, name := range again.Recovery().SetAside {
		if strings.Contains(name, ".log") {
			aside = append(aside, name)
		}
	}
	require.Equal(t, want, aside)
	fill(t, again, 30) // uses the same names again
	require.NoError(t, again.Close())
	again = openClean(t, disk, cfg)
	require.Equal(t, list[1].Base()+31, again.EndOffset())
	require.Empty(t, again.Recovery().SetAside, "once is enough")
	require.NoError(t, again.Close())
	for name, data := range kept {
		p, err := vfs.ReadFile(disk, filepath.Join(bedDir, name))
		require.NoError(t, err)
		require.Equal(t, data, p, "what is set aside is kept")
	}
	after, err := planned.ReadDir(bedDir)
	require.NoError(t, err)
	require.Equal(t, len(before), len(after), "planning changes nothing")
}

// A Kafka broker takes the directory over, compacts, rolls and deletes, and returns it: the
// segments in the state file are outdated.
func TestStateFromBeforeKafkaHadTheDirectoryIsOld(t *testing.T) {
	t.Parallel()
	disk := vfs.Mem()
	segments, dump := gapsOfKafka(t, disk, false)
	old := openInDirectory(t, disk)
	before, err := vfs.ReadFile(disk, "data/t-0/"+stateFile)
	require.NoError(t, err)
	fill(t, old.log, 30)
	require.NoError(t, old.log.DeleteRecords(5))
	require.NoError(t, old.log.Roll())
	want := logDump(t, old.log)
	old.close(t)
	// The state from before the last roll.
	require.NoError(t, vfs.WriteFile(disk, "data/t-0/"+stateFile, before))
	compacted := 0
	for _, s := range old.log.list()[1:] {
		p, err := vfs.ReadFile(disk, s.Path())
		require.NoError(t, err)
		_, first, err := record.Parse(p)
		if err == nil && first < len(p) && compacted == 0 {
			compacted++
			require.NoError(t, vfs.WriteFile(disk, s.Path(), p[:first]))
		}
	}
	require.Positive(t, compacted)
	require.NoError(t, vfs.WriteFile(disk, "data/"+cleanShutdownFile, []byte(`{"version":0,"brokerEpoch":7}`)))
	again := openInDirectory(t, disk)
	require.Greater(t, len(again.log.Segments()), segments)
	require.EqualValues(t, 5, again.log.StartOffset())
	require.True(t, again.log.Recovery().Clean)
	require.Empty(t, again.log.Recovery().SetAside)
	got := logDump(t, again.log)
	require.NotEqual(t, dump, got)
	require.Less(t, len(got), len(want))
	require.Equal(t, want[len(want)-100:], got[len(got)-100:])
	again.close(t)
	again = openInDirectory(t, disk)
	require.Equal(t, got, logDump(t, again.log))
	again.close(t)
}

// inDirectory is a log and the directory in which it is opened.
type inDirectory struct {
	log *Log
	dir *Directory
}

func openInDirectory(t *testing.T, disk *vfs.MemFS) inDirectory {
	t.Helper()
	d, err := OpenDirectory("data", DirectoryConfig{FS: disk})
	require.NoError(t, err)
	l, err := Open("data/t-0", Config{Dir: d})
	require.NoError(t, err)
	return inDirectory{l, d}
}

func (o inDirectory) close(t *testing.T) {
	t.Helper()
	require.NoError(t, o.log.Close())
	require.NoError(t, o.dir.Close())
}

// An unreadable state is not taken for a missing one: the log would lose its start, and obsolete
// segments would be read again.
func TestStateThatCannotBeReadIsAnErrorOfOpen(t *testing.T) {
	t.Parallel()
	disk := vfs.Mem()
	l := openMem(t, disk)
	fill(t, l, 20)
	require.NoError(t, l.DeleteRecords(7))
	require.NoError(t, l.Close())
	for _, op := range []vfs.Op{vfs.OpOpen, vfs.OpRead} {
		remove := disk.Inject(vfs.Fault{Ops: op, Pattern: stateFile, Times: vfs.Always, Err: syscall.EIO})
		_, err := Open("log", Config{FS: disk})
		require.ErrorIs(t, err, syscall.EIO)
		_, err = PlanRecovery("log", Config{FS: disk})
		require.ErrorIs(t, err, syscall.EIO)
		remove()
	}
	l = openMem(t, disk)
	require.EqualValues(t, 7, l.StartOffset())
	require.EqualValues(t, 20, l.EndOffset())
	require.NoError(t, l.Close())
}

// The number of files that a compaction opens grows with the number of segments, not with its
// square.
func TestCompactionOpensFilesInProportionToSegments(t *testing.T) {
	if RaceEnabled {
		t.Skip("takes long, in one goroutine")
	}
	t.Parallel()
	opens := func(segments int) int64 {
		disk := vfs.Mem()
		l := openClean(t, disk, compacting)
		for i := range segments {
			at := l.EndOffset()
			appendKV(t, l, fmt.Sprintf("k%d=v", i%10), fmt.Sprintf("k%d=w", i%10))
			// each segment has a transaction index, or there is nothing to open
			require.NoError(t, l.AppendAborted(segment.AbortedTxn{ProducerID: 1, FirstOffset: at, LastOffset: at + 1, LastStableOffset: at + 2}))
			require.NoError(t, l.Roll())
		}
		before := disk.Count(vfs.OpOpen)
		defer disk.Observe(vfs.Observer{Before: func(e vfs.Event) {
			// otherwise they are too many already
			if e.N%20 == 0 && disk.Count(vfs.OpOpen)-before < int64(segments*20) {
				runtime.GC() // caches that the collector may empty are read again
			}
		}})()
		require.Equal(t, segments, clean(t, l).Compaction.SegmentsBefore)
		require.NoError(t, l.Close())
		return disk.Count(vfs.OpOpen) - before
	}
	few, many := opens(50), opens(200)
	t.Logf("50 segments: %d opens, 200 segments: %d", few, many)
	require.Less(t, many, 5*few)
	require.Less(t, many, int64(200*20))
}

// The leftover of a compaction after a failed Close does not affect another compaction.
func TestLeftoverOfOneCompactionDoesNotVoidAnother(t *testing.T) {
	t.Parallel()
	disk := vfs.Mem()
	cfg := compacting
	cfg.SegmentBytes = 200
	l := openClean(t, disk, cfg)
	for _, kv := range [][]string{{"a=1"}, {"b=1"}, {"a=2"}, {"b=2"}, {"c=1"}} {
		appendKV(t, l, kv...)
		require.NoError(t, l.Roll())
	}
	require.NoError(t, l.Sync())
	want := lastValues(logDump(t, l))
	cuts := moments(disk, randomCrashes(disk, 0), func() { clean(t, l) })
	require.NoError(t, l.Close())
	for _, cut := range cuts {
		name := filePath(bedDir, 0, segment.TimeIndexSuffix) + ".cleaned"
		require.NoError(t, writeUnsynced(cut.disk, name, []byte("left")))
		require.Equal(t, want, lastValues(reopened(t, cut.disk, cfg)), "killed before %v", cut.before)
	}
}
