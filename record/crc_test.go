package record

import (
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCombinedCRCIsThatOfTheWhole(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	p := make([]byte, 1<<20+3)
	for i := range p {
		p[i] = byte(rng.Uint32())
	}
	for range 200 {
		whole := p[:rng.IntN(len(p))]
		if rng.IntN(4) == 0 {
			whole = whole[:min(len(whole), rng.IntN(10))]
		}
		cut := rng.IntN(len(whole) + 1)
		first, second := crc32.Checksum(whole[:cut], castagnoli), crc32.Checksum(whole[cut:], castagnoli)
		require.Equal(t, crc32.Checksum(whole, castagnoli), combineCRC(first, second, len(whole)-cut), "%d of %d bytes", cut, len(whole))
	}
}

// A builder that sums early makes the same bytes, regardless of the calls in between.
func TestSummingEarlyChangesNothing(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 7))
		var early, late Builder
		early.SumEarly()
		for range 3 { // the builder is used again
			limit := rng.IntN(100_000)
			early.Reset(limit)
			late.Reset(limit)
			for range rng.IntN(400) {
				value := make([]byte, rng.IntN(1<<rng.IntN(15)))
				ms := rng.Int64N(1000)
				var headers []Header
				if rng.IntN(3) == 0 {
					headers = []Header{{Key: "k", Value: value[:len(value)/2]}}
				}
				require.Equal(t, late.AppendKV(ms, nil, value, headers), early.AppendKV(ms, nil, value, headers))
				if rng.IntN(50) == 0 {
					require.Equal(t, late.Bytes(), early.Bytes())
				}
				if rng.IntN(50) == 0 {
					id := rng.Int64()
					late.SetProducer(id, 3, 4)
					early.SetProducer(id, 3, 4)
				}
			}
			if late.Len() == 0 {
				continue
			}
			codec := []Codec{None, Zstd}[rng.IntN(2)]
			want, err := late.AppendBatch(nil, codec)
			require.NoError(t, err)
			got, err := early.AppendBatch(nil, codec)
			require.NoError(t, err)
			require.Equal(t, want, got, "seed %d", seed)
			_, _, err = Parse(got)
			require.NoError(t, err, "seed %d", seed)
		}
	}
}

func BenchmarkCombineCRC(b *testing.B) {
	for _, n := range []int{100, 64 << 10} {
		b.Run(fmt.Sprintf("bytes=%d", n), func(b *testing.B) {
			for b.Loop() {
				combineCRC(0x12345678, 0x9abcdef0, n)
			}
		})
	}
}
