package main

import (
	"bytes"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

// Checklist row S11.
func TestEveryJobIsDoneButTheOneThatKills(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		require.NoError(t, run(t.Context(), &out))
		require.Contains(t, out.String(), "200 jobs in one partition, 6 workers: 6 of them had work\n")
		require.Contains(t, out.String(), "199 jobs done, 0 of them more than once\n")
		require.Contains(t, out.String(), "\"job 77\" was delivered 5 times, and given up; workers failed 6 times\n")
	})
}
