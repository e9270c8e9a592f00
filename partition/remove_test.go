package partition

import (
	"io/fs"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/vfs"
)

func TestRemoveOfAClosedPartitionSaysSo(t *testing.T) {
	t.Parallel()
	disk := vfs.Mem()
	p := openLeader(t, testConfig(disk))
	require.NoError(t, send(p, batchSpec{pid: 1}).Err)
	require.NoError(t, p.Close())
	require.ErrorIs(t, p.Remove(), ErrClosed)
	again := openLeader(t, testConfig(disk))
	require.Equal(t, int64(1), again.HighWatermark())
	require.ErrorIs(t, p.Remove(), ErrClosed)
	require.NoError(t, again.Remove())
	_, err := disk.Stat("p")
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.NoError(t, again.Remove())
	require.NoError(t, again.Close())
}
