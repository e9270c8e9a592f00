package topic

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/partition"
)

// The settings are read for every partition that is opened, and listed in the answer for every
// topic that is created over the network.
func TestReadingSettingsAllocatesNothingForEachKey(t *testing.T) {
	set := map[string]string{"retention.ms": "1000", "cleanup.policy": "compact,delete"}
	for name, config := range map[string]map[string]string{"defaults": nil, "two keys set": set} {
		s, err := Parse(config, nil)
		require.NoError(t, err)
		var p partition.Config
		require.LessOrEqual(t, testing.AllocsPerRun(100, func() { p = s.Partition(p) }), 5*float64(len(config)), name)
		var all []Setting
		require.LessOrEqual(t, testing.AllocsPerRun(100, func() { all = s.Describe() }), 2.0, name)
		require.NotEmpty(t, all)
	}
	require.Zero(t, testing.AllocsPerRun(100, func() { _, _ = Parse(nil, nil) }))
}
