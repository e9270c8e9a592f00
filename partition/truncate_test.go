package partition

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/log"
	"github.com/stratalog/strata/vfs"
)

func TestTruncationToANegativeOffsetChangesNothing(t *testing.T) {
	p := openLeader(t, testConfig(vfs.Mem()))
	require.NoError(t, send(p, batchSpec{}).Err)
	p.BecomeFollower()
	require.ErrorIs(t, p.TruncateTo(-1), log.ErrOffsetOutOfRange)
	require.NoError(t, p.BecomeLeader(1), "it is as it was")
	require.NoError(t, send(p, batchSpec{}).Err)
	require.Len(t, readAll(t, p, ReadUncommitted), 2)
}
