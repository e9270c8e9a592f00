package replication

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/topic"
	"github.com/stratalog/strata/vfs"
)

// One of two brokers is stopped while the other's disk fails, from any call on. The broker serves
// again, and the metadata can be changed.
func TestStopThatLeavesNobodyIsTakenBack(t *testing.T) {
	for _, stopped := range []int32{1, 2} { // 1 is controller
		for _, ops := range []vfs.Op{vfs.OpSync | vfs.OpSyncDir, vfs.OpWrite, vfs.OpChange} {
			stays, final := 0, 0
			for after := 0; ; after++ {
				var err error
				synctest.Test(t, func(t *testing.T) {
					err = stopBesideFailure(t, stopped, vfs.Fault{Ops: ops, After: after, Times: vfs.Always, Err: errDisk})
				})
				if err == nil {
					break
				}
				if errors.Is(err, ErrLastBroker) {
					stays++
				} else {
					final++
				}
			}
			t.Logf("stop of %d, %v: %d times it serves on, %d times nobody can tell", stopped, ops, stays, final)
			require.Positive(t, stays)
			require.LessOrEqual(t, final, 2, "a write and a sync of the change that fences it")
		}
	}
}

// stopBesideFailure stops one of two brokers while the disk of the other fails. It returns the
// error of the stop.
func stopBesideFailure(t *testing.T, stopped int32, fault vfs.Fault) error {
	ds := newDisks(2)
	c, err := Open(ds.config())
	require.NoError(t, err)
	placed(t, c, "orders", 1, 2)
	for p := range int32(2) {
		produce(t, c, at("orders", p), "x")
	}
	other := 3 - stopped
	led := stopped - 1 // the stopped broker's partition
	where := fmt.Sprintf("stop of %d, %v after %d", stopped, fault.Ops, fault.After)
	mend := ds[other-1].Inject(fault)
	err = c.StopBroker(t.Context(), stopped)
	synctest.Wait()
	defer func() {
		mend()
		_ = c.Close()
		again := openWith(t, ds.config())
		require.Equal(t, []int32{1, 2}, leaders(t, again, "orders"), where)
		require.NoError(t, again.Close())
		ds.requireEqualCopies(t)
	}()
	if err == nil {
		return nil
	}
	if c.meta.Failure() != nil { // in the change that fences the broker
		require.ErrorIs(t, err, ErrMetadataReadOnly, where)
		require.ErrorIs(t, c.EnsureTopic(t.Context(), "new", topic.Config{}), ErrMetadataReadOnly, where)
		return err
	}
	require.ErrorIs(t, err, ErrLastBroker, where)
	require.Equal(t, []int32{stopped}, c.Brokers(), where)
	require.Equal(t, stopped, c.Controller(), where)
	require.Equal(t, stopped, c.Leader("orders", led), where)
	epoch := produce(t, c, at("orders", led), "y").LeaderEpoch
	require.Equal(t, c.Status("orders", led).LeaderEpoch, epoch, where)
	require.Equal(t, []string{"x", "y"}, values(t, c, at("orders", led)), where)
	create(t, c, "new", 2)
	require.Equal(t, []int32{stopped, stopped}, leaders(t, c, "new"), "it is not about to leave")
	return err
}
