package partition

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/fieldtest"
)

// One answer of the coordinator is shared only by writes of the same transaction.
func TestWritesOfDifferentTransactionsDoNotShareAnAnswer(t *testing.T) {
	build := func() TxnWrite { return TxnWrite{TransactionalID: "t", ProducerID: 1, ProducerEpoch: 2, Version: 1} }
	first := build()
	fieldtest.EachChange(build, func(place string, changed TxnWrite) {
		if place != ".ProducerID" { // guards are kept by producer
			require.False(t, first.same(&changed), place)
		}
	})
	second, older := build(), build()
	older.Version = 0
	require.True(t, first.same(&second))
	require.True(t, first.same(&older), "neither version adds the partition")
}
