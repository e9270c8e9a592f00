package log

import (
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/vfs"
)

// A truncation to the end removes a leader epoch that began there. The next append must not have
// that epoch: when the log is opened again, its own batches would be damage.
func TestEpochThatATruncationTookIsNotStampedAnyMore(t *testing.T) {
	disk := vfs.Mem()
	l, err := Open("log", Config{FS: disk})
	require.NoError(t, err)
	require.NoError(t, l.SetLeaderEpoch(1))
	_, err = l.Append(t.Context(), record.String("", "", "a"))
	require.NoError(t, err)
	require.NoError(t, l.SetLeaderEpoch(4))
	require.NoError(t, l.TruncateTo(1))
	_, err = l.Append(t.Context(), record.String("", "", "b"))
	require.NoError(t, err)

	again, err := Open("log", Config{FS: disk.Crash(1)})
	require.NoError(t, err)
	n := 0
	for _, err := range again.Records(0) {
		require.NoError(t, err)
		n++
	}
	require.Equal(t, 2, n)
	require.NoError(t, again.Close())
	require.NoError(t, l.Close())
}

// A truncation that failed half-way is not done: a second call does not report success.
func TestTruncationOfABrokenLogIsNotConfirmed(t *testing.T) {
	disk := vfs.Mem()
	l, err := Open("log", Config{FS: disk})
	require.NoError(t, err)
	for range 3 {
		_, err = l.Append(t.Context(), record.String("", "", "v"))
		require.NoError(t, err)
	}
	disk.Inject(vfs.Fault{Ops: vfs.OpTruncate, Pattern: "*.log", Err: syscall.EIO})
	require.ErrorIs(t, l.TruncateTo(2), syscall.EIO)
	require.ErrorIs(t, l.TruncateTo(2), syscall.EIO)
	_ = l.Close()
}

// A truncation fails while its state is written, which may be on the disk anyway. A log that
// continues with all its records keeps them: after a close, a kill, or a power cut. A log that
// could not restore its old state is broken, and may be truncated when it is opened again.
func TestTruncationThatFailedCutsNothingOfALogThatGoesOn(t *testing.T) {
	t.Parallel()
	goOn := map[vfs.Op]int{}
	broke := map[vfs.Op]int{}
	for _, policy := range []SyncPolicy{SyncNever, SyncOnAck, SyncInterval(time.Hour)} {
		for _, ops := range []vfs.Op{vfs.OpSyncDir, vfs.OpSyncDir | vfs.OpCreate, vfs.OpRename, vfs.OpCreate, vfs.OpWrite, vfs.OpSync} {
			for _, times := range []int{1, 2, vfs.Always} {
				for after, hit := 0, true; hit; after++ {
					var whole bool
					if whole, hit = failTruncation(t, policy, vfs.Fault{Ops: ops, After: after, Times: times, Err: syscall.EIO}); whole {
						goOn[ops]++
					} else if hit {
						broke[ops]++
					}
					require.True(t, whole || after > 0 || ops&vfs.OpSyncDir > 0, "the old state is there: no reason to break the log, %v", ops)
				}
			}
		}
	}
	require.Positive(t, goOn[vfs.OpSyncDir], "the state was taken back")
	require.Positive(t, broke[vfs.OpSyncDir])
}

// failTruncation truncates a log of three segments in its first one, with a fault, and opens the
// log again. whole is whether the log continued with all its records.
func failTruncation(t *testing.T, policy SyncPolicy, fault vfs.Fault) (whole, hit bool) {
	disk := vfs.Mem()
	cfg := Config{FS: disk, Sync: policy}
	l, err := Open("log", cfg)
	require.NoError(t, err)
	for i := range 3 {
		for range 2 {
			_, err = l.Append(t.Context(), record.String("", "", "v"))
			require.NoError(t, err)
		}
		if i < 2 {
			require.NoError(t, l.Roll())
		}
	}
	require.NoError(t, l.Sync())
	heal := disk.Inject(fault)
	err = l.TruncateTo(1)
	heal()
	if err == nil { // the fault came too late, or did not matter
		require.EqualValues(t, 1, l.EndOffset())
		require.NoError(t, l.Close())
		return false, false
	}
	whole = l.Err() == nil && l.EndOffset() == 6
	least := int64(1)
	if whole {
		require.EqualValues(t, 6, l.DurableOffset())
		least = 6
	}
	states := []*vfs.MemFS{disk.Kill(), disk.CrashWith(lostAll()), disk.Crash(1), disk}
	if closed := l.Close(); whole {
		require.NoError(t, closed)
	}
	for i, at := range states {
		cfg.FS = at
		again, err := Open("log", cfg)
		require.NoError(t, err)
		require.GreaterOrEqual(t, again.EndOffset(), least, "%v, state %d", fault, i)
		require.NoError(t, again.Close())
	}
	return whole, true
}

// Compaction has removed the records before the offset of a truncation. Their offsets were used,
// and are not used again. That holds wherever the truncation is interrupted, and however often the
// log is opened before the next append.
func TestCrashInACutInsideAGapGivesNoOffsetAgain(t *testing.T) {
	t.Parallel()
	disk := vfs.Mem()
	cfg := compacting
	cfg.FS, cfg.Sync = disk, SyncOnAck
	l, err := Open("log", cfg)
	require.NoError(t, err)
	for range 6 {
		appendKV(t, l, "a=1", "b=1")
		appendKV(t, l, "c=1")
	}
	appendKV(t, l, "z=1")
	require.NoError(t, l.Roll())
	appendKV(t, l, "c=2")
	require.NoError(t, l.Roll())
	appendKV(t, l, "d=2")
	clean(t, l)
	require.Equal(t, "15:a=1 16:b=1 18:z=1 19:c=2 20:d=2", logDump(t, l))
	ends := map[int64]int{}
	for _, cut := range []int64{3, 15, 18, 19} {
		before := disk.Kill()
		cfg.FS = before
		m, err := Open("log", cfg)
		require.NoError(t, err)
		old := m.EndOffset()
		var mu sync.Mutex // guards states and calls while m is open
		var states []*vfs.MemFS
		var calls []string
		stop := before.Observe(vfs.Observer{Before: func(e vfs.Event) {
			if e.Op&vfs.OpChange != 0 {
				mu.Lock()
				defer mu.Unlock()
				states = append(states, before.Kill(), before.Crash(uint64(e.N)))
				calls = append(calls, "killed before "+e.String(), "power cut before "+e.String())
			}
		}})
		require.NoError(t, m.TruncateTo(cut))
		stop()
		now := m.EndOffset()
		require.LessOrEqual(t, now, cut)
		require.NoError(t, m.Close())
		for i, at := range states {
			again := cfg
			again.FS = at
			for range 3 { // opened, without appends by a caller, and killed
				o, err := Open("log", again)
				require.NoError(t, err, calls[i])
				require.GreaterOrEqual(t, o.EndOffset(), now, "cut at %d, %s", cut, calls[i])
				require.LessOrEqual(t, o.EndOffset(), old, "cut at %d, %s", cut, calls[i])
				ends[o.EndOffset()]++
				require.NoError(t, o.DeleteRecords(o.StartOffset()+1))
				again.FS = at.Kill()
				at = again.FS.(*vfs.MemFS)
				require.NoError(t, o.Close())
			}
		}
	}
	require.Greater(t, len(ends), 3)
	require.NoError(t, l.Close())
}

// A log ends in a gap: the power fails before the segment is begun whose name would record that.
// The next process is killed after it reserved space for a batch, and the one after it closes the
// log properly. The log opens again with the same end, also after a power cut that restores that
// space.
func TestLogThatWasClosedBehindAGapOpensAfterAPowerCut(t *testing.T) {
	t.Parallel()
	disk := vfs.Mem()
	l, err := Open("log", Config{FS: disk})
	require.NoError(t, err)
	for _, offset := range []int64{0, 1, 3} {
		require.NoError(t, replicate(l, offset))
	}
	heal := disk.Inject(vfs.Fault{Ops: vfs.OpCreate, Pattern: "*.log", Err: syscall.ENOSPC, Times: vfs.Always})
	require.ErrorIs(t, l.TruncateTo(3), syscall.ENOSPC)
	heal()
	cut := disk.CrashWith(vfs.CrashOptions{Data: vfs.CrashKept, Sizes: vfs.CrashKept, Entries: vfs.CrashKept})
	require.NoError(t, l.Close())
	l, err = Open("log", Config{FS: cut})
	require.NoError(t, err)
	var killed *vfs.MemFS
	stop := cut.Observe(vfs.Observer{Before: func(e vfs.Event) {
		if e.Op == vfs.OpWrite && filepath.Ext(e.Name) == ".log" && killed == nil {
			killed = cut.Kill()
		}
	}})
	require.NoError(t, replicate(l, 3))
	stop()
	require.NoError(t, l.Close())

	l, err = Open("log", Config{FS: killed})
	require.NoError(t, err)
	require.NoError(t, l.Close())
	l, err = Open("log", Config{FS: killed.CrashWith(lostAll())})
	require.NoError(t, err)
	require.EqualValues(t, 3, l.EndOffset())
	require.EqualValues(t, 3, l.DurableOffset())
	require.Equal(t, []int64{0, 1}, offsetsOf(t, l))
	require.NoError(t, replicate(l, 3))
	require.Equal(t, []int64{0, 1, 3}, offsetsOf(t, l))
	require.NoError(t, l.Close())
}

// A log ends in a gap that no segment's name records, because a file could not be closed before a
// new segment. The end is durable, and stays so when appends behind it are lost. The states that
// are written in between have it, in this process and the next ones.
func TestDurableEndInAGapIsNotLostWithTheAppendsBehindIt(t *testing.T) {
	t.Parallel()
	states := map[string]func(l *Log) error{
		"delete records": func(l *Log) error { return l.DeleteRecords(1) },
		"roll":           (*Log).Roll,
		"truncate":       func(l *Log) error { return l.TruncateTo(4) },
	}
	for how, write := range states {
		for _, next := range []string{"goes on", "closed and opened", "closed and opened twice", "killed and opened"} {
			disk := vfs.Mem()
			cfg := Config{FS: disk, Sync: SyncNever}
			l, err := Open("log", cfg)
			require.NoError(t, err)
			for _, offset := range []int64{0, 1, 3} {
				require.NoError(t, replicate(l, offset))
			}
			// after the truncation itself, which finds no index
			disk.Inject(vfs.Fault{Ops: vfs.OpClose, Pattern: "*index", Err: syscall.EIO})
			require.ErrorIs(t, l.TruncateTo(3), syscall.EIO)
			if next != "goes on" {
				left := disk.Kill()
				require.NoError(t, l.Close())
				if next == "killed and opened" {
					disk = left
				}
				cfg.FS = disk
				l, err = Open("log", cfg)
				require.NoError(t, err)
			}
			if next == "closed and opened twice" {
				require.NoError(t, l.Close())
				l, err = Open("log", cfg)
				require.NoError(t, err)
			}
			require.NoError(t, l.Sync())
			require.EqualValues(t, 3, l.DurableOffset(), "%s, %s", how, next)
			require.Len(t, l.Segments(), 1, "%s, %s: a name would tell", how, next)
			require.NoError(t, replicate(l, 3))
			require.NoError(t, replicate(l, 4))
			require.NoError(t, write(l), "%s, %s", how, next)
			cfg.FS = disk.CrashWith(vfs.CrashOptions{Data: vfs.CrashLost, Sizes: vfs.CrashLost, Entries: vfs.CrashLost})
			require.NoError(t, l.Close())

			l, err = Open("log", cfg)
			require.NoError(t, err, "%s, %s", how, next)
			require.GreaterOrEqual(t, l.EndOffset(), int64(3), "%s, %s", how, next)
			require.NoError(t, l.Close())
		}
	}
}
