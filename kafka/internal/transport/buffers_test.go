package transport

import (
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestBufferClassesFitAndWasteLittle(t *testing.T) {
	for size := 8; size <= mostKept; size += 1 + size/100 {
		c := classOf(size)
		require.GreaterOrEqual(t, classSize(c), size)
		require.LessOrEqual(t, classSize(c), size+size/4)
		require.Less(t, classSize(c-1), size)
	}
}

// Requests of any size follow each other on two connections.
func TestRequestsOfManySizesTakeNoMoreMemoryThanTheLargest(t *testing.T) {
	var r requestBuffers
	rng := rand.New(rand.NewPCG(1, 1))
	get := func() []byte {
		size := leastStocked<<rng.IntN(6) + rng.IntN(leastStocked)
		b := r.take(size)
		if cap(b) == 0 {
			b = r.make(size)
		}
		require.Empty(t, b)
		require.GreaterOrEqual(t, cap(b), size)
		require.Less(t, cap(b), 4*size)
		return b
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range 1000 {
		a, b := get(), get()
		r.keep(a)
		r.keep(b)
		require.LessOrEqual(t, r.held, 3*mostKept)
	}
	runtime.ReadMemStats(&after)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(8*mostKept), "2,000 requests of up to 2 MiB")
	t.Logf("%d KiB allocated", (after.TotalAlloc-before.TotalAlloc)>>10)
}

func TestFetchBuffersAreUsedAgainAndBounded(t *testing.T) {
	var f FetchBuffers
	require.Nil(t, f.Take(leastFetchBuffer-1, 1<<20), "small answers")
	require.Nil(t, f.Take(1<<20, 1<<19), "more than is granted")
	b := f.Take(1<<20-1, 1<<20)
	require.Equal(t, 1<<20, cap(b))
	f.Keep(b)
	again := f.Take(1<<20, 1<<20)
	require.Same(t, &b[:1][0], &again[:1][0])
	require.Zero(t, f.held)
	for range 5 {
		f.Keep(make([]byte, 0, mostFetchBuffer))
	}
	require.Len(t, f.free, keptFetchBytes/mostFetchBuffer)
	require.Equal(t, keptFetchBytes, f.held)
	f.Keep(nil)
	require.Equal(t, keptFetchBytes, f.held)
}

// The sizes of the answers to two readers vary, as they do when the readers fall behind and catch
// up.
func TestReadersOfAnswersThatVaryKeepABufferEach(t *testing.T) {
	var f FetchBuffers
	rng := rand.New(rand.NewPCG(1, 1))
	for range 1000 {
		a := f.Take(leastFetchBuffer<<rng.IntN(7), 55<<20)
		b := f.Take(leastFetchBuffer<<rng.IntN(7), 55<<20)
		f.Keep(a)
		f.Keep(b)
		require.LessOrEqual(t, f.held, 2*leastFetchBuffer<<6)
	}
	require.LessOrEqual(t, len(f.free), 4)
}
