package log

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/vfs"
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

func TestCompactionWithMoreKeysThanMemoryTakesSeveralPasses(t *testing.T) {
	cfg := compacting
	cfg.CompactionMemory = 24 << 10 // 768 keys
	l := openClean(t, vfs.Mem(), cfg)
	for round := range 2 {
		for i := range 20 {
			var kv []string
			for j := range 100 {
				kv = append(kv, fmt.Sprintf("%d=%d", i*100+j, round))
			}
			appendKV(t, l, kv...)
		}
	}
	require.NoError(t, l.Roll())
	passes := 0
	for {
		rep := clean(t, l).Compaction
		if rep.Skipped != "" {
			break
		}
		require.LessOrEqual(t, rep.End-rep.FirstDirty, int64(768+100))
		passes++
	}
	require.Equal(t, 6, passes, "4,000 records, 700 at a time: whole batches")
	n := 0
	for r, err := range l.Records(0) {
		require.NoError(t, err)
		require.Equal(t, "1", string(r.Value))
		n++
	}
	require.Equal(t, 2000, n)
	require.NoError(t, l.Close())
}
