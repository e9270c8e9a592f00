package partition

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/vfs"
)

// A write that a coordinator decided on as the leader of one epoch must not be appended in
// another. Another replica may have led in between.
func TestAppendBoundToAnEpochIsRefusedInEveryOther(t *testing.T) {
	p := openLeader(t, testConfig(vfs.Mem()))
	append := func(epoch *int32) ProduceResult {
		done := make(chan ProduceResult, 1)
		p.Produce(&ProduceRequest{Batch: batchSpec{}.build(), Acks: record.AcksAll, LeaderEpoch: epoch, Done: func(r ProduceResult) { done <- r }})
		return <-done
	}
	in := func(epoch int32) *int32 { return &epoch }
	require.NoError(t, append(in(0)).Err)
	require.ErrorIs(t, append(in(1)).Err, ErrUnknownLeaderEpoch)
	require.NoError(t, p.BecomeLeader(4))
	require.ErrorIs(t, append(in(0)).Err, ErrFencedLeaderEpoch)
	require.ErrorIs(t, append(in(3)).Err, ErrFencedLeaderEpoch)
	require.ErrorIs(t, append(in(5)).Err, ErrUnknownLeaderEpoch)
	require.NoError(t, append(in(4)).Err)
	require.NoError(t, append(nil).Err, "any epoch")
	p.BecomeFollower()
	refused := append(in(4))
	require.ErrorIs(t, refused.Err, ErrNotLeader)
	require.EqualValues(t, -1, refused.BaseOffset)
	require.EqualValues(t, 3, p.LogEndOffset(), "what is refused leaves nothing")
}
