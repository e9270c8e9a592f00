package replication

import (
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/metarecord"
	"github.com/stratalog/strata/internal/sample"
	"github.com/stratalog/strata/log"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/replication/internal/metalog"
	"github.com/stratalog/strata/topic"
	"github.com/stratalog/strata/vfs"
)

// without returns the disks, with empty ones for some brokers.
func (ds disks) without(brokers ...int) disks {
	left := slices.Clone(ds)
	for _, id := range brokers {
		left[id-1] = vfs.Mem()
	}
	return left
}

// with returns the disks, with the disks of some brokers taken from another set.
func (ds disks) with(from disks, brokers ...int) disks {
	all := slices.Clone(ds)
	for _, id := range brokers {
		all[id-1] = from[id-1]
	}
	return all
}

// dieWhile runs fn and returns all disks as a kill or a power cut leaves them before the n-th
// change of the metadata's files. It returns nil if there were fewer changes.
func (ds disks) dieWhile(fn func(), n int, cut bool) (dead disks) {
	var mu sync.Mutex // no change begins while the disks are copied
	for _, d := range ds {
		d.Observe(vfs.Observer{Before: func(e vfs.Event) {
			mu.Lock()
			defer mu.Unlock()
			ours := strings.Contains(e.Name, topic.MetadataTopic) || strings.Contains(e.Name, metalog.PromiseFile)
			if e.Op&vfs.OpChange == 0 || !ours {
				return
			}
			if n--; n != 0 {
				return
			}
			for _, d := range ds {
				if cut {
					dead = append(dead, d.CrashWith(vfs.CrashOptions{Data: vfs.CrashLost, Sizes: vfs.CrashLost, Entries: vfs.CrashLost}))
				} else {
					dead = append(dead, d.Kill())
				}
			}
		}})
	}
	fn()
	for _, d := range ds {
		d.Observe(vfs.Observer{})
	}
	return dead
}

// The process dies in two opens in a row, the second time perhaps with an epoch begun on one disk
// only. Others continue without that disk, and nothing is lost when it returns.
// TestNothingCommittedIsEverLost found this case.
func TestDeathsInsideOfOpensWithOtherDisksMissingLoseNothing(t *testing.T) {
	origin := newDisks(4)
	c := openWith(t, origin.config())
	create(t, c, "first", 1)
	require.NoError(t, c.Close())
	open := func(ds disks, n int) (dead disks) {
		var c *Cluster
		dead = ds.dieWhile(func() { c, _ = Open(ds.config()) }, n, n%2 == 0)
		if c != nil {
			_ = c.Close()
		}
		return dead
	}
	every := 3
	if sample.Hurried() {
		every = 7
	}
	look := sample.OneIn(t, every)
	looked := 0
	for n := 1; ; n++ {
		if !look(n) {
			continue
		}
		one := open(origin.kill().without(3), n)
		if one == nil {
			break
		}
		for m := 1; ; m++ {
			if !look(n + m) {
				continue
			}
			two := open(one.kill(), m)
			if two == nil {
				break
			}
			looked++
			where := fmt.Sprintf("before change %d of the first open and %d of the second", n, m)
			three := two.with(origin.kill(), 3).without(1)
			c, err := Open(three.config())
			require.NoError(t, err, where)
			create(t, c, "second", 1)
			require.NoError(t, c.Close(), where)
			four := three.with(two, 1)
			c, err = Open(four.config())
			require.NoError(t, err, where)
			require.Equal(t, []string{"first", "second"}, names(t, c), where)
			require.NoError(t, c.Close(), where)
			four.requireEqualCopies(t)
		}
	}
	t.Logf("%d pairs of deaths", looked)
	require.Greater(t, looked, 30)
}

// A promise that cannot be read, or is damaged, takes down its broker and nothing else.
func TestPromiseThatCannotBeReadCostsItsBroker(t *testing.T) {
	for _, content := range []string{"", "epoch=", "epoch=-2\n", "7\n", "epoch=99999999999\n"} {
		ds := newDisks(3)
		c := openWith(t, ds.config())
		create(t, c, "first", 1)
		require.NoError(t, c.Close())
		require.NoError(t, vfs.WriteFile(ds[1], "data/broker-2/"+metalog.PromiseFile, []byte(content)))
		mend := func() {}
		if content == "" {
			require.NoError(t, vfs.WriteFile(ds[1], "data/broker-2/"+metalog.PromiseFile, []byte("epoch=1\n")))
			mend = ds[1].Inject(vfs.Fault{Ops: vfs.OpOpen | vfs.OpRead, Pattern: metalog.PromiseFile, Times: vfs.Always, Err: errDisk})
		}
		c, err := Open(ds.config())
		require.NoError(t, err)
		require.Equal(t, []int32{1, 3}, c.Brokers())
		err = c.StartBroker(t.Context(), 2)
		if content == "" {
			require.ErrorIs(t, err, errDisk)
		} else {
			require.ErrorIs(t, err, ErrDamaged)
			require.ErrorContains(t, err, metalog.PromiseFile)
		}
		mend()
		require.NoError(t, vfs.WriteFile(ds[1], "data/broker-2/"+metalog.PromiseFile, []byte("epoch=40\n")))
		require.NoError(t, c.StartBroker(t.Context(), 2))
		require.NoError(t, c.Close())
		c, err = Open(ds.config())
		require.NoError(t, err)
		require.EqualValues(t, 41, c.Stats().ControllerEpoch, "above what one of them has promised")
		require.NoError(t, c.Close())
		ds.requireEqualCopies(t)
	}
}

// A cluster that is closed or killed, and then opened, needs no promise file.
func TestOpensThatCompleteLeaveNoPromiseFile(t *testing.T) {
	ds := newDisks(3)
	c := openWith(t, ds.config())
	for range 3 {
		create(t, c, fmt.Sprint("t", c.MetadataVersion()), 1)
		require.NoError(t, c.KillBroker(2))
		require.NoError(t, c.StartBroker(t.Context(), 2))
		ds = ds.kill()
		_ = c.Close()
		c = openWith(t, ds.config())
	}
	require.NoError(t, c.Close())
	for i, d := range ds {
		_, err := d.Stat(fmt.Sprintf("data/broker-%d/%s", i+1, metalog.PromiseFile))
		require.ErrorIs(t, err, fs.ErrNotExist)
	}
}

// fenceAndDie changes a closed cluster like a controller that takes over with all copies except
// those of fenced. The controller dies when its first change, which fences these, is on some
// copies only.
func (ds disks) fenceAndDie(t *testing.T, fenced, on []int32) {
	t.Helper()
	c, err := Open(ds.kill().config())
	require.NoError(t, err)
	recs := c.image.Fence(fenced, nil)
	require.NoError(t, c.Close())
	for _, rec := range recs { // the registrations of the open above are not on ds
		change := rec.(*metarecord.BrokerChange)
		change.BrokerEpoch = ds.brokerEpoch(t, change.BrokerID)
	}
	for id := range ds {
		id := int32(id + 1)
		if slices.Contains(fenced, id) {
			continue
		}
		l, err := log.Open(fmt.Sprintf("data/broker-%d/__cluster_metadata-0", id), log.Config{FS: ds[id-1]})
		require.NoError(t, err)
		epoch, _ := l.Epochs().Latest()
		require.NoError(t, l.SetLeaderEpoch(epoch+1))
		if slices.Contains(on, id) {
			appendRecords(t, l, recs...)
		}
		require.NoError(t, l.Close())
	}
}

// brokerEpoch returns the epoch of a broker's last registration.
func (ds disks) brokerEpoch(t *testing.T, broker int32) (epoch int64) {
	t.Helper()
	l, err := log.OpenReadOnly("data/broker-1/__cluster_metadata-0", log.Config{FS: ds[0]})
	require.NoError(t, err)
	defer l.Close()
	for b, err := range l.Batches(0) {
		require.NoError(t, err)
		it, err := b.Records(0)
		require.NoError(t, err)
		var raw record.Record
		for more, err := it.Next(&raw); more; more, err = it.Next(&raw) {
			require.NoError(t, err)
			rec, err := metarecord.Parse(raw.Value)
			require.NoError(t, err)
			if r, ok := rec.(*metarecord.RegisterBroker); ok && r.BrokerID == broker {
				epoch = r.BrokerEpoch
			}
		}
	}
	return epoch
}

// A controller died while it made brokers 1, 2 and 5 the set, with the change on copies 1 and 5.
// The others continued without this change. 1 and 5 are more than half of that set, and must not
// continue by themselves.
func TestSetThatMayNotBeCommittedIsNotEnough(t *testing.T) {
	ds := newDisks(5)
	c := openWith(t, ds.config())
	create(t, c, "first", 1)
	require.NoError(t, c.Close())
	ds.fenceAndDie(t, []int32{3, 4}, []int32{1, 5})
	others := ds.without(1, 5)
	c, err := Open(others.config())
	require.NoError(t, err)
	create(t, c, "second", 1)
	require.NoError(t, c.Close())
	_, err = Open(ds.kill().without(2, 3, 4).config())
	require.ErrorIs(t, err, ErrMissing)
	require.ErrorContains(t, err, "kept by brokers [1 2 3 4 5] or [1 2 5], and more than half of them are needed")
	all := others.with(ds, 1, 5)
	c, err = Open(all.config())
	require.NoError(t, err)
	require.Equal(t, []string{"first", "second"}, names(t, c))
	require.NoError(t, c.Close())
	all.requireEqualCopies(t)
}

// A controller that does not know which set is in force takes over with half of each possible one.
// Its first change registers all reachable brokers, and not only the brokers of the last set.
func TestFirstSetOfAControllerHasHalfOfAnyThatMayBeInForce(t *testing.T) {
	ds := newDisks(5)
	c := openWith(t, ds.config())
	create(t, c, "first", 1)
	require.NoError(t, c.Close())
	ds.fenceAndDie(t, []int32{3, 4}, []int32{1, 5})
	c, err := Open(ds.without(2, 4).config())
	require.NoError(t, err)
	require.Equal(t, []int32{1, 3, 5}, c.Brokers())
	first := c.image.Members[1].Epoch
	require.Equal(t, []int64{first + 1, first + 2}, []int64{c.image.Members[3].Epoch, c.image.Members[5].Epoch})
	require.NoError(t, c.Close())
}

// An epoch stays used even if too many copies refuse its first change.
func TestEpochWhoseFirstChangeIsTakenBackIsNotUsedAgain(t *testing.T) {
	ds := newDisks(3)
	c := openWith(t, ds.config())
	create(t, c, "first", 1)
	epoch := c.Stats().ControllerEpoch
	require.NoError(t, c.Close())
	var mend []func()
	for _, id := range []int{2, 3} {
		mend = append(mend, ds[id-1].Inject(vfs.Fault{Ops: vfs.OpWrite, Pattern: "*.log", Times: vfs.Always, Err: errDisk}))
	}
	_, err := Open(ds.config())
	require.ErrorIs(t, err, errDisk)
	l, err := (&node{location: location{id: 1, fs: ds[0], root: "data/broker-1"}}).copyPlace().Open()
	require.NoError(t, err)
	require.Equal(t, epoch+1, l.Promised())
	require.NoError(t, l.Close())
	for _, m := range mend {
		m()
	}
	c = openWith(t, ds.config())
	require.Equal(t, epoch+2, c.Stats().ControllerEpoch)
	require.NoError(t, c.Close())
}

// The last set is committed if each of its copies has it, whatever came after it.
func TestSetThatAllOfItsCopiesHaveIsEnough(t *testing.T) {
	ds := newDisks(2)
	c := openWith(t, ds.config())
	create(t, c, "first", 1)
	require.NoError(t, c.Close())
	one := ds.kill()
	one.fenceAndDie(t, []int32{2}, []int32{1})
	one = one.without(2)
	c, err := Open(one.config())
	require.NoError(t, err)
	create(t, c, "second", 1)
	require.NoError(t, c.Close())
	_, err = Open(ds.without(2).config())
	require.ErrorIs(t, err, ErrMissing, "of two brokers one does not know whether the other went on")
}

// After a stop has returned, the other brokers can continue without the stopped one, even if some
// of them fail. The metadata shows that their set is in force.
func TestBrokersThatWereStoppedNeedNotBeThere(t *testing.T) {
	ds := newDisks(5)
	c := openWith(t, ds.config())
	create(t, c, "first", 3)
	for _, id := range []int32{5, 4} {
		require.NoError(t, c.StopBroker(t.Context(), id))
	}
	left := ds.kill().without(3, 4, 5)
	require.NoError(t, c.Close())
	c, err := Open(left.config())
	require.NoError(t, err)
	require.Equal(t, []string{"first"}, names(t, c))
	require.NoError(t, c.Close())
}

// Only the copy of a broker that had not joined yet is left. AcceptMetadataLoss accepts it.
func TestCopyOfABrokerThatDidNotJoinIsTakenIfAskedFor(t *testing.T) {
	ds := newDisks(2)
	cfg := ds[:1].config()
	c := openWith(t, cfg)
	create(t, c, "first", 1)
	// The copy is brought up to date, and then the change with which the broker joins fails.
	mend := ds[1].Inject(vfs.Fault{Ops: vfs.OpWrite, Pattern: "*.log", After: 1, Times: vfs.Always, Err: errDisk})
	_, err := c.AddBroker(t.Context(), 2, BrokerSpec{FS: ds[1]})
	require.ErrorIs(t, err, errDisk)
	mend()
	require.NoError(t, c.Close())
	cfg = ds.without(1).config()
	_, err = Open(cfg)
	require.ErrorIs(t, err, ErrMissing)
	cfg.AcceptMetadataLoss = true
	c, err = Open(cfg)
	require.NoError(t, err)
	require.Equal(t, []int32{2}, c.Brokers())
	require.NoError(t, c.EnsureTopic(t.Context(), "next", topic.Config{}))
	require.NoError(t, c.Close())
}

// appendRecords appends a batch of records to a copy of the metadata.
func appendRecords(t *testing.T, l *log.Log, recs ...metarecord.Record) {
	t.Helper()
	var b record.Builder
	b.Reset(0)
	for _, rec := range recs {
		b.AppendKV(0, nil, metarecord.Append(nil, rec), nil)
	}
	batch, err := b.Build(record.None)
	require.NoError(t, err)
	_, err = l.AppendBatch(t.Context(), batch)
	require.NoError(t, err)
}
