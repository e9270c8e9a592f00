package partition

import (
	"fmt"
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

// A follower is truncated inside of a batch whose first records were deleted. The batch is
// removed, and the log continues at its start. The earlier state of producers is kept, with or
// without a snapshot of it, also after a restart or a power cut.
func TestCutInsideABatchBelowTheStartForgetsNoProducer(t *testing.T) {
	for _, rolled := range []bool{false, true} {
		for _, how := range []string{"goes on", "closed", "power cut"} {
			t.Run(fmt.Sprintf("rolled %v, %s", rolled, how), func(t *testing.T) {
				disk := vfs.Mem()
				p := reopen(t, testConfig(disk), 0)
				require.NoError(t, send(p, batchSpec{pid: 1, n: 5}).Err)
				if rolled {
					require.NoError(t, p.Roll())
				}
				require.NoError(t, send(p, batchSpec{pid: 2, n: 5}).Err)
				_, err := p.DeleteRecords(7)
				require.NoError(t, err)
				p.BecomeFollower()
				require.NoError(t, p.TruncateTo(8))
				require.EqualValues(t, 7, p.LogStartOffset())
				require.EqualValues(t, 7, p.LogEndOffset())
				switch how {
				case "closed":
					require.NoError(t, p.Close())
					p = reopen(t, testConfig(disk), 1)
				case "power cut":
					after := disk.Crash(1)
					require.NoError(t, p.Close())
					disk = after
					p = reopen(t, testConfig(disk), 1)
				default:
					require.NoError(t, p.BecomeLeader(1))
				}
				require.EqualValues(t, 7, p.LogStartOffset())
				require.EqualValues(t, 7, p.LogEndOffset())
				require.True(t, send(p, batchSpec{pid: 1, n: 5}).Duplicate)
				again := send(p, batchSpec{pid: 2, n: 5})
				require.NoError(t, again.Err)
				require.False(t, again.Duplicate, "it went with the cut")
				require.EqualValues(t, 7, again.BaseOffset)
				_, err = p.Clean(t.Context())
				require.NoError(t, err)
				require.NoError(t, p.Close())
				p = reopen(t, testConfig(disk), 2)
				require.Len(t, readAll(t, p, ReadUncommitted), 5)
				require.True(t, send(p, batchSpec{pid: 2, n: 5}).Duplicate)
				require.NoError(t, p.Close())
			})
		}
	}
}
