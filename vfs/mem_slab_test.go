package vfs

import (
	"bytes"
	"math/rand/v2"
	"os"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

// Memory for pages is not cleared: bytes that were never written still read as zeros.
func TestWhatWasNeverWrittenIsZeroWhateverTheMemoryHeld(t *testing.T) {
	for seed := range uint64(50) {
		rng := rand.New(rand.NewPCG(seed, 1))
		file, err := Mem().OpenFile("a", os.O_CREATE|os.O_RDWR, 0o666)
		require.NoError(t, err)
		d := file.(*faultFile).file.(*memFile).node.data
		if seed%2 == 1 {
			d.slabs.allocated = chunksFrom // as large files
		}
		var want []byte
		for range 60 {
			if len(d.slabs.rest) == 0 {
				d.slabs.rest = bytes.Repeat([]byte{0xff}, 40*pageSize)
			}
			switch off := rng.IntN(30 * pageSize); rng.IntN(8) {
			case 0:
				require.NoError(t, file.Truncate(int64(off)))
				want = append(want, make([]byte, max(0, off-len(want)))...)[:off]
			case 1:
				require.NoError(t, file.Sync())
			default:
				p := bytes.Repeat([]byte{byte(rng.IntN(3))}, rng.IntN(1<<rng.IntN(16)))
				_, err := file.WriteAt(p, int64(off))
				require.NoError(t, err)
				if len(p) > 0 {
					want = append(want, make([]byte, max(0, off+len(p)-len(want)))...)
					copy(want[off:], p)
				}
			}
			got := make([]byte, len(want))
			n, _ := file.ReadAt(got, 0)
			require.Equal(t, len(want), n, "seed %d", seed)
			require.True(t, bytes.Equal(want, got), "seed %d", seed)
		}
		require.NoError(t, file.Close())
	}
}

// A file that grows by small writes is a few large pieces of memory for the collector, which would
// scan each page otherwise. It has little more memory than bytes.
func TestLargeFilesInMemoryAreFewAllocations(t *testing.T) {
	file, err := Mem().OpenFile("a", os.O_CREATE|os.O_RDWR, 0o666)
	require.NoError(t, err)
	const size = 32 << 20
	p := bytes.Repeat([]byte("x"), 10_001)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for off := int64(0); off < size; off += int64(len(p)) {
		_, err := file.WriteAt(p, off)
		require.NoError(t, err)
		require.NoError(t, file.Sync())
		d := file.(*faultFile).file.(*memFile).node.data
		require.LessOrEqual(t, int64(d.slabs.allocated), d.size+d.size/2+extentBytes)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	require.Less(t, after.HeapAlloc-before.HeapAlloc, uint64(size+size/10))
	require.Less(t, after.HeapObjects-before.HeapObjects, uint64(size/pageSize/10), "one for each extent, and the slabs")
	require.NoError(t, file.Close())
}
