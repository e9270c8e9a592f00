package consumer_test

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/consumer"
)

// allocations returns the allocations of fn for each of n records.
func allocations(n int, fn func()) float64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	fn()
	runtime.ReadMemStats(&after)
	return float64(after.Mallocs-before.Mallocs) / float64(n)
}

func TestConsumingByValueAllocatesNothingPerRecord(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	c := openFull(t, 100, consumer.Config{})
	n := 0
	per := allocations(benchRecords, func() {
		for _, err := range c.Records(t.Context()) {
			if err != nil {
				t.Error(err)
				return
			}
			if n++; n == benchRecords {
				return
			}
		}
	})
	require.Less(t, per, 0.02)
	t.Logf("%.4f allocations per record", per)
}

func TestPollingAllocatesNothingPerRecord(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	c := openFull(t, 100, consumer.Config{})
	per := allocations(benchRecords, func() {
		for n := 0; n < benchRecords; {
			b, err := c.Poll(t.Context())
			require.NoError(t, err)
			n += b.Len()
		}
	})
	require.Less(t, per, 0.02)
	t.Logf("%.4f allocations per record", per)
}
