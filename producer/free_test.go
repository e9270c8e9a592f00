package producer

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/record"
)

func TestFreeBatchesAreBoundedByTheirMemory(t *testing.T) {
	var f freeBatches
	require.Nil(t, f.get(&f.small))
	for _, n := range []int{maxFreeBytes / 2, maxFreeBytes / 4, maxFreeBytes / 2, maxFreeBytes / 4, 1} {
		f.put(&f.small, &batch{footprint: n})
	}
	require.Equal(t, maxFreeBytes, f.bytes, "the third and the last did not fit")
	for _, n := range []int{maxFreeBytes / 4, maxFreeBytes / 4, maxFreeBytes / 2} {
		require.Equal(t, n, f.get(&f.small).footprint)
	}
	require.Zero(t, f.bytes)
	runtime.GC()
	runtime.GC()
	require.Nil(t, f.get(&f.small), "what did not fit is gone with the garbage")
}

// atOnce is a Backend that accepts every batch at once.
type atOnce struct{ *fake }

func (a atOnce) Produce(req *partition.ProduceRequest) {
	req.Done(partition.ProduceResult{LogAppendTimeMs: -1})
}

func TestBatchesKeepTheirMemoryOverGarbageCollections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProducer(t, atOnce{newFake(map[string]int{"a": 1})}, Config{})
		send := func() int {
			_, err := p.Send(t.Context(), record.Record{Topic: "a", Value: make([]byte, 10_000)})
			require.NoError(t, err)
			synctest.Wait() // the batch is free only after the callback
			return p.batches.bytes
		}
		grown := send()
		require.Greater(t, grown, 10_000)
		runtime.GC()
		runtime.GC()
		require.Equal(t, grown, send(), "the same batch again")
		require.NoError(t, p.Close())
	})
}
