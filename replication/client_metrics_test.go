package replication

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/vfs"
)

func setClientMetrics(t *testing.T, c *Cluster, name, interval string) {
	t.Helper()
	require.NoError(t, c.AlterClientMetricsProperties(t.Context(), name, intervalOf(interval)))
}

// intervalOf returns an edit that leaves interval.ms as the only property, or none for "".
func intervalOf(interval string) func(map[string]string) (map[string]string, error) {
	return func(map[string]string) (map[string]string, error) {
		if interval == "" {
			return nil, nil
		}
		return map[string]string{"interval.ms": interval}, nil
	}
}

func TestClientMetricsAreThereAfterKillAndAfterPowerLoss(t *testing.T) {
	fsys := vfs.Mem()
	c := openWith(t, Config{FS: fsys, Dir: "data", Brokers: 3})
	lost := vfs.CrashOptions{Data: vfs.CrashLost, Sizes: vfs.CrashLost, Entries: vfs.CrashLost}
	check := func(want map[string]map[string]string) {
		t.Helper()
		got, version := c.ClientMetricsProperties()
		require.Equal(t, want, got)
		require.Equal(t, version, c.ClientMetricsVersion())
		for _, disk := range []vfs.FS{fsys.Kill(), fsys.CrashWith(lost)} {
			again, err := Open(Config{FS: disk, Dir: "data"})
			require.NoError(t, err)
			got, _ := again.ClientMetricsProperties()
			require.Equal(t, want, got)
			require.NoError(t, again.Close())
		}
	}
	require.Empty(t, c.metrics.Load().configs.Names())
	setClientMetrics(t, c, "slow", "1000")
	setClientMetrics(t, c, "fast", "100")
	check(map[string]map[string]string{"slow": {"interval.ms": "1000"}, "fast": {"interval.ms": "100"}})
	version := c.ClientMetricsVersion()
	create(t, c, "orders", 1)
	setClientMetrics(t, c, "fast", "100")
	require.NoError(t, c.DryRun().AlterClientMetricsProperties(t.Context(), "fast", intervalOf("200")))
	require.Equal(t, version, c.ClientMetricsVersion(), "nothing was changed")
	setClientMetrics(t, c, "slow", "")
	require.Greater(t, c.ClientMetricsVersion(), version)
	check(map[string]map[string]string{"fast": {"interval.ms": "100"}})
	setClientMetrics(t, c, "fast", "")
	check(map[string]map[string]string{})
}

func TestSnapshotsKeepClientMetrics(t *testing.T) {
	fsys := vfs.Mem()
	c, err := Open(Config{FS: fsys, Dir: "data", metaSlack: -1})
	require.NoError(t, err)
	for i := range 100 {
		setClientMetrics(t, c, "slow", strconv.Itoa(1000+i))
	}
	require.NoError(t, c.Close())
	c, err = Open(Config{FS: fsys, Dir: "data"})
	require.NoError(t, err)
	got, _ := c.ClientMetricsProperties()
	require.Equal(t, map[string]map[string]string{"slow": {"interval.ms": "1099"}}, got)
	require.NoError(t, c.Close())
}
