package replication

import (
	"context"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/vfs"
)

func TestClusterIsUnhealthyWhileItsDiskIsFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, ds := openThree(t)
		replicated(t, c, "orders", 1)
		require.NoError(t, c.Healthy(t.Context()))
		mend := fails(ds[1], failures["full"])
		require.NoError(t, c.Healthy(t.Context()), "the result of the last second")
		time.Sleep(trialAge)
		err := c.Healthy(t.Context())
		require.ErrorIs(t, err, syscall.ENOSPC)
		require.ErrorContains(t, err, "broker 2: ")
		require.NotContains(t, err.Error(), "broker 1")
		require.ErrorIs(t, c.TryDisk(t.Context(), 2), syscall.ENOSPC)
		mend()
		time.Sleep(time.Minute) // its followers are in sync again
		require.NoError(t, c.Healthy(t.Context()))
	})
}

func TestUnhealthyClustersNameTheirBrokersAndPartitions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := openThree(t)
		create(t, c, "orders", 3)
		require.NoError(t, c.KillBroker(2))
		time.Sleep(time.Minute)
		err := c.Healthy(t.Context())
		require.ErrorIs(t, err, ErrBrokerDown)
		require.ErrorContains(t, err, "broker 2: ")
		require.ErrorContains(t, err, "1 partitions are offline, the first: orders-")
		require.NoError(t, c.StartBroker(t.Context(), 2))
		require.NoError(t, c.Healthy(t.Context()))
		require.ErrorIs(t, c.TryDisk(t.Context(), 4), ErrBrokerDown)
		require.NoError(t, c.Close())
		require.ErrorIs(t, c.Healthy(t.Context()), ErrClosed)
	})
}

// Calls during a hang of a disk share one test of the disk, which ends with the disk or the
// broker.
func TestHealthCheckOfADiskThatHangsEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, ds := openThree(t)
		defer ds[2].Inject(vfs.Fault{Ops: vfs.OpSync, Pattern: trialFile, Delay: time.Hour})()
		for range 3 { // a second test of the disk would not be delayed
			ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, context.DeadlineExceeded)
			err := c.Healthy(ctx)
			cancel()
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.ErrorContains(t, err, "broker 3: data/broker-3 does not answer")
		}
		require.NoError(t, c.Close())
	})
}
