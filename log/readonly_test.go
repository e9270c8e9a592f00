package log

import (
	"context"
	"io/fs"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/segment"
	"github.com/stratalog/strata/log/internal/recovery"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/vfs"
)

// The state that a reader of a live log saw is outdated when it closes. None of it may get into
// the writer's files.
func TestReadOnlyLogTakesNothingBackFromItsWriter(t *testing.T) {
	t.Parallel()
	disk := vfs.Mem()
	l := openMem(t, disk)
	fill(t, l, 20)
	ro, err := OpenReadOnly("log", Config{FS: disk})
	require.NoError(t, err)
	require.NoError(t, l.Roll())
	fill(t, l, 20)
	require.NoError(t, l.DeleteRecords(15))
	tmp := "log/" + stateFile + ".tmp"
	require.NoError(t, writeUnsynced(disk, tmp, []byte("the writer is about to rename it")))
	state, err := vfs.ReadFile(disk, "log/"+stateFile)
	require.NoError(t, err)

	require.Len(t, values(t, ro), 20)
	require.ErrorIs(t, ro.Remove(), ErrReadOnly)
	require.Len(t, values(t, ro), 20, "a refused Remove closes nothing")
	require.NoError(t, ro.Close())

	now, err := vfs.ReadFile(disk, "log/"+stateFile)
	require.NoError(t, err)
	require.Equal(t, state, now)
	_, err = disk.Stat(tmp)
	require.NoError(t, err, "the writer's temporary file")
	for seed := range uint64(20) {
		again := openMem(t, disk.Crash(seed))
		require.EqualValues(t, 15, again.StartOffset())
		require.EqualValues(t, 40, again.EndOffset())
		require.NoError(t, again.Close())
	}
	require.NoError(t, l.Close())
}

// readingMethods are the methods of a Log that are allowed on a read-only log; all others must
// return an error.
var readingMethods = strings.Fields(`AbortedTxns Batches BoundPurged Busy CheckAborted Close DurableOffset EndOffset Epochs Err Follow Held HeldFrom MaxTimestampOffset
	OffsetAt OffsetForTimestamp Path Purged Read ReadSnapshot ReadUpTo Records Recovery Segments SetHighWatermark Size SnapshotFiles StartOffset Stated Stats SyncTimes TimestampAt`)

func TestReadOnlyLogRefusesEveryChangeAndMakesNone(t *testing.T) {
	t.Parallel()
	disk := vfs.Mem()
	l, err := Open("log", Config{FS: disk, Owner: &snapshotOwner{}})
	require.NoError(t, err)
	require.NoError(t, l.SetLeaderEpoch(3))
	fill(t, l, 10)
	require.NoError(t, l.Roll())
	fill(t, l, 10)
	require.NoError(t, l.WriteSnapshot(20, []byte("x")))

	// A live log, after a kill, after a power cut.
	for _, state := range []*vfs.MemFS{disk, disk.Kill(), disk.Crash(1)} {
		watched := vfs.Faulty(state)
		ro, err := OpenReadOnly("log", Config{FS: watched, Owner: &snapshotOwner{}})
		require.NoError(t, err)
		v := reflect.ValueOf(ro)
		for i := range v.NumMethod() {
			name := v.Type().Method(i).Name
			if slices.Contains(readingMethods, name) {
				continue
			}
			results := v.Method(i).Call(anyArguments(t, name, v.Method(i).Type()))
			if strings.HasPrefix(name, "Submit") { // reports its error through Done
				continue
			}
			err := results[len(results)-1].Interface()
			require.NotNil(t, err, name)
			require.ErrorIs(t, err.(error), ErrReadOnly, name)
		}
		require.Len(t, values(t, ro), 20)
		_, _, err = ro.MaxTimestampOffset()
		require.NoError(t, err)
		_, err = ro.ReadSnapshot(20)
		require.NoError(t, err)
		require.NoError(t, ro.Close())
		require.Zero(t, watched.Count(vfs.OpChange))
		if state == disk {
			fill(t, l, 1)
			require.NoError(t, l.TruncateTo(20))
		}
	}
	require.NoError(t, l.Close())
}

// anyArguments returns arguments that a writable log would accept.
func anyArguments(t *testing.T, name string, method reflect.Type) (args []reflect.Value) {
	t.Helper()
	var b record.Builder
	b.Append(&record.Record{Value: []byte("v")})
	batch, err := b.Build(record.None)
	require.NoError(t, err)
	for i := range method.NumIn() {
		switch in := method.In(i); {
		case in == reflect.TypeFor[context.Context]():
			args = append(args, reflect.ValueOf(t.Context()))
		case in == reflect.TypeFor[*Append]():
			args = append(args, reflect.ValueOf(&Append{Batch: batch, LeaderEpoch: -1, Done: func(a *Append) {
				require.ErrorIs(t, a.Err, ErrReadOnly, name)
			}}))
		case method.IsVariadic() && i == method.NumIn()-1: // Append's records
			args = append(args, reflect.ValueOf(record.String("", "k", "v")))
		case in == reflect.TypeFor[[]byte]():
			args = append(args, reflect.ValueOf(batch))
		case in.Kind() == reflect.Int64 || in.Kind() == reflect.Int32:
			args = append(args, reflect.ValueOf(5).Convert(in))
		case in == reflect.TypeFor[vfs.FS]():
			args = append(args, reflect.ValueOf(vfs.FS(vfs.Mem())))
		default:
			args = append(args, reflect.Zero(in))
		}
	}
	return args
}

// snapshotOwner returns a snapshot at every call.
type snapshotOwner struct{}

func (*snapshotOwner) Admit(*Append) error      { return nil }
func (*snapshotOwner) Written([]*Append)        {}
func (*snapshotOwner) Refused([]*Append, error) {}
func (*snapshotOwner) Durable(int64)            {}
func (*snapshotOwner) Snapshot(int64) []byte    { return []byte("snapshot") }

// A broker's directory has no strata.state. A compacted one has gaps in its offsets, and the names
// of its files show a change that the broker had not finished.
func TestReadOnlyReadsADirectoryOfKafkas(t *testing.T) {
	t.Parallel()
	disk := vfs.Mem()
	cfg := compacting
	cfg.FS, cfg.Sync, cfg.SegmentBytes = disk, SyncNever, 400
	l, err := Open("/kafka/t-0", cfg)
	require.NoError(t, err)
	for i := range 25 {
		appendKV(t, l, "a="+strings.Repeat("x", 150), "b="+strings.Repeat("y", i), "c=1", "once"+string(rune('a'+i))+"=1")
		appendKV(t, l, "c=2") // no earlier value of c is left: gaps
		require.NoError(t, l.Roll())
		if i == 12 {
			clean(t, l)
		}
	}
	before := logDump(t, l)
	segments := len(l.Segments())
	require.Greater(t, segments, 10)
	require.NoError(t, l.Close())
	require.NoError(t, disk.Remove("/kafka/t-0/"+stateFile))
	require.NoError(t, disk.SyncDir("/kafka/t-0"))
	look := func(disk *vfs.MemFS) (*Log, string) {
		changes := disk.Count(vfs.OpChange)
		ro, err := OpenReadOnly("/kafka/t-0", Config{FS: disk})
		require.NoError(t, err)
		dump := logDump(t, ro)
		require.NoError(t, ro.Close())
		require.Equal(t, changes, disk.Count(vfs.OpChange))
		return ro, dump
	}
	ro, dump := look(disk.Crash(1))
	require.Equal(t, before, dump, "a gap is no damage")
	require.Len(t, ro.Segments(), segments)

	// Three segments are being replaced: the sources are being removed, the result is complete.
	// Then: it is incomplete.
	swapping := disk.Kill()
	ro, err = OpenReadOnly("/kafka/t-0", Config{FS: swapping})
	require.NoError(t, err)
	first := ro.Segments()
	var merged []byte
	for _, s := range first[:3] {
		p, err := vfs.ReadFile(swapping, filePath("/kafka/t-0", s.BaseOffset, segment.LogSuffix))
		require.NoError(t, err)
		merged = append(merged, p...)
	}
	require.NoError(t, ro.Close())
	swap := filePath("/kafka/t-0", first[0].BaseOffset, segment.LogSuffix) + recovery.SwapSuffix
	require.NoError(t, writeUnsynced(swapping, swap, merged))
	unfinished := swapping.Kill()
	require.NoError(t, writeUnsynced(unfinished, filePath("/kafka/t-0", first[0].BaseOffset, segment.IndexSuffix)+recovery.CleanedSuffix, nil))
	require.NoError(t, writeUnsynced(unfinished, filePath("/kafka/t-0", first[0].BaseOffset, segment.LogSuffix)+recovery.CleanedSuffix, nil))
	require.NoError(t, swapping.Remove(filePath("/kafka/t-0", first[1].BaseOffset, segment.LogSuffix)))
	ro, dump = look(swapping)
	require.Equal(t, before, dump)
	require.Len(t, ro.Segments(), segments-2)
	ro, dump = look(unfinished)
	require.Equal(t, before, dump)
	require.Len(t, ro.Segments(), segments)

	// Deleted records are not returned.
	require.NoError(t, writeUnsynced(disk, "/kafka/"+logStartFile, []byte("0\n1\nt 0 7\n")))
	ro, _ = look(disk)
	require.EqualValues(t, 7, ro.StartOffset())
	_, err = disk.Stat("/kafka/t-0/" + stateFile)
	require.ErrorIs(t, err, fs.ErrNotExist)
}

func TestReadOnlyOpenOfNoLogSaysSo(t *testing.T) {
	t.Parallel()
	disk := vfs.Mem()
	require.NoError(t, disk.MkdirAll("/empty", 0o755))
	for _, dir := range []string{"/missing", "/empty"} {
		_, err := OpenReadOnly(dir, Config{FS: disk})
		require.ErrorIs(t, err, fs.ErrNotExist)
		require.ErrorContains(t, err, dir)
	}
	_, err := disk.Stat("/missing")
	require.ErrorIs(t, err, fs.ErrNotExist)
}

// A log that its writer has emptied is empty, at the offset of its next record.
func TestReadOnlyOpenOfAnEmptiedLog(t *testing.T) {
	t.Parallel()
	disk := vfs.Mem()
	l := openMem(t, disk)
	fill(t, l, 20)
	cuts := moments(disk, randomCrashes(disk, 0), func() { require.NoError(t, l.TruncateFully(100)) })
	emptied := 0
	for i, cut := range cuts {
		ro, err := OpenReadOnly("log", Config{FS: cut.disk})
		require.NoError(t, err, "call %d", i)
		if ro.EndOffset() == 100 {
			emptied++
			require.EqualValues(t, 100, ro.StartOffset())
			require.Empty(t, values(t, ro))
			_, _, err := ro.MaxTimestampOffset()
			require.NoError(t, err)
		} else {
			require.Len(t, values(t, ro), 20)
			require.Zero(t, emptied, "call %d: the old log is back", i)
		}
		require.NoError(t, ro.Close())
	}
	require.Greater(t, emptied, 2)
	require.NoError(t, l.Close())
}
