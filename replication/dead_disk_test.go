package replication

import (
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/sample"
	"github.com/stratalog/strata/vfs"
)

// One disk of three fails while the cluster opens, in one call or from that call on. The cluster
// opens, and can change its metadata. It was closed in order or lost power before.
func TestClusterOpensWhicheverCallOfOneDiskFails(t *testing.T) {
	origin := newDisks(3)
	c, err := Open(origin.config())
	require.NoError(t, err)
	create(t, c, "orders", 6)
	cut := origin.crash()
	require.NoError(t, c.Close())
	for how, origin := range map[string]disks{"closed": origin, "power cut": cut} {
		for broken := int32(1); broken <= 3; broken++ {
			for _, times := range []int{1, vfs.Always} {
				down := 0
				for after := 0; ; after++ {
					what := fmt.Sprintf("%s, broker %d, call %d, %d times", how, broken, after, times)
					reached, wasDown := origin.kill().openBeside(t, broken, vfs.Fault{Ops: vfs.OpAny, After: after, Times: times, Err: errDisk}, what)
					if !reached {
						break
					}
					if wasDown {
						down++
					}
					if sample.Hurried() && after >= 50 { // identity and metadata are read by then
						after += 4
					}
				}
				require.Positive(t, down)
			}
		}
	}
}

func (ds disks) crash() (dead disks) {
	for _, d := range ds {
		dead = append(dead, d.CrashWith(vfs.CrashOptions{Data: vfs.CrashLost, Sizes: vfs.CrashLost, Entries: vfs.CrashLost}))
	}
	return dead
}

// openBeside opens the cluster with a fault of one disk. It reports whether a call failed, and
// whether the broker is down.
func (ds disks) openBeside(t *testing.T, broken int32, fault vfs.Fault, what string) (reached, down bool) {
	t.Helper()
	disk := ds[broken-1]
	mend := disk.Inject(fault)
	var hit atomic.Bool
	stop := disk.Observe(vfs.Observer{After: func(_ vfs.Event, err error) { hit.CompareAndSwap(false, errors.Is(err, fault.Err)) }})
	c, err := Open(ds.config())
	stop()
	reached = hit.Load()
	require.NoError(t, err, what)
	create(t, c, "new", 3)
	if cause := c.failures[broken]; cause != nil {
		down = true
		require.ErrorIs(t, cause, fault.Err, what)
		require.NotErrorIs(t, cause, ErrDamaged, what)
		require.NotContains(t, c.Brokers(), broken, what)
		require.Contains(t, c.Members(), broken, what)
		if fault.Times == vfs.Always {
			require.ErrorIs(t, c.StartBroker(t.Context(), broken), fault.Err, what)
		}
		mend()
		require.NoError(t, c.StartBroker(t.Context(), broken), what)
		require.Equal(t, []int32{1, 2, 3}, c.Brokers(), what)
	}
	mend()
	_ = c.Close() // one of its files may have failed
	return reached, down
}

// With only one broker, Open returns the error of its disk, and does not report damage.
func TestDiskErrorOfTheOnlyBrokerIsNoDamage(t *testing.T) {
	origin := newDisks(1)
	c, err := Open(origin.config())
	require.NoError(t, err)
	create(t, c, "orders", 1)
	require.NoError(t, c.Close())
	failed := 0
	for after := 0; ; after++ {
		ds := origin.kill()
		var reached atomic.Bool
		mend := ds[0].Inject(vfs.Fault{Ops: vfs.OpOpen | vfs.OpRead | vfs.OpReadDir | vfs.OpStat | vfs.OpClose, After: after, Times: vfs.Always, Err: errDisk})
		stop := ds[0].Observe(vfs.Observer{After: func(_ vfs.Event, err error) { reached.CompareAndSwap(false, errors.Is(err, errDisk)) }})
		c, err := Open(ds.config())
		stop()
		mend()
		if err == nil {
			_ = c.Close()
		} else {
			failed++
			require.ErrorIs(t, err, errDisk, after)
			require.NotErrorIs(t, err, ErrDamaged, after)
			c, err = Open(ds.config())
			require.NoError(t, err, after)
			require.Equal(t, []string{"orders"}, names(t, c))
			require.NoError(t, c.Close())
		}
		if !reached.Load() {
			break
		}
	}
	require.Positive(t, failed)
}

// Two dead disks of three are too many. For a cluster that does not exist yet, one is too many.
func TestDeadDisksThatTheOthersCannotDoWithout(t *testing.T) {
	dead := vfs.Fault{Ops: vfs.OpAny, Times: vfs.Always, Err: errDisk}
	ds := newDisks(3)
	mend := ds[2].Inject(dead)
	_, err := Open(ds.config())
	require.ErrorIs(t, err, errDisk)
	for _, d := range ds {
		require.Zero(t, d.Count(vfs.OpChange), "nothing was changed")
	}
	mend()
	c, err := Open(ds.config())
	require.NoError(t, err)
	create(t, c, "orders", 1)
	require.NoError(t, c.Close())
	for _, d := range ds[1:] {
		d.Inject(dead)
	}
	_, err = Open(ds.config())
	require.ErrorIs(t, err, errDisk)
	require.NotErrorIs(t, err, ErrMissing, "all directories are there")
	require.NotErrorIs(t, err, ErrDamaged)
}

// Restore fails if it cannot read a directory of the backup. It does not leave the directory out.
func TestRestoreNeedsEveryDirectory(t *testing.T) {
	fsys := vfs.Mem()
	c := openBrokers(t, fsys, 3)
	require.NoError(t, c.Close())
	mend := fsys.Inject(vfs.Fault{Ops: vfs.OpStat, Pattern: unfinishedFile, After: 1, Times: 1, Err: errDisk})
	require.ErrorIs(t, Restore(t.Context(), fsys, "data", "restored"), errDisk)
	mend()
	require.NoError(t, Restore(t.Context(), fsys, "data", "restored"))
}

// A broker starts while another one's disk fails, in one call or from then on. The broker with the
// working disk serves, unless the outcome of its registration is unknown. The error includes the
// error of the disk.
func TestBrokerStartsBesideAnothersFailingDisk(t *testing.T) {
	for broken := int32(1); broken <= 2; broken++ { // 1 is the controller
		for _, times := range []int{1, vfs.Always} {
			for _, ops := range []vfs.Op{vfs.OpWrite, vfs.OpChange} {
				for after := range 8 {
					what := fmt.Sprintf("broker %d, %v, call %d, %d times", broken, ops, after, times)
					ds := newDisks(3)
					c, err := Open(ds.config())
					require.NoError(t, err)
					require.NoError(t, c.KillBroker(3))
					mend := ds[broken-1].Inject(vfs.Fault{Ops: ops, After: after, Times: times, Err: errDisk})
					err = c.StartBroker(t.Context(), 3)
					if err != nil {
						require.ErrorIs(t, err, errDisk, what)
						require.ErrorIs(t, err, ErrMetadataReadOnly, what)
						require.NotEqual(t, vfs.OpWrite, ops, what)
						require.NotContains(t, err.Error(), "map[", what)
					} else {
						require.Contains(t, c.Brokers(), int32(3), what)
						create(t, c, "new", 1)
					}
					mend()
					_ = c.Close() // a file may have failed
					again, err := Open(ds.config())
					require.NoError(t, err, what)
					require.Equal(t, []int32{1, 2, 3}, again.Brokers(), what)
					require.NoError(t, again.Close())
					ds.requireEqualCopies(t)
				}
			}
		}
	}
}

// Two disks fail one after the other, in the change that registers a broker and in the next
// attempt. The broker is down, and may be started again. StartBroker returns the disk's error.
func TestBrokerThatJoinsIsToldWhoseDiskFails(t *testing.T) {
	failed := 0
	for after := range 12 {
		ds := newDisks(5)
		c, err := Open(ds.config())
		require.NoError(t, err)
		require.NoError(t, c.KillBroker(5))
		ds.fail(2)
		ds[2].Inject(vfs.Fault{Ops: vfs.OpWrite, After: after, Times: vfs.Always, Err: errDisk})
		if err = c.StartBroker(t.Context(), 5); err != nil {
			require.ErrorIs(t, err, errDisk, after)
			if errors.Is(err, ErrMetadataReadOnly) { // both fail in one change: too few are left
				_ = c.Close()
				continue
			}
			failed++
			require.NotContains(t, c.Brokers(), int32(5), after)
			require.NoError(t, c.StartBroker(t.Context(), 5), after)
		}
		require.Contains(t, c.Brokers(), int32(5), after)
		create(t, c, "new", 1)
		_ = c.Close() // files have failed
	}
	require.Positive(t, failed)
}
