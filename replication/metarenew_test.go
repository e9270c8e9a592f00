package replication

import (
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/vfs"
)

const copyLog = "data/broker-%d/__cluster_metadata-0/00000000000000000000.log"

// flip inverts a byte of a broker's copy of the metadata.
func (ds disks) flip(t *testing.T, broker int, pos int64) {
	t.Helper()
	f, err := ds[broker-1].OpenFile(fmt.Sprintf(copyLog, broker), os.O_RDWR, 0)
	require.NoError(t, err)
	b := make([]byte, 1)
	_, err = f.ReadAt(b, pos)
	require.NoError(t, err)
	b[0] ^= 0xff
	_, err = f.WriteAt(b, pos)
	require.NoError(t, err)
	require.NoError(t, f.Sync())
	require.NoError(t, f.Close())
}

// Any byte of one copy is damaged, of the controller's or another one. The cluster opens with the
// other copies, and the broker starts with a new copy.
func TestDamagedCopyOfTheMetadataCostsItsBrokerOnly(t *testing.T) {
	origin := newDisks(3)
	c, err := Open(origin.config())
	require.NoError(t, err)
	placed(t, c, "orders", 1, 2, 3)
	for p := range int32(3) {
		produce(t, c, at("orders", p), "x")
	}
	create(t, c, "new", 4)
	require.NoError(t, c.Close())
	info, err := origin[0].Stat(fmt.Sprintf(copyLog, 1))
	require.NoError(t, err)
	down := map[int]int{}
	for broker := 1; broker <= 3; broker++ {
		for pos := int64(broker); pos < info.Size(); pos += 37 {
			where := fmt.Sprintf("broker %d, byte %d of %d", broker, pos, info.Size())
			ds := origin.kill()
			ds.flip(t, broker, pos)
			c, err := Open(ds.config())
			require.NoError(t, err, where)
			require.Equal(t, []string{"new", "orders"}, names(t, c), where)
			if cause := c.failures[int32(broker)]; cause != nil {
				down[broker]++
				require.True(t, errors.Is(cause, ErrDamaged) || errors.Is(cause, errCorrupt), "%s: %v", where, cause)
				require.NotContains(t, c.Brokers(), int32(broker), where)
				create(t, c, "later", 1)
				require.NoError(t, c.StartBroker(t.Context(), int32(broker)), where)
				require.Equal(t, []int32{1, 2, 3}, leaders(t, c, "orders"), where)
				require.Equal(t, []string{"x"}, values(t, c, at("orders", int32(broker-1))), where)
				strays, err := ds[broker-1].ReadDir(fmt.Sprint("data/broker-", broker))
				require.NoError(t, err)
				require.True(t, hasStray(strays), "%s: what was damaged is kept", where)
				require.NoError(t, c.Close(), where)
				ds.requireEqualCopies(t)
				again := openWith(t, ds.config())
				require.Equal(t, []int32{1, 2, 3}, again.Brokers(), where)
				require.Equal(t, []string{"later", "new", "orders"}, names(t, again), where)
			}
			require.NoError(t, c.Close(), where)
		}
	}
	require.Positive(t, down[1], "the copy that is read as a whole")
}

func hasStray[E interface{ Name() string }](entries []E) bool {
	for _, e := range entries {
		if len(e.Name()) > len(straySuffix) && e.Name()[:20] == "__cluster_metadata-0" && e.Name()[len(e.Name())-len(straySuffix):] == straySuffix {
			return true
		}
	}
	return false
}

// A damaged copy is not given up if the other copies may be older.
func TestDamagedCopyThatMayBeTheOnlyNewestOneIsNotDoneWithout(t *testing.T) {
	ds := newDisks(3)
	c, err := Open(ds.config())
	require.NoError(t, err)
	create(t, c, "old", 1)
	require.NoError(t, c.StopBroker(t.Context(), 3))
	create(t, c, "new", 1)
	require.NoError(t, c.Close())
	whole := ds.kill()
	ds.flip(t, 1, 300)
	for range 2 {
		_, err = Open(ds.config())
		require.ErrorIs(t, err, ErrDamaged, "of brokers 1 and 2 one is not enough, and broker 3 does not count")
		require.NotErrorIs(t, err, ErrMissing, "its directory is there")
	}
	require.NoError(t, ds[0].RemoveAll("data"))
	copyAll(t, whole[0], ds[0], "data")
	c = openWith(t, ds.config())
	require.Equal(t, []string{"new", "old"}, names(t, c))
}

// The disk fails at any call while a copy is made again. The next start makes it.
func TestCopyIsMadeAnewWhateverFailsMeanwhile(t *testing.T) {
	failed := 0
	reached := failedOnce{}
	reached.at.Store(true)
	for after := 0; reached.at.Load(); after++ {
		ds := newDisks(3)
		c, err := Open(ds.config())
		require.NoError(t, err)
		create(t, c, "old", 3)
		require.NoError(t, c.Close())
		ds.flip(t, 1, 300)
		c, err = Open(ds.config())
		require.NoError(t, err)
		require.Equal(t, []int32{2, 3}, c.Brokers())
		reached.at.Store(false)
		mend := ds[0].Inject(vfs.Fault{Ops: vfs.OpChange, After: after, Times: vfs.Always, Err: errDisk})
		ds[0].Observe(reached.observer())
		if err := c.StartBroker(t.Context(), 1); err != nil {
			failed++
			require.ErrorIs(t, err, errDisk, after)
			mend()
			create(t, c, "new", 1)
			if after%2 == 0 { // by the running process, or by the next one
				_ = c.Close()
				c, err = Open(ds.config())
				require.NoError(t, err, after)
			}
			if err := c.StartBroker(t.Context(), 1); !isRunning(err) {
				require.NoError(t, err, after)
			}
		}
		mend()
		require.Equal(t, []int32{1, 2, 3}, c.Brokers(), after)
		create(t, c, "later", 1)
		_ = c.Close() // a file may have failed
		ds.requireEqualCopies(t)
	}
	require.Positive(t, failed)
}
