package compact

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestOffsetMapAgainstAMap(t *testing.T) {
	t.Parallel()
	m, model := newOffsetMap(1<<20), map[string]int64{}
	rnd := rand.New(rand.NewPCG(1, 2))
	for offset := range int64(50000) {
		key := fmt.Sprint(rnd.IntN(20000))
		require.False(t, m.full())
		m.put([]byte(key), offset)
		model[key] = offset
		require.Equal(t, len(model), m.len)
	}
	for i := range 20100 {
		want, ok := model[fmt.Sprint(i)]
		if !ok {
			want = -1
		}
		require.Equal(t, want, m.get([]byte(fmt.Sprint(i))))
	}
	require.Equal(t, int64(-1), newOffsetMap(0).get(nil))
}

func TestOffsetMapIsFullAtItsBound(t *testing.T) {
	t.Parallel()
	m := newOffsetMap(100 << 10)
	n := 0
	for ; !m.full(); n++ {
		m.put([]byte(fmt.Sprint(n)), int64(n))
	}
	require.LessOrEqual(t, len(m.slots)*mapSlotBytes, 100<<10)
	require.Equal(t, len(m.slots)/4*3, n)
	m.put([]byte("0"), 99999) // known keys always fit
	require.Equal(t, int64(99999), m.get([]byte("0")))
}
