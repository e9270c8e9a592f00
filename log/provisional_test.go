package log

import (
	"errors"
	"io/fs"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/vfs"
)

// A weak log is a log in data/t-0 whose records need not survive a power cut. Its owner keeps a
// file in the log's directory.
type weak struct {
	inDirectory
	disk *vfs.MemFS
}

func openWeak(t *testing.T, disk *vfs.MemFS, policy SyncPolicy) weak {
	t.Helper()
	d, err := OpenDirectory("data", DirectoryConfig{FS: disk})
	require.NoError(t, err)
	open := func() vfs.File {
		f, err := disk.OpenFile("data/t-0/owner", os.O_WRONLY|os.O_CREATE, 0o644)
		require.NoError(t, err)
		return f
	}
	require.NoError(t, disk.MkdirAll("data/t-0", 0o755))
	f := open()
	_, err = f.WriteAt([]byte("mine"), 0)
	require.NoError(t, errors.Join(err, f.Close()))
	l, err := Open("data/t-0", Config{Dir: d, Sync: policy, Beside: func(string) error {
		f := open()
		return errors.Join(f.Sync(), f.Close())
	}})
	require.NoError(t, err)
	return weak{inDirectory{l, d}, disk}
}

func isThere(t *testing.T, fsys vfs.FS, name string) bool {
	t.Helper()
	_, err := fsys.Stat(name)
	if !errors.Is(err, fs.ErrNotExist) {
		require.NoError(t, err)
	}
	return err == nil
}

// requireNoOpen checks that opening the log fails with want.
func requireNoOpen(t *testing.T, fsys vfs.FS, policy SyncPolicy, want error) {
	t.Helper()
	d, err := OpenDirectory("data", DirectoryConfig{FS: fsys})
	require.NoError(t, err)
	_, err = Open("data/t-0", Config{Dir: d, Sync: policy})
	require.ErrorIs(t, err, want)
	require.NoError(t, d.Close())
}

// The first appends to a new log under SyncNever or SyncInterval cause no sync (row L4 of the
// checklist). A process that is killed after them loses none of their records. The next open
// checks all batches, as for any log that was not closed.
func TestFirstRecordThatIsNotSyncedWaitsForNoDisk(t *testing.T) {
	t.Parallel()
	for _, policy := range []SyncPolicy{SyncNever, SyncInterval(time.Hour)} {
		disk := vfs.Mem()
		o := openWeak(t, disk, policy)
		before := disk.Count(vfs.OpSync | vfs.OpSyncDir)
		require.NoError(t, o.log.LeadInEpoch(3))
		fill(t, o.log, 3)
		require.Equal(t, before, disk.Count(vfs.OpSync|vfs.OpSyncDir))

		killed := disk.Kill()
		again := openWeak(t, killed.Kill(), policy)
		require.Equal(t, []string{"0", "1", "2"}, values(t, again.log))
		epoch, ok := again.log.Epochs().Latest()
		require.True(t, ok)
		require.EqualValues(t, 3, epoch)
		require.True(t, again.log.Recovery().SameBoot)
		again.close(t)

		// No kill leaves a damaged batch before a complete one.
		damage(t, killed, "data/t-0/00000000000000000000.log", 16) // magic
		requireNoOpen(t, killed, policy, ErrCorrupt)
		o.close(t)
	}
}

// Records below the durable offset after Sync, or after the timer's sync, survive a power cut that
// loses everything else. Their files' names survive, too.
func TestSyncOfANewLogMakesItsNamesDurable(t *testing.T) {
	t.Parallel()
	disk := vfs.Mem()
	o := openWeak(t, disk, SyncNever)
	require.NoError(t, o.log.LeadInEpoch(3))
	fill(t, o.log, 2)
	for _, m := range moments(disk, modelledCrashes(disk, 3), func() { require.NoError(t, o.log.syncNow()) }) {
		again := openWeak(t, m.disk, SyncNever)
		require.Subset(t, []string{"0", "1"}, values(t, again.log), "crash before %v", m.before)
		again.close(t)
	}
	require.EqualValues(t, 2, o.log.DurableOffset())
	left := disk.CrashWith(lostAll())
	p, err := vfs.ReadFile(left, "data/t-0/owner")
	require.NoError(t, err)
	require.Equal(t, "mine", string(p))
	again := openWeak(t, left, SyncNever)
	require.Equal(t, []string{"0", "1"}, values(t, again.log))
	epoch, ok := again.log.Epochs().Latest() // found in the batches
	require.True(t, ok)
	require.EqualValues(t, 3, epoch)
	again.close(t)
	o.close(t)
}

// Checklist row L4: SyncRecords of a new log waits for the disk once. The wait covers its records,
// the names of their files, and the owner's files there. Sync waits for the state, too.
func TestRecordsOfANewLogAreSyncedInOneTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := vfs.Mem()
		disk := vfs.Faulty(mem)
		d, err := OpenDirectory("data", DirectoryConfig{FS: disk})
		require.NoError(t, err)
		l, err := Open("data/t-0", Config{FS: disk, Dir: d, Sync: SyncNever, Beside: func(string) error { return disk.SyncDir("data") }})
		require.NoError(t, err)
		fill(t, l, 2)
		slow := disk.Inject(vfs.Fault{Ops: vfs.OpSync | vfs.OpSyncDir, Times: vfs.Always, Delay: time.Second})
		began := time.Now()
		require.NoError(t, l.SyncRecords())
		require.Equal(t, time.Second, time.Since(began))
		require.EqualValues(t, 2, l.DurableOffset())
		after, err := Open("data/t-0", Config{FS: mem.CrashWith(lostAll())})
		require.NoError(t, err)
		require.Equal(t, []string{"0", "1"}, values(t, after))
		require.NoError(t, after.Close())
		fill(t, l, 1)
		began = time.Now()
		require.NoError(t, l.Sync())
		require.Greater(t, time.Since(began), time.Second)
		require.True(t, isThere(t, mem, "data/t-0/"+stateFile))
		slow()
		require.NoError(t, l.Close())
		require.ErrorIs(t, l.SyncRecords(), ErrClosed)
		require.NoError(t, d.Close())
	})
}

// A power cut can keep the provisional state without the files that it describes. It does not
// count then.
func TestProvisionalStateOfAnotherRunOfTheMachineDoesNotCount(t *testing.T) {
	t.Parallel()
	disk := vfs.Mem()
	o := openWeak(t, disk, SyncNever)
	fill(t, o.log, 2)
	left := disk.CrashWith(vfs.CrashOptions{Data: vfs.CrashKept, Sizes: vfs.CrashKept, Entries: vfs.CrashKept})
	require.True(t, isThere(t, left, "data/t-0/"+provisionalFile))
	require.NoError(t, left.Remove("data/t-0/00000000000000000000.log"))
	again := openWeak(t, left, SyncNever)
	require.EqualValues(t, 0, again.log.EndOffset())
	fill(t, again.log, 1)
	require.Equal(t, []string{"0"}, values(t, again.log))
	again.close(t)

	gone := disk.Kill() // but a process that was killed has lost no file
	require.NoError(t, gone.Remove("data/t-0/00000000000000000000.log"))
	requireNoOpen(t, gone, SyncNever, ErrMissingSegment)
	o.close(t)
}

// For every change to a new log except appends, and for the next open, the state is as durable as
// in any other log.
func TestProvisionalStateIsReplacedBeforeAnythingButAppends(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(l *Log) error{
		"roll":     (*Log).Roll,
		"epoch":    func(l *Log) error { return l.SetLeaderEpoch(3) },
		"truncate": func(l *Log) error { return l.TruncateTo(1) },
		"delete":   func(l *Log) error { return l.DeleteRecords(1) },
		"empty":    func(l *Log) error { return l.TruncateFully(7) },
		"sync":     (*Log).Sync,
		"policy": func(l *Log) error {
			cfg := *l.cfg.Load()
			cfg.Sync = SyncOnAck
			return l.Reconfigure(cfg)
		},
		"gap":   func(l *Log) error { return replicate(l, 9) },
		"open":  nil,
		"close": func(l *Log) error { return l.Close() },
	} {
		disk := vfs.Mem()
		o := openWeak(t, disk, SyncNever)
		if name == "epoch" {
			require.NoError(t, o.log.LeadInEpoch(3))
		}
		fill(t, o.log, 2)
		require.False(t, isThere(t, disk, "data/t-0/"+stateFile), name)
		if name == "open" {
			disk = disk.Kill()
			d, err := OpenDirectory("data", DirectoryConfig{FS: disk})
			require.NoError(t, err)
			l, err := Open("data/t-0", Config{Dir: d, Sync: SyncNever})
			require.NoError(t, err)
			require.True(t, isThere(t, disk.CrashWith(lostAll()), "data/t-0/"+stateFile), name)
			require.NoError(t, errors.Join(l.Close(), d.Close()))
		} else {
			require.NoError(t, change(o.log), name)
			require.True(t, isThere(t, disk.CrashWith(lostAll()), "data/t-0/"+stateFile), name)
		}
		require.False(t, isThere(t, disk, "data/t-0/"+provisionalFile), name)
		require.NoError(t, o.log.Close())
		require.NoError(t, o.dir.Close())
	}
}

// A read-only open of a new log sees the records that the writer's process has. It continues when
// the first state is written.
func TestReadOnlyLogThatWasOpenedOnAProvisionalStateGoesOn(t *testing.T) {
	t.Parallel()
	disk := vfs.Mem()
	o := openWeak(t, disk, SyncNever)
	require.NoError(t, o.log.LeadInEpoch(3))
	fill(t, o.log, 2)
	view, err := OpenReadOnly("data/t-0", Config{FS: disk})
	require.NoError(t, err)
	require.Equal(t, []string{"0", "1"}, values(t, view))
	epoch, ok := view.Epochs().Latest()
	require.True(t, ok)
	require.EqualValues(t, 3, epoch)
	require.NoError(t, o.log.Roll())
	fill(t, o.log, 1)
	require.Equal(t, []string{"0", "1"}, values(t, view))
	require.NoError(t, o.log.TruncateTo(1))
	_, err = view.Read(nil, 0, 1)
	require.ErrorIs(t, err, ErrChanged)
	require.NoError(t, view.Close())
	o.close(t)
}

// A directory whose names could not be synced does not count as durable after the next sync.
func TestNewLogIsBrokenByASyncOfItsNamesThatFails(t *testing.T) {
	t.Parallel()
	for _, pattern := range []string{"t-0", "data", "owner"} {
		disk := vfs.Mem()
		o := openWeak(t, disk, SyncNever)
		fill(t, o.log, 1)
		failure := errors.New("input/output error")
		disk.Inject(vfs.Fault{Ops: vfs.OpSync | vfs.OpSyncDir, Pattern: pattern, Err: failure})
		require.ErrorIs(t, o.log.Sync(), failure, pattern)
		require.ErrorIs(t, o.log.Sync(), failure, pattern)
		require.EqualValues(t, 0, o.log.DurableOffset())
		_, err := o.log.Append(t.Context(), record.String("", "", "no"))
		require.ErrorIs(t, err, failure)
		require.Error(t, o.log.Close())
		_ = o.dir.Close()
	}
}

// An open that finds a provisional state writes one that names only files that no power cut can
// remove.
func TestOpenAfterAKillOfANewLogSurvivesAnyCrash(t *testing.T) {
	t.Parallel()
	first := vfs.Mem()
	o := openWeak(t, first, SyncNever)
	fill(t, o.log, 2)
	disk := first.Kill()
	var opened weak
	for _, m := range moments(disk, modelledCrashes(disk, 8), func() { opened = openWeak(t, disk, SyncNever) }) {
		again := openWeak(t, m.disk, SyncNever)
		require.Subset(t, []string{"0", "1"}, values(t, again.log), "crash before %v", m.before)
		again.close(t)
	}
	require.Equal(t, []string{"0", "1"}, values(t, opened.log))
	opened.close(t)
	o.close(t)
}

// A Kafka broker has since used the directory and closed it. Its files count, not the provisional
// state.
func TestProvisionalStateIsVoidAfterABroker(t *testing.T) {
	t.Parallel()
	disk := vfs.Mem()
	o := openWeak(t, disk, SyncNever)
	fill(t, o.log, 2)
	left := disk.Kill()
	brokerStops(t, left)
	again := openWeak(t, left, SyncNever)
	require.True(t, isThere(t, left, "data/t-0/"+provisionalFile+voidSuffix))
	require.Equal(t, []string{"0", "1"}, values(t, again.log))
	again.close(t)
	o.close(t)
}

// syncOnAck sets the policy of a log to SyncOnAck.
func syncOnAck(l *Log) error {
	cfg := *l.cfg.Load()
	cfg.Sync = SyncOnAck
	return l.Reconfigure(cfg)
}

// A new log whose policy becomes SyncOnAck gets everything onto stable storage in two waits for
// the disk. At no moment is a state there without the records that it reports as durable.
func TestNewLogThatIsToBeSyncedIsSettledInTwoTurns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		disk := vfs.Mem()
		o := openWeak(t, disk, SyncNever)
		require.NoError(t, o.log.LeadInEpoch(3))
		fill(t, o.log, 2)
		remove := disk.Inject(vfs.Fault{Ops: vfs.OpSync | vfs.OpSyncDir, Times: vfs.Always, Delay: time.Second})
		begin := time.Now()
		require.NoError(t, syncOnAck(o.log))
		require.Equal(t, 2*time.Second, time.Since(begin))
		require.EqualValues(t, 2, o.log.DurableOffset())
		remove()
		o.close(t)
	})

	for _, solo := range []bool{false, true} {
		disk := vfs.Mem()
		var o weak
		if solo {
			l, err := Open("data/t-0", Config{FS: disk, Sync: SyncNever})
			require.NoError(t, err)
			o.log = l
		} else {
			o = openWeak(t, disk, SyncNever)
		}
		fill(t, o.log, 2)
		if solo { // writes a file for the epoch, and with that syncs the directory
			require.NoError(t, o.log.LeadInEpoch(3))
		}
		for _, m := range moments(disk, modelledCrashes(disk, 8), func() { require.NoError(t, syncOnAck(o.log)) }) {
			settled := isThere(t, m.disk, "data/t-0/"+stateFile)
			again, err := Open("data/t-0", Config{FS: m.disk})
			require.NoError(t, err, "crash before %v", m.before)
			if got := values(t, again); settled {
				require.Equal(t, []string{"0", "1"}, got, "crash before %v", m.before)
			} else {
				require.Subset(t, []string{"0", "1"}, got, "crash before %v", m.before)
			}
			require.NoError(t, again.Close())
		}
		// The recovery point is behind the records: damage to them is not taken for a torn write.
		left := disk.CrashWith(lostAll())
		require.True(t, isThere(t, left, "data/t-0/"+stateFile))
		damage(t, left, "data/t-0/00000000000000000000.log", 90)
		_, err := Open("data/t-0", Config{FS: left})
		require.ErrorIs(t, err, ErrCorrupt)
		require.NoError(t, o.log.Close())
	}
}

// The records' sync fails while a new log switches to SyncOnAck. They do not count as durable: the
// log has no state, and is broken.
func TestNewLogThatCannotBeSettledIsBroken(t *testing.T) {
	t.Parallel()
	for _, pattern := range []string{"*.log", "t-0", "data", "owner"} {
		disk := vfs.Mem()
		o := openWeak(t, disk, SyncNever)
		fill(t, o.log, 1)
		failure := errors.New("input/output error")
		disk.Inject(vfs.Fault{Ops: vfs.OpSync | vfs.OpSyncDir, Pattern: pattern, Err: failure})
		require.ErrorIs(t, syncOnAck(o.log), failure, pattern)
		require.EqualValues(t, 0, o.log.DurableOffset(), pattern)
		require.False(t, isThere(t, disk, "data/t-0/"+stateFile), pattern)
		_, err := o.log.Append(t.Context(), record.String("", "", "no"))
		require.ErrorIs(t, err, failure, pattern)
		require.Error(t, o.log.Close())
		_ = o.dir.Close()
	}
}
