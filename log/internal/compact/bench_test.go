package compact

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stratalog/strata/record"
)

func BenchmarkCompaction(b *testing.B) {
	for _, codec := range []record.Codec{record.None, record.LZ4} {
		b.Run(fmt.Sprintf("records=100x1000/keys=5000/codec=%v", codec), func(b *testing.B) {
			rnd := rand.New(rand.NewPCG(1, 1))
			var size int64
			for b.Loop() {
				b.StopTimer()
				bed := newCompactBed(b)
				size = 0
				for range 100 {
					var kv []string
					for i := range 1000 {
						kv = append(kv, fmt.Sprintf("key-%d=%064d", rnd.IntN(5000), i))
					}
					bed.put(codec, kv...)
					if bed.active().Size() > 1<<20 {
						size += bed.active().Size()
						bed.roll(0)
					}
				}
				b.StartTimer()
				bed.compact()
			}
			b.SetBytes(size)
		})
	}
}
