package log

import (
	"context"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/vfs"
)

// What a reader of a live log saw is old when it closes: none of it may get into the writer's files.
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

// readingMethods are those methods of a Log that are allowed on a read-only one; all others must refuse.
var readingMethods = strings.Fields(`AbortedTxns Batches Close DurableOffset EndOffset Epochs Err Follow Held MaxTimestampOffset
	OffsetAt OffsetForTimestamp Path Read ReadSnapshot ReadUpTo Records Recovery Segments SetHighWatermark Size SnapshotFiles StartOffset Stats`)

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

	for _, state := range []*vfs.MemFS{disk, disk.Kill(), disk.Crash(1)} { // live, killed, without power
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
			if name == "Submit" { // answers through Done
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

// anyArguments makes up arguments that a log that is not read-only would take.
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

// snapshotOwner has something to write at every chance.
type snapshotOwner struct{}

func (*snapshotOwner) Admit(*Append) error      { return nil }
func (*snapshotOwner) Written([]*Append)        {}
func (*snapshotOwner) Refused([]*Append, error) {}
func (*snapshotOwner) Durable(int64)            {}
func (*snapshotOwner) Snapshot(int64) []byte    { return []byte("snapshot") }
