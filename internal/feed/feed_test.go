package feed

import (
	"context"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/leaktest"
	"github.com/stratalog/strata/internal/synctest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// next returns the next reading, which must not wait.
func next(t *testing.T, r *Reader[int]) Reading[int] {
	t.Helper()
	got, ok := r.Next(t.Context())
	require.True(t, ok)
	return got
}

func TestEachReaderGetsEverythingInOrderFromWhereItBegan(t *testing.T) {
	f := New[int](4)
	f.Put(1)
	require.False(t, f.Wanted())
	a := f.Reader()
	require.True(t, f.Wanted())
	f.Put(10, 20)
	b := f.Reader()
	f.Put(30)
	for i, want := range []int{10, 20, 30} {
		require.Equal(t, Reading[int]{Item: want, Number: int64(i + 1)}, next(t, a))
	}
	require.Equal(t, Reading[int]{Item: 30, Number: 3}, next(t, b))
}

func TestSlowReaderIsToldHowMuchItHasMissed(t *testing.T) {
	f := New[int](4)
	slow := f.Reader()
	for i := range 11 {
		f.Put(i + 1)
	}
	require.Equal(t, Reading[int]{Missed: 7, Number: 7}, next(t, slow))
	for i := range 4 {
		require.Equal(t, Reading[int]{Item: 8 + i, Number: int64(8 + i)}, next(t, slow))
	}
	require.Len(t, f.ring, 4)
}

func TestReaderWaitsForWhatComes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := New[int](4)
		r := f.Reader()
		var wg sync.WaitGroup
		var got []int
		wg.Go(func() {
			for g, ok := r.Next(t.Context()); ok; g, ok = r.Next(t.Context()) {
				got = append(got, g.Item)
			}
		})
		for i := range 10 {
			synctest.Wait()
			f.Put(i)
		}
		f.Close()
		wg.Wait()
		require.Equal(t, []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, got, "also what came with the end")
		f.Put(11)
		_, ok := r.Next(t.Context())
		require.False(t, ok)
	})
}

func TestContextEndsAReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := New[int](4)
		r := f.Reader()
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan bool, 1)
		go func() {
			_, ok := r.Next(ctx)
			ended <- ok
		}()
		synctest.Wait()
		cancel()
		require.False(t, <-ended)
		f.Put(1)
		_, ok := r.Next(ctx)
		require.False(t, ok, "ctx comes first")
		require.Equal(t, 1, next(t, r).Item, "it is there for the next one")
	})
}
