package transaction

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/memory"
	"github.com/stratalog/strata/partition"
)

// budget is a memory of 1 MiB, of which a principal may use half.
const budget = 1 << 20

func within(ctx context.Context, principal string) context.Context {
	return memory.With(ctx, memory.Bound{Principal: principal, Bytes: budget})
}

// fill creates ids for a principal until the budget is used up, and returns their number.
func (w *world) fill(principal, prefix string) (n int) {
	w.Helper()
	for ; n < 2000; n++ {
		if _, err := w.c.InitProducerID(within(w.Context(), principal), fmt.Sprint(prefix, n), time.Minute, NoProducer); err != nil {
			require.ErrorIs(w, err, ErrFull)
			return n
		}
	}
	require.Fail(w, "there is always room")
	return n
}

func TestTransactionalIDsHaveABudget(t *testing.T) {
	long := strings.Repeat("n", 30<<10)
	in(t, 1, Config{Expiration: time.Minute, ExpiryInterval: time.Second}, func(w *world) {
		require.Equal(w, 16, w.fill("a", "a-"+long), "a principal has half")
		require.InDelta(w, budget/2/1536, w.fill("b", "b-"), 2)
		require.Zero(w, w.fill("c", "c-"+long), "both have all")
		_, err := w.c.InitProducerID(within(w.Context(), "a"), "a-"+long+"0", time.Minute, NoProducer)
		require.NoError(w, err, "an id that exists")
		w.init("in this process") // without a bound

		time.Sleep(2 * time.Minute) // all ids expire
		require.Equal(w, 16, w.fill("a", "again-"+long))
	})
}

func TestLoadedTransactionalIDsCountWithoutBeingRefused(t *testing.T) {
	long := strings.Repeat("n", 30<<10)
	in(t, 1, Config{}, func(w *world) {
		n := w.fill("a", "a-"+long) + w.fill("b", "b-")
		used := w.c.memory.Used()
		require.Equal(w, used, w.c.memory.Of("a")+w.c.memory.Of("b"))
		require.NoError(w, w.c.Close())
		w.start()
		ids, err := w.c.List(w.Context())
		require.NoError(w, err)
		require.Len(w, ids, n)
		require.Equal(w, used, w.c.memory.Used())
		require.Equal(w, used, w.c.memory.Of(""), "of no principal")
		require.Zero(w, w.fill("c", "c-"+long))
		_, err = w.c.InitProducerID(within(w.Context(), "a"), "a-"+long+"0", time.Minute, NoProducer)
		require.NoError(w, err)
	})
}

func TestPartitionsOfATransactionHaveABudget(t *testing.T) {
	long := strings.Repeat("n", 30<<10)
	in(t, 1, Config{}, func(w *world) {
		p := w.writer("x", 2)
		w.fill("a", "a-"+long)
		w.fill("b", "b-"+long)
		w.fill("b", "b-")
		require.NoError(w, p.add(a0), "a short transaction")
		var many []tp
		for i := range 200 {
			many = append(many, tp{Topic: "a", Partition: int32(i)})
		}
		r := AddRequest{ID: "x", Producer: p.p, Version: 2, Partitions: many}
		require.ErrorIs(w, w.c.AddPartitions(within(w.Context(), "c"), r), ErrFull)
		var v Verifier // for a client that adds partitions by writing to them
		v.Use(w.c)
		err := v.Add(w.Context(), partition.TxnWrite{TransactionalID: "x", ProducerID: p.p.ID, ProducerEpoch: p.p.Epoch, Version: 2}, many)
		require.ErrorIs(w, err, ErrFull)
		require.ErrorIs(w, err, partition.ErrTxnAbortable)
		require.NoError(w, p.write(a0, "1"))
		require.NoError(w, p.end(true), "it goes on with the partitions that it has")
		w.settled()
		require.Equal(w, []string{"1"}, w.committed(a0))
	})
}
