package log

import (
	"errors"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/synctest"
)

func TestSharedSyncServesNobodyWithASyncThatBeganBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s sharedSync
		release := make(chan struct{})
		var runs atomic.Int64
		sync := func() error {
			n := runs.Add(1)
			<-release
			if n == 2 {
				return errors.New("second")
			}
			return nil
		}
		results := make(chan error, 20)
		call := func(n int) {
			for range n {
				go func() { results <- s.do(sync) }()
				synctest.Wait()
			}
		}
		call(1)
		call(9) // while the first sync runs: they need another one, and share it
		require.EqualValues(t, 1, runs.Load())
		release <- struct{}{}
		require.NoError(t, <-results)
		synctest.Wait()
		require.EqualValues(t, 2, runs.Load())
		call(10) // while the second sync runs: not served by it
		release <- struct{}{}
		for range 9 {
			require.EqualError(t, <-results, "second")
		}
		synctest.Wait()
		require.Empty(t, results)
		release <- struct{}{}
		for range 10 {
			require.NoError(t, <-results)
		}
		require.EqualValues(t, 3, runs.Load())
		call(1)
		release <- struct{}{}
		require.NoError(t, <-results, "and it is ready for the next one")
	})
}
