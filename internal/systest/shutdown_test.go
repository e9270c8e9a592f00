package systest

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/consumer"
	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/vfs"
)

// The coordinator of a group loads its predecessor's records from disks that hang. Close does not
// wait for that.
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
			d.Inject(vfs.Fault{Ops: vfs.OpRead, Pattern: "*.log", Times: vfs.Always, Delay: time.Hour})
		}
		coordinator, err := c.Backend().FindCoordinator(t.Context(), "billing")
		require.NoError(t, err)
		require.NoError(t, c.Backend().StopBroker(t.Context(), coordinator))
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		_, err = c.Group(ctx, "billing")
		require.ErrorIs(t, err, context.DeadlineExceeded, "the coordinator loads")
		for _, d := range disks {
			d.Inject(vfs.Fault{Ops: vfs.OpRead, Times: vfs.Always, Delay: time.Hour})
		}
		begin := time.Now()
		err = c.Close()
		require.LessOrEqual(t, time.Since(begin), 30*time.Second)
		if err != nil {
			require.ErrorIs(t, err, context.DeadlineExceeded)
		}
		t.Log(time.Since(begin), err)
		time.Sleep(24 * time.Hour) // the hanging operations have ended
	})
}
