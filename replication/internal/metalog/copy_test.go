package metalog

import (
	"errors"
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/metarecord"
	"github.com/stratalog/strata/replication/internal/controller"
	"github.com/stratalog/strata/replication/internal/image"
	"github.com/stratalog/strata/vfs"
)

var errDisk = errors.New("disk fails")

// copyWithUnusedEpoch returns broker 1's copy with a batch of epoch 3, followed by epoch 7 without
// batches.
func copyWithUnusedEpoch(t *testing.T, fsys vfs.FS) *Copy {
	t.Helper()
	l := openCopyOn(t, fsys)
	require.NoError(t, l.SetLeaderEpoch(3))
	batch, err := (&Log{}).encode([]metarecord.Record{&metarecord.NoOp{}})
	require.NoError(t, err)
	_, err = l.AppendBatch(t.Context(), batch)
	require.NoError(t, err)
	require.NoError(t, l.SetLeaderEpoch(7))
	return l
}

func openCopyOn(t *testing.T, fsys vfs.FS) *Copy {
	t.Helper()
	require.NoError(t, vfs.MakeDir(fsys, "data/broker-1", 0o777))
	l, err := Place{FS: fsys, Root: "data/broker-1", Blame: blame}.Open()
	require.NoError(t, err)
	return l
}

func blame(dir string, reason, cause error) error {
	return fmt.Errorf("%w: %s: %w", reason, dir, cause)
}

// cutsOfCopies are operations that remove an unused epoch from a copy.
var cutsOfCopies = map[string]func(*Copy) error{
	"cut at the end": func(l *Copy) error { return l.cut(1) },
	"cut of all":     func(l *Copy) error { return l.cut(0) },
	"begun anew":     func(l *Copy) error { return l.restart(40) },
}

// dieWhile runs fn and returns the disk as a kill or a power cut before the n-th change leaves it.
// It returns nil if there were fewer changes.
func dieWhile(fsys *vfs.MemFS, fn func(), n int, cut bool) (dead *vfs.MemFS) {
	fsys.Observe(vfs.Observer{Before: func(e vfs.Event) {
		if e.Op&vfs.OpChange == 0 {
			return
		}
		if n--; n != 0 {
			return
		}
		if cut {
			dead = fsys.CrashWith(vfs.CrashOptions{Data: vfs.CrashLost, Sizes: vfs.CrashLost, Entries: vfs.CrashLost})
		} else {
			dead = fsys.Kill()
		}
	}})
	fn()
	fsys.Observe(vfs.Observer{})
	return dead
}

// After a crash of the process or the machine at any time, the copy has the newest epoch that ever
// began on it.
func TestPromiseOfAnEpochOutlivesEveryCrash(t *testing.T) {
	for name, cut := range cutsOfCopies {
		for n := 1; ; n++ {
			fsys := vfs.Mem()
			l := copyWithUnusedEpoch(t, fsys)
			dead := dieWhile(fsys, func() { require.NoError(t, cut(l)) }, n, n%2 == 0)
			require.EqualValues(t, 7, l.Promised())
			require.NoError(t, l.Close())
			again := openCopyOn(t, fsys)
			require.EqualValues(t, 7, again.Promised())
			require.NoError(t, again.Close())
			if dead == nil {
				require.Greater(t, n, 4, name)
				break
			}
			for _, after := range []*vfs.MemFS{dead, dead.Crash(uint64(n))} {
				l := openCopyOn(t, after)
				require.EqualValues(t, 7, l.Promised(), "%s, before change %d", name, n)
				require.NoError(t, l.Close())
			}
		}
	}
}

// Whichever call fails, once or permanently, the copy keeps the newest epoch. If the write of the
// promise failed, the copy is unchanged.
func TestPromiseOfAnEpochOutlivesEveryFault(t *testing.T) {
	for name, cut := range cutsOfCopies {
		for _, fault := range []vfs.Fault{{Times: 1}, {Times: vfs.Always}, {Pattern: PromiseFile + "*", Times: 1}} {
			for fault.After = 0; ; fault.After++ {
				fsys := vfs.Mem()
				l := copyWithUnusedEpoch(t, fsys)
				hit := false
				fault.Err = errDisk
				mend := fsys.Inject(fault)
				err := cut(l)
				mend()
				if hit = err != nil; hit {
					require.ErrorIs(t, err, errDisk)
				}
				if hit && fault.Pattern != "" {
					require.EqualValues(t, 1, l.EndOffset())
					epoch, _ := l.Epochs().Latest()
					require.EqualValues(t, 7, epoch)
				}
				for _, after := range []*vfs.MemFS{fsys.Kill(), fsys.Crash(uint64(fault.After))} {
					l := openCopyOn(t, after)
					require.EqualValues(t, 7, l.Promised(), "%s, %v after %d", name, fault.Pattern, fault.After)
					require.NoError(t, l.Close())
				}
				_ = l.Close()
				if !hit && fault.After > 20 {
					break
				}
			}
		}
	}
}

// A copy shows which sets may be in force: the last set that an ordinary change follows, and all
// later sets.
func TestReplayFindsTheSetsThatMayBeInForce(t *testing.T) {
	l := openCopyOn(t, vfs.Mem())
	m := &Log{}
	epochs := map[int32]int64{}
	register := func(ids ...int32) (recs []metarecord.Record) {
		for _, id := range ids {
			epochs[id] = l.EndOffset() + 1
			recs = append(recs, &metarecord.RegisterBroker{BrokerID: id, BrokerEpoch: epochs[id]})
		}
		return recs
	}
	change := func(id int32, fenced, leaves int8) []metarecord.Record {
		return []metarecord.Record{&metarecord.BrokerChange{BrokerID: id, BrokerEpoch: epochs[id], Fenced: fenced, InControlledShutdown: leaves}}
	}
	ordinary := func() []metarecord.Record { return []metarecord.Record{&metarecord.NoOp{}} }
	for i, step := range []struct {
		recs func() []metarecord.Record
		want controller.Sets
	}{
		{ordinary, nil},
		{func() []metarecord.Record { return register(1, 2, 3) }, controller.Sets{{1, 2, 3}}},
		{func() []metarecord.Record { return register(3, 1, 2) }, controller.Sets{{1, 2, 3}}},
		{func() []metarecord.Record { return change(3, metarecord.Set, metarecord.Unchanged) }, controller.Sets{{1, 2, 3}, {1, 2}}},
		{func() []metarecord.Record { return register(3) }, controller.Sets{{1, 2, 3}, {1, 2}, {1, 2, 3}}},
		{func() []metarecord.Record { return change(2, metarecord.Unchanged, metarecord.Set) }, controller.Sets{{1, 2, 3}}},
		{func() []metarecord.Record { return change(2, metarecord.Set, metarecord.Unchanged) }, controller.Sets{{1, 2, 3}, {1, 3}}},
		{func() []metarecord.Record {
			snapshot := []metarecord.Record{&metarecord.BeginTransaction{Name: "snapshot"}, &metarecord.NoOp{Snapshot: true}}
			for id := range int32(3) {
				snapshot = append(snapshot, &metarecord.RegisterBroker{BrokerID: id + 1, BrokerEpoch: epochs[id+1], Fenced: id+1 == 2})
			}
			return snapshot
		}, controller.Sets{{1, 2, 3}, {1, 3}}},
		{func() []metarecord.Record { return []metarecord.Record{&metarecord.EndTransaction{}} }, controller.Sets{{1, 3}}},
		{func() []metarecord.Record { return register(2) }, controller.Sets{{1, 3}, {1, 2, 3}}},
		{func() []metarecord.Record {
			return append(ordinary(), change(1, metarecord.Set, metarecord.Unchanged)...)
		}, controller.Sets{{1, 3}, {1, 2, 3}, {2, 3}}},
		{ordinary, controller.Sets{{2, 3}}},
	} {
		batch, err := m.encode(step.recs())
		require.NoError(t, err)
		_, err = l.AppendBatch(t.Context(), batch)
		require.NoError(t, err)
		_, err = m.replay(l, image.New(), math.MaxInt64)
		require.NoError(t, err)
		require.Equal(t, step.want, m.sets, "step %d", i)
	}
	require.NoError(t, l.Close())
}
