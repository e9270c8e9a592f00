package strata_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/consumer"
	"github.com/stratalog/strata/topic"
	"github.com/stratalog/strata/vfs"
)

// The coordinator of a group loads what the last one has written, from disks that hang: Close does
// not wait for that.
func TestCloseIsBoundedWhileDisksHang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg, disks := lossy()
		c, err := strata.Open(cfg)
		require.NoError(t, err)
		require.NoError(t, c.CreateTopic(t.Context(), "orders", threeReplicas))
		settled(t, c, "orders", 3)
		group, err := consumer.New(c, consumer.Config{Group: "billing", Topics: []string{"orders"}, Commit: consumer.CommitManual, Reset: consumer.Earliest()})
		require.NoError(t, err)
		for r, err := range group.Records(t.Context()) {
			require.NoError(t, err)
			require.NoError(t, group.Commit(t.Context(), r))
			break
		}
		require.NoError(t, group.Close())

		for _, d := range disks {
			d.Inject(vfs.Fault{Ops: vfs.OpRead, Times: vfs.Always, Delay: time.Hour})
		}
		coordinator, err := c.Backend().FindCoordinator(t.Context(), "billing")
		require.NoError(t, err)
		require.NoError(t, c.Backend().StopBroker(t.Context(), coordinator))
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		_, err = c.Group(ctx, "billing")
		require.ErrorIs(t, err, context.DeadlineExceeded, "the coordinator loads")
		begin := time.Now()
		err = c.Close()
		require.LessOrEqual(t, time.Since(begin), 30*time.Second)
		if err != nil {
			require.ErrorIs(t, err, context.DeadlineExceeded)
		}
		t.Log(time.Since(begin), err)
		time.Sleep(24 * time.Hour) // what hangs has ended
	})
}

// Who shuts down what somebody else is closing waits as long as its own context allows.
func TestEveryCallerOfShutdownWaitsByItsOwnContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fsys := vfs.Mem()
		c, err := strata.Open(strata.Config{FS: fsys, Dir: "data"})
		require.NoError(t, err)
		require.NoError(t, c.CreateTopic(t.Context(), "orders", topic.Config{}))
		fsys.Inject(vfs.Fault{Ops: vfs.OpAny, Times: vfs.Always, Delay: 100 * time.Millisecond})
		begin := time.Now()
		closed := make(chan error, 1)
		go func() { closed <- c.Close() }()
		synctest.Wait()
		for _, wait := range []time.Duration{0, 50 * time.Millisecond} {
			ctx, cancel := context.WithTimeout(t.Context(), wait)
			asked := time.Now()
			require.ErrorIs(t, c.Shutdown(ctx), context.DeadlineExceeded)
			require.Equal(t, wait, time.Since(asked))
			cancel()
		}
		require.NoError(t, c.Shutdown(t.Context()), "the same closing")
		require.NoError(t, <-closed)
		require.Greater(t, time.Since(begin), 100*time.Millisecond)
		require.NoError(t, c.Close())
	})
}
