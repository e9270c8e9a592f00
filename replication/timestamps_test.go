package replication

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/vfs"
)

func TestTimestampsOfPartitionsAreFoundInOneCall(t *testing.T) {
	c := open(t, vfs.Mem())
	create(t, c, "orders", 2)
	before := time.Now().UnixMilli()
	produce(t, c, at("orders", 0), "a", "b")
	got, err := c.TimestampsAt(t.Context(), record.Offsets{at("orders", 0): 0, at("orders", 1): 0, at("orders", 9): 0, at("none", 0): 0})
	require.NoError(t, err)
	require.ErrorIs(t, got[at("orders", 9)].Err, ErrUnknownTopic)
	require.ErrorIs(t, got[at("none", 0)].Err, ErrUnknownTopic)
	require.Equal(t, partition.OffsetResult{Offset: -1, TimestampMs: -1, LeaderEpoch: -1}, got[at("orders", 1)], "it was never written to")
	first := got[at("orders", 0)]
	require.NoError(t, first.Err)
	require.Zero(t, first.Offset)
	require.GreaterOrEqual(t, first.TimestampMs, before)
	require.LessOrEqual(t, first.TimestampMs, time.Now().UnixMilli())
	got, err = c.TimestampsAt(t.Context(), record.Offsets{at("orders", 0): 2})
	require.NoError(t, err)
	require.EqualValues(t, -1, got[at("orders", 0)].Offset, "all records are below it")

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = c.TimestampsAt(ctx, record.Offsets{at("orders", 0): 0})
	require.ErrorIs(t, err, context.Canceled)
}
