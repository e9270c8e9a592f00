package log

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/sample"
	"github.com/stratalog/strata/internal/segment"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/vfs"
)

const bedDir = "/log"

// lastValues returns the table that a reader builds from the latest values.
func lastValues(dump string) map[string]string {
	out := map[string]string{}
	for _, f := range strings.Fields(dump) {
		_, kv, ok := strings.Cut(f, ":")
		if !ok || kv == "!" {
			continue
		}
		if k, v, ok := strings.Cut(kv, "="); ok {
			out[k] = v
		} else {
			delete(out, k)
		}
	}
	return out
}

// compactedLog returns a log in which a compaction merges three segments. Two of them keep
// records, and one has an aborted transaction.
func compactedLog(t testing.TB, fsys vfs.FS) *Log {
	l := openClean(t, fsys, compacting)
	appendKV(t, l, "a=1", "b=1")
	var b record.Builder
	b.SetProducer(9, 0, 0)
	b.SetTransactional(true)
	b.AppendKV(1, []byte("b"), []byte("no"), nil)
	submit(t, l, &b)
	submitMarker(t, l, 9, 2)
	require.NoError(t, l.Roll())
	appendKV(t, l, "a=2", "c=1", "d=1")
	require.NoError(t, l.Roll())
	appendKV(t, l, "c=2")
	require.NoError(t, l.Roll())
	appendKV(t, l, "d=2")
	require.NoError(t, l.Sync())
	return l
}

func submit(t testing.TB, l *Log, b *record.Builder) {
	p, err := b.Build(record.None)
	require.NoError(t, err)
	done := make(chan error, 1)
	l.Submit(&Append{Batch: p, LeaderEpoch: -1, Done: func(a *Append) { done <- a.Err }})
	require.NoError(t, <-done)
}

// submitMarker aborts a transaction that began at first, and adds it to the transaction index.
func submitMarker(t testing.TB, l *Log, producer, first int64) {
	offset := l.EndOffset()
	p := record.ControlBatch(nil, record.ControlAbort, 0, record.ControlInfo{BaseOffset: offset, TimestampMs: 1, ProducerID: producer})
	done := make(chan error, 1)
	l.Submit(&Append{Batch: p, LeaderEpoch: -1, Done: func(a *Append) { done <- a.Err }})
	require.NoError(t, <-done)
	require.NoError(t, l.active().AppendAborted(segment.AbortedTxn{ProducerID: producer, FirstOffset: first, LastOffset: offset, LastStableOffset: offset + 1}))
}

// tableOf returns the table that a reader of committed records builds.
func tableOf(dump string) map[string]string {
	return lastValues(strings.ReplaceAll(dump, "2:b=no ", ""))
}

// reopened opens the log after a crash and returns its records. No file of a compaction may be
// left.
func reopened(t testing.TB, fsys vfs.FS, cfg Config) string {
	t.Helper()
	l := openClean(t, fsys, cfg)
	dump := logDump(t, l)
	require.NoError(t, l.Close())
	entries, err := fsys.ReadDir(bedDir)
	require.NoError(t, err)
	for _, e := range entries {
		for _, bad := range []string{".cleaned", ".swap", ".deleted", ".aside"} {
			require.False(t, strings.HasSuffix(e.Name(), bad), "%s is left", e.Name())
		}
	}
	return dump
}

// crashModes are power cuts: one loses everything that was not synced, others are random.
func crashModes(seeds int) []vfs.CrashOptions {
	modes := []vfs.CrashOptions{
		{Data: vfs.CrashLost, Sizes: vfs.CrashLost, Entries: vfs.CrashLost},
		{Data: vfs.CrashKept, Sizes: vfs.CrashKept, Entries: vfs.CrashKept},
		{Data: vfs.CrashOrdered, Sizes: vfs.CrashOrdered, Entries: vfs.CrashOrdered},
	}
	for seed := range uint64(seeds) {
		modes = append(modes, vfs.CrashOptions{Seed: seed, Data: vfs.CrashTorn, Sizes: vfs.CrashRandom, Entries: vfs.CrashRandom})
	}
	return modes
}

// A compaction that is repeated, because no file records how far it got, writes a result of the
// same size under the same name. That result, too, is not named by the state before it is
// committed.
func TestCrashInACompactionThatIsDoneAgainKeepsTheFirstOne(t *testing.T) {
	t.Parallel()
	modes := func(disk *vfs.MemFS) func(vfs.Event) []*vfs.MemFS {
		return func(vfs.Event) []*vfs.MemFS {
			zeros := vfs.CrashOptions{Data: vfs.CrashLost, Sizes: vfs.CrashKept, Entries: vfs.CrashKept}
			return []*vfs.MemFS{disk.CrashWith(zeros), disk.CrashWith(crashModes(1)[3]), disk.Kill().CrashWith(crashModes(0)[1])}
		}
	}
	for _, killed := range []bool{false, true} {
		disk := vfs.Mem()
		l := openClean(t, disk, compacting)
		for i := range 3 {
			appendKV(t, l, "a=1", fmt.Sprintf("b%d=1", i))
			require.NoError(t, l.Roll())
		}
		appendKV(t, l, "end=1")
		remove := disk.Inject(vfs.Fault{Ops: vfs.OpCreate, Pattern: cleanerFile + "*", Err: syscall.EIO})
		_, err := l.Clean(t.Context())
		require.ErrorIs(t, err, syscall.EIO, "nothing says how far it got")
		remove()
		want := logDump(t, l)
		if killed {
			next := disk.Kill()
			require.NoError(t, l.Close())
			disk, l = next, openClean(t, next, compacting)
		}
		for _, m := range moments(disk, modes(disk), func() { clean(t, l) }) {
			cfg := compacting
			cfg.FS = m.disk
			again, err := Open(bedDir, cfg)
			require.NoError(t, err, "crash before %v", m.before)
			require.Equal(t, want, logDump(t, again), "crash before %v", m.before)
			require.NoError(t, again.Close())
		}
		require.NoError(t, l.Close())
	}
}

// Checklist row D2: under every policy, a compaction and a crash lose no record that was synced.
func TestCrashAtEveryStepOfACompaction(t *testing.T) {
	t.Parallel()
	for _, policy := range []SyncPolicy{SyncNever, SyncOnAck} {
		disk := vfs.Mem()
		cfg := compacting
		cfg.Sync = policy
		l := compactedLog(t, disk)
		require.NoError(t, l.Reconfigure(cfg))
		before := logDump(t, l)
		cuts := moments(disk, modelledCrashes(disk, 8), func() { clean(t, l) })
		after := logDump(t, l)
		require.NotEqual(t, before, after)
		require.Equal(t, tableOf(before), tableOf(after))
		require.NoError(t, l.Close())
		require.Greater(t, len(cuts), 200)
		seen := map[string]int{}
		for _, cut := range cuts {
			got := reopened(t, cut.disk, cfg)
			seen[got]++
			require.Contains(t, []string{before, after}, got, "policy %v, crash before %v", policy, cut.before)
			require.Equal(t, got, reopened(t, cut.disk, cfg), "opening twice is opening once")
		}
		require.NotZero(t, seen[before])
		require.NotZero(t, seen[after])
	}
}

// A Kafka broker that takes the directory after a kill does not read strata.state. It finds the
// files of Kafka's own protocol.
func TestKilledCompactionIsOneOfKafkas(t *testing.T) {
	t.Parallel()
	disk := vfs.Mem()
	l := compactedLog(t, disk)
	before := logDump(t, l)
	cuts := moments(disk, randomCrashes(disk, 0), func() { clean(t, l) })
	after := logDump(t, l)
	require.NoError(t, l.Close())
	for _, cut := range cuts {
		if err := cut.disk.Remove(bedDir + "/" + stateFile); !errors.Is(err, fs.ErrNotExist) {
			require.NoError(t, err)
		}
		require.Contains(t, []string{before, after}, reopened(t, cut.disk, compacting), "killed before %v", cut.before)
	}
}

// Checklist row D3: a crash while the leftovers are being cleaned up must not make them worse.
func TestCrashWhileFinishingACompaction(t *testing.T) {
	t.Parallel()
	disk := vfs.Mem()
	l := compactedLog(t, disk)
	before := logDump(t, l)
	cuts := moments(disk, func(e vfs.Event) []*vfs.MemFS {
		if e.Op&(vfs.OpRename|vfs.OpRemove|vfs.OpSyncDir) == 0 {
			return nil
		}
		// Killed: the last rename is not on the disk yet.
		return []*vfs.MemFS{disk.Kill(), disk.CrashWith(vfs.CrashOptions{Seed: uint64(e.N), Entries: vfs.CrashKept, Data: vfs.CrashKept, Sizes: vfs.CrashKept})}
	}, func() { clean(t, l) })
	after := logDump(t, l)
	require.NoError(t, l.Close())
	states, look := 0, sample.OneIn(t, sampled(1, 6))
	for i, cut := range cuts {
		if !look(i) {
			continue
		}
		want := ""
		second := moments(cut.disk, modelledCrashes(cut.disk, 6), func() { want = reopened(t, cut.disk, compacting) })
		for _, again := range second { // the state file that was there may not have been durable
			states++
			require.Contains(t, []string{before, after}, reopened(t, again.disk, compacting))
		}
		lost := cut.disk.CrashWith(vfs.CrashOptions{Data: vfs.CrashLost, Sizes: vfs.CrashLost, Entries: vfs.CrashLost})
		require.Equal(t, want, reopened(t, lost, compacting), "what was shown once does not change")
	}
	require.Greater(t, states, sampled(500, 50))
}

// The result of an interrupted compaction must not replace later records.
func TestCompactionThatFailedIsForgottenByWhatComesAfter(t *testing.T) {
	t.Parallel()
	after := map[string]string{"a": "2", "b": "1", "c": "2", "d": "2"}
	for n := 0; ; n++ {
		disk := vfs.Mem()
		l := compactedLog(t, disk)
		// In run n, two consecutive operations fail after n of them succeeded.
		remove := disk.Inject(vfs.Fault{Ops: vfs.OpRemove | vfs.OpRename | vfs.OpWrite | vfs.OpSync | vfs.OpSyncDir, After: n, Times: 2, Err: syscall.EIO})
		hit, stop := failures(disk, syscall.EIO)
		_, err := l.Clean(t.Context())
		remove()
		stop()
		if err != nil && l.Err() == nil { // the log still works
			require.NoError(t, l.TruncateTo(2))
			appendKV(t, l, "new=1", "new=2")
			require.NoError(t, l.Sync())
		}
		want := after
		if l.Err() == nil {
			want = tableOf(logDump(t, l))
		}
		killed := disk.Kill()
		require.Equal(t, l.Err() == nil, l.Close() == nil)
		require.Equal(t, want, tableOf(reopened(t, killed, compacting)), "failure of operation %d", n)
		if hit.Load() == 0 {
			require.NoError(t, err)
			require.Greater(t, n, 10)
			return
		}
	}
}

// A log without a manifest is read by Kafka's rules.
func TestLeftoversOfKafka(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ files, want []string }{
		"deleted":           {[]string{"00.log", "00.log.deleted", "00.snapshot.deleted"}, []string{"00.log"}},
		"cleaned":           {[]string{"00.log", "00.log.cleaned", "00.index.cleaned"}, []string{"00.log"}},
		"split unfinished":  {[]string{"00.log", "10.log.cleaned", "10.log.swap", "20.log.swap"}, []string{"00.log", "10.log.swap.aside", "20.log.swap.aside"}},
		"swap":              {[]string{"00.log", "00.index", "10.log", "00.log.swap", "00.index.swap"}, []string{"00.index", "00.log", "10.log"}},
		"swap of a merge":   {[]string{"00.log", "05.log", "05.snapshot", "05.txnindex", "00.log.swap"}, []string{"00.log"}},
		"only indexes left": {[]string{"00.log", "00.timeindex.swap", "00.txnindex.swap"}, []string{"00.log", "00.timeindex", "00.txnindex"}},
		"other files":       {[]string{"00.log", "x.swap", "partition.metadata"}, []string{"00.log", "partition.metadata", "x.swap"}},
	} {
		t.Run(name, func(t *testing.T) {
			disk := vfs.Mem()
			require.NoError(t, disk.MkdirAll(bedDir, 0o755))
			pad := func(n string) string {
				if n[0] >= '0' && n[0] <= '9' {
					return strings.Repeat("0", 18) + n
				}
				return n
			}
			for _, f := range test.files {
				touch(t, disk, pad(f))
			}
			l, err := Open(bedDir, Config{FS: disk})
			require.NoError(t, err)
			require.NoError(t, l.Close())
			var want []string
			for _, f := range test.want {
				want = append(want, pad(f))
			}
			slices.Sort(want)
			var got []string
			entries, err := disk.ReadDir(bedDir)
			require.NoError(t, err)
			for _, e := range entries {
				if !slices.Contains([]string{lockFile, stateFile, epochFile}, e.Name()) && !(strings.HasSuffix(e.Name(), "index") && !slices.Contains(want, e.Name())) {
					got = append(got, e.Name())
				}
			}
			require.Equal(t, want, got)
		})
	}
}

// touch creates a file. For a segment, its data is a batch with offsets base to base+9.
func touch(t *testing.T, fsys vfs.FS, name string) {
	t.Helper()
	p := []byte(nil)
	if strings.Contains(name, ".log") {
		var base int64
		_, err := fmt.Sscanf(name, "%d", &base)
		require.NoError(t, err)
		var b record.Builder
		for range 10 {
			b.AppendKV(1, []byte("k"), nil, nil)
		}
		b.SetBaseOffset(base)
		p, err = b.Build(record.None)
		require.NoError(t, err)
	}
	require.NoError(t, vfs.WriteFile(fsys, bedDir+"/"+name, p))
}
