package partition

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/record"
)

func TestAcksNoneWaitsForNoSync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, cfg := slowSync(10 * time.Second)
		p, err := Open("p", cfg)
		require.NoError(t, err)
		require.NoError(t, p.BecomeLeader(0))
		start := time.Now()
		synced := make(chan ProduceResult, 1)
		go p.Produce(&ProduceRequest{Batch: batchSpec{value: "first"}.build(), Done: func(r ProduceResult) { synced <- r }})
		synctest.Wait() // being synced
		for range 3 {
			b := batchSpec{value: "second"}.build()
			require.NoError(t, sendBytes(p, b, record.AcksNone).Err)
			clear(b) // the sender owns it again
		}
		require.Zero(t, time.Since(start))
		require.NoError(t, (<-synced).Err)
		require.NoError(t, send(p, batchSpec{value: "last"}).Err)
		require.Equal(t, []string{"first0", "second0", "second0", "second0", "last0"}, valuesOf(readAll(t, p, ReadUncommitted)), "in order")
		require.Zero(t, p.unawaitedBytes.Load())
		require.NoError(t, p.Close())
	})
}

func TestAcksNoneWaitsBehindMuchThatIsNotWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, cfg := slowSync(10 * time.Second)
		p, err := Open("p", cfg)
		require.NoError(t, err)
		require.NoError(t, p.BecomeLeader(0))
		start := time.Now()
		go p.Produce(&ProduceRequest{Batch: batchSpec{}.build(), Done: func(ProduceResult) {}})
		synctest.Wait() // being synced
		b := batchSpec{value: strings.Repeat("x", 1<<20-1000)}.build()
		for range 4 {
			require.NoError(t, sendBytes(p, b, record.AcksNone).Err)
		}
		require.Zero(t, time.Since(start))
		require.NoError(t, sendBytes(p, b, record.AcksNone).Err)
		require.Positive(t, time.Since(start), "it waits until it is written")
		require.NoError(t, send(p, batchSpec{}).Err)
		require.EqualValues(t, 7, p.LogEndOffset())
		require.NoError(t, p.Close())
	})
}

func valuesOf(rs []seen) (values []string) {
	for _, r := range rs {
		values = append(values, r.Value)
	}
	return values
}
