package replication

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/vfs"
)

// end kills or stops a broker.
func (c *Cluster) end(t *testing.T, id int32, kill bool) error {
	if kill {
		return c.KillBroker(id)
	}
	return c.StopBroker(t.Context(), id)
}

// Another disk fails while a controller ends, once, at any of its calls, or permanently. The
// disk's broker is fenced, another one is the controller, and the metadata can be changed as
// before.
func TestDiskFailsWhileTheNextControllerTakesOver(t *testing.T) {
	for _, n := range []int{4, 5} {
		for _, bad := range []int{2, n} { // the next controller, and a broker that only follows
			for _, kill := range []bool{true, false} {
				for after := range 12 {
					synctest.Test(t, func(t *testing.T) { failInTakeOver(t, n, bad, kill, vfs.Fault{After: after, Times: 1}) })
				}
				synctest.Test(t, func(t *testing.T) { failInTakeOver(t, n, bad, kill, vfs.Fault{Times: vfs.Always}) })
			}
		}
	}
}

// With three brokers, both others are needed when one has ended. A copy that fails once to begin
// the epoch is tried again when the copies are opened again.
func TestCopyThatCannotBeSparedIsAskedAgain(t *testing.T) {
	for _, file := range []string{"leader-epoch-checkpoint*", "strata.state*"} {
		for _, bad := range []int{2, 3} {
			for _, kill := range []bool{true, false} {
				synctest.Test(t, func(t *testing.T) { failInTakeOver(t, 3, bad, kill, vfs.Fault{Pattern: file, Times: 1}) })
			}
		}
	}
}

func failInTakeOver(t *testing.T, n, bad int, kill bool, fault vfs.Fault) {
	ds := newDisks(n)
	c := openWith(t, ds.config())
	placed(t, c, "orders", 1, 2, 3)
	require.Equal(t, int32(1), c.Controller())
	fault.Ops, fault.Err = vfs.OpChange, errDisk
	mend := ds[bad-1].Inject(fault)
	err := c.end(t, 1, kill)
	require.NoError(t, err, "%d brokers, disk %d, call %d", n, bad, fault.After)
	synctest.Wait() // the fenced one ends
	mend()
	require.NotEqual(t, int32(1), c.Controller())
	require.Contains(t, c.Brokers(), c.Controller())
	require.NotContains(t, c.Brokers(), int32(1))
	require.GreaterOrEqual(t, len(c.Brokers()), n-2)
	create(t, c, "new", 1)
	for _, id := range []int32{1, int32(bad)} {
		if err := c.StartBroker(t.Context(), id); !errors.Is(err, ErrBrokerRunning) {
			require.NoError(t, err)
		}
	}
	require.Len(t, c.Brokers(), n)
	create(t, c, "later", 1)
	require.Equal(t, []int32{1, 2, 3}, leaders(t, c, "orders"))
	require.NoError(t, c.Close())
	ds.requireEqualCopies(t)
}

// If too few copies begin the epoch, nothing can be changed while the disk fails. Then a change
// finds everything as before.
func TestTakeOverWithTooFewLastsAsLongAsTheDiskFails(t *testing.T) {
	ds := newDisks(3)
	c := openWith(t, ds.config())
	placed(t, c, "orders", 1, 2, 3)
	mend := ds[2].Inject(vfs.Fault{Ops: vfs.OpChange, Pattern: "leader-epoch-checkpoint*", Times: vfs.Always, Err: errDisk})
	require.ErrorIs(t, c.KillBroker(1), errDisk)
	for range 3 {
		err := c.AddPartitions(t.Context(), "orders", 5)
		require.ErrorIs(t, err, errDisk)
		require.ErrorIs(t, err, ErrMetadataReadOnly)
	}
	copies := ds.kill()
	mend()
	require.NoError(t, c.AddPartitions(t.Context(), "orders", 5))
	require.NoError(t, c.StartBroker(t.Context(), 1))
	require.Equal(t, []int32{1, 2, 3}, leaders(t, c, "orders")[:3])
	require.NoError(t, c.Close())
	ds.requireEqualCopies(t)

	c = openWith(t, copies.config())
	require.Equal(t, []int32{1, 2, 3}, leaders(t, c, "orders"), "nothing was written meanwhile")
}

// A start that fails because of a disk returns the disk's error, and can be repeated.
func TestStartThatADiskRefusesSaysWhy(t *testing.T) {
	for _, bad := range []int{1, 2, 5} { // 1 is the controller, 5 is started
		for after := range 60 {
			synctest.Test(t, func(t *testing.T) {
				ds := newDisks(5)
				c := openWith(t, ds.config())
				placed(t, c, "orders", 1, 2, 5)
				require.NoError(t, c.KillBroker(5))
				create(t, c, "new", 3)
				mend := ds[bad-1].Inject(vfs.Fault{Ops: vfs.OpChange, After: after, Times: 1, Err: errDisk})
				err := c.StartBroker(t.Context(), 5)
				synctest.Wait()
				mend()
				if err != nil {
					require.ErrorContains(t, err, errDisk.Error(), "disk %d, call %d", bad, after)
					require.True(t, errors.Is(err, errDisk) || bad != 5, "call %d: %v", after, err)
					require.NotContains(t, c.Brokers(), int32(5), "disk %d, call %d: %v", bad, after, err)
					require.Equal(t, int32(-1), c.Leader("orders", 2))
				}
				for id := range int32(5) {
					if err := c.StartBroker(t.Context(), id+1); !errors.Is(err, ErrBrokerRunning) {
						require.NoError(t, err, "disk %d, call %d", bad, after)
					}
				}
				require.Equal(t, []int32{1, 2, 3, 4, 5}, c.Brokers())
				create(t, c, "later", 1)
				require.NoError(t, c.Close())
				ds.requireEqualCopies(t)
			})
		}
	}
}
