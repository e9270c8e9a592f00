package partition

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestRoundKnowsTheNewestBatchOfEachProducer(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var r round
		stand := map[int64][]int32{} // the batches of each producer, by index
		t.Repeat(map[string]func(*rapid.T){
			"add": func(t *rapid.T) {
				pid := rapid.Int64Range(0, 5).Draw(t, "producer")
				r.add(admitted{before: r.last(pid), producer: pid})
				stand[pid] = append(stand[pid], int32(len(r.batches)-1))
			},
			"drop": func(t *rapid.T) {
				pid := rapid.Int64Range(0, 5).Draw(t, "producer")
				r.drop(pid)
				if n := len(stand[pid]); n > 0 {
					stand[pid] = stand[pid][:n-1]
				}
			},
			"reset": func(t *rapid.T) {
				if rapid.IntRange(0, 40).Draw(t, "rarely") == 0 {
					r.reset()
					clear(stand)
				}
			},
			"": func(t *rapid.T) {
				for pid := range int64(6) {
					want := int32(-1)
					if n := len(stand[pid]); n > 0 {
						want = stand[pid][n-1]
					}
					require.Equal(t, want, r.last(pid))
				}
			},
		})
	})
}
