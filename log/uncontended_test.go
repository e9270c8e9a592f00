package log

import (
	"context"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/record"
)

func TestAppendsOfOneAndOfManyWritersAreCountedOnce(t *testing.T) {
	l := openBench(t, Config{Sync: SyncNever})
	const writers, each = 4, 500
	var wg sync.WaitGroup
	var mu sync.Mutex
	seen := make(map[int64]bool)
	for range writers {
		wg.Go(func() {
			for range each {
				first, err := l.Append(context.Background(), record.Record{Value: []byte("a")}, record.Record{Value: []byte("b")})
				mu.Lock()
				if err != nil || seen[first] || first%2 != 0 {
					t.Errorf("append at %d: %v", first, err)
				}
				seen[first] = true
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	first, err := l.Append(t.Context(), record.Record{Value: []byte("c")})
	require.NoError(t, err)
	require.EqualValues(t, 2*writers*each, first)
	s := l.Stats()
	require.EqualValues(t, writers*each+1, s.Batches)
	require.EqualValues(t, 2*writers*each+1, s.Records)
	require.Equal(t, l.Segments()[0].Size, s.Bytes)
	require.LessOrEqual(t, s.Rounds, s.Batches)
}
