package log

import (
	"context"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/segment"
	"github.com/stratalog/strata/vfs"
)

// swapBed is a log in which a compaction merges three segments, two of which keep records, one an aborted transaction.
func swapBed(t testing.TB) *compactBed {
	b := newCompactBed(t)
	b.put(record.None, "a=1", "b=1")
	b.putTxn(9, 0, "b=no")
	b.end(9, record.ControlAbort, 2)
	b.roll(0)
	b.put(record.LZ4, "a=2", "c=1", "d=1")
	b.roll(0)
	b.put(record.None, "c=2")
	b.roll(0)
	b.put(record.None, "d=2")
	require.NoError(t, b.active().Sync())
	return b
}

// reopen loads a directory as a log does after a crash.
func reopen(t testing.TB, fsys vfs.FS) []*segment.Segment {
	require.NoError(t, finishCompaction(fsys, bedDir))
	entries, err := fsys.ReadDir(bedDir)
	require.NoError(t, err)
	var out []*segment.Segment
	for _, e := range entries {
		for _, bad := range []string{cleanedSuffix, swapSuffix, segment.DeletedSuffix} {
			require.False(t, strings.HasSuffix(e.Name(), bad), "%s is left", e.Name())
		}
		var base int64
		if n, _ := fmt.Sscanf(e.Name(), "%020d.log", &base); n != 1 || !strings.HasSuffix(e.Name(), ".log") {
			continue
		}
		s, err := segment.Open(bedDir, base, segment.Config{FS: fsys}, segment.OpenOptions{Clean: true, NextOffset: -1, Size: -1})
		require.NoError(t, err, e.Name())
		out = append(out, s)
	}
	return out
}

func TestCrashAtEveryStepOfACompaction(t *testing.T) {
	t.Parallel()
	probe := swapBed(t)
	before := probe.dump()
	table := lastValues(strings.ReplaceAll(before, "2:b=no ", ""))
	probe.compact()
	after := probe.dump()
	require.NotEqual(t, before, after)

	modes := []vfs.CrashOptions{
		{Data: vfs.CrashLost, Sizes: vfs.CrashLost, Entries: vfs.CrashLost},
		{Data: vfs.CrashKept, Sizes: vfs.CrashKept, Entries: vfs.CrashKept},
		{Data: vfs.CrashOrdered, Sizes: vfs.CrashOrdered, Entries: vfs.CrashOrdered},
	}
	for seed := range uint64(12) {
		modes = append(modes, vfs.CrashOptions{Seed: seed, Data: vfs.CrashTorn, Sizes: vfs.CrashRandom, Entries: vfs.CrashRandom})
	}
	b := swapBed(t)
	require.NoError(t, b.fs.SyncDir(bedDir))
	var disks []*vfs.MemFS
	var at []vfs.Event
	stop := b.fs.Observe(vfs.Observer{Before: func(e vfs.Event) {
		if e.Op&vfs.OpChange == 0 {
			return
		}
		for _, m := range modes {
			disks, at = append(disks, b.fs.CrashWith(m)), append(at, e)
		}
		disks, at = append(disks, b.fs.Kill()), append(at, e)
	}})
	b.compact()
	stop()
	require.Greater(t, len(disks), 200)
	seen := map[string]int{}
	for i, disk := range disks {
		got := dumpSegments(t, reopen(t, disk))
		seen[got]++
		require.Equal(t, table, lastValues(strings.ReplaceAll(got, "2:b=no ", "")), "crash before %v", at[i])
		if got != before && got != after {
			// Segments that lost all they had may come back once more: they are not in the range of what replaces them.
			require.Contains(t, got, strings.SplitN(after, " |", 2)[0], "crash before %v: %s", at[i], got)
		}
		again := dumpSegments(t, reopen(t, disk))
		require.Equal(t, got, again, "opening twice is opening once")
	}
	require.NotZero(t, seen[before])
	require.NotZero(t, seen[after])
}

// A crash while the leftovers are being dealt with must not make them worse.
func TestCrashWhileFinishingACompaction(t *testing.T) {
	t.Parallel()
	b := swapBed(t)
	require.NoError(t, b.fs.SyncDir(bedDir))
	var disks []*vfs.MemFS
	stop := b.fs.Observe(vfs.Observer{Before: func(e vfs.Event) {
		if e.Op&(vfs.OpRename|vfs.OpRemove|vfs.OpSyncDir) != 0 {
			disks = append(disks, b.fs.CrashWith(vfs.CrashOptions{Seed: uint64(e.N), Entries: vfs.CrashKept, Data: vfs.CrashKept, Sizes: vfs.CrashKept}))
		}
	}})
	b.compact()
	stop()
	for _, disk := range disks {
		want := map[string]bool{}
		var second []*vfs.MemFS
		stop := disk.Observe(vfs.Observer{Before: func(e vfs.Event) {
			if e.Op&vfs.OpChange != 0 {
				for seed := range uint64(6) {
					second = append(second, disk.Crash(seed))
				}
			}
		}})
		want[dumpSegments(t, reopen(t, disk))] = true
		stop()
		for _, d := range second {
			require.True(t, want[dumpSegments(t, reopen(t, d))])
		}
	}
}

func TestFailureAtEveryStepLeavesALogThatOpens(t *testing.T) {
	t.Parallel()
	before := swapBed(t).dump()
	table := lastValues(strings.ReplaceAll(before, "2:b=no ", ""))
	for n := 0; ; n++ {
		b := swapBed(t)
		hit := false
		remove := b.fs.Inject(vfs.Fault{Ops: vfs.OpChange | vfs.OpRead, After: n, Err: fs.ErrPermission})
		stop := b.fs.Observe(vfs.Observer{After: func(_ vfs.Event, err error) { hit = hit || err != nil && strings.Contains(err.Error(), "permission") }})
		_, err := b.c.run(context.Background())
		remove()
		stop()
		got := dumpSegments(t, reopen(t, b.fs))
		require.Equal(t, table, lastValues(strings.ReplaceAll(got, "2:b=no ", "")), "failure of operation %d", n)
		if !hit {
			require.NoError(t, err)
			require.Greater(t, n, 20)
			return
		}
	}
}

func TestSwapOfASegmentThatIsGoneIsForgotten(t *testing.T) {
	t.Parallel()
	b := swapBed(t)
	before := b.dump()
	gone := fmt.Errorf("truncated meanwhile")
	b.c.replace = func([]*segment.Segment, func() (*segment.Segment, error)) error { return gone }
	_, err := b.c.run(t.Context())
	require.ErrorIs(t, err, gone)
	require.Equal(t, before, dumpSegments(t, reopen(t, b.fs)))
}

// Leftovers as Kafka's loader treats them.
func TestLeftoversOfKafka(t *testing.T) {
	t.Parallel()
	touch := func(fsys *vfs.MemFS, names ...string) {
		for _, n := range names {
			p := []byte(nil)
			if strings.Contains(n, ".log") { // a batch from the base to base+9
				var base int64
				_, _ = fmt.Sscanf(n, "%d", &base)
				var b record.Builder
				for range 10 {
					b.AppendKV(1, []byte("k"), nil, nil)
				}
				b.SetBaseOffset(base)
				p, _ = b.Build(record.None)
			}
			f, err := fsys.OpenFile(bedDir+"/"+strings.Replace(n, "N", "000000000000000000", 1), 0x42, 0o644)
			require.NoError(t, err)
			_, err = f.WriteAt(append(p, n[len(n)-1]), 0)
			require.NoError(t, err)
			require.NoError(t, f.Close())
		}
	}
	for name, test := range map[string]struct{ files, want []string }{
		"deleted":           {[]string{"00.log", "00.log.deleted", "00.snapshot.deleted"}, []string{"00.log"}},
		"cleaned":           {[]string{"00.log", "00.log.cleaned", "00.index.cleaned"}, []string{"00.log"}},
		"split unfinished":  {[]string{"00.log", "10.log.cleaned", "10.log.swap", "20.log.swap"}, []string{"00.log"}},
		"swap":              {[]string{"00.log", "00.index", "10.log", "10.snapshot", "00.log.swap", "00.index.swap"}, []string{"00.index", "00.log", "10.log", "10.snapshot"}},
		"swap of a merge":   {[]string{"00.log", "05.log", "05.snapshot", "05.txnindex", "00.log.swap"}, []string{"00.log"}},
		"only indexes left": {[]string{"00.log", "00.timeindex.swap", "00.txnindex.swap"}, []string{"00.log", "00.timeindex", "00.txnindex"}},
		"other files":       {[]string{"leader-epoch-checkpoint", "x.swap", "partition.metadata"}, []string{"leader-epoch-checkpoint", "partition.metadata", "x.swap"}},
	} {
		fsys := vfs.Mem()
		require.NoError(t, fsys.MkdirAll(bedDir, 0o755))
		pad := func(n string) string {
			if n[0] >= '0' && n[0] <= '9' {
				return strings.Repeat("0", 18) + n
			}
			return n
		}
		for _, f := range test.files {
			touch(fsys, pad(f))
		}
		require.NoError(t, finishCompaction(fsys, bedDir), name)
		entries, err := fsys.ReadDir(bedDir)
		require.NoError(t, err)
		var got, want []string
		for _, e := range entries {
			got = append(got, e.Name())
		}
		for _, f := range test.want {
			want = append(want, pad(f))
		}
		slices.Sort(want)
		require.Equal(t, want, got, name)
	}
}
