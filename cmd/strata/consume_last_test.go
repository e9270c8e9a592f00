package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/producer"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/topic"
)

// The last records are shown, however many markers and records of aborted transactions are between
// or after them.
func TestLastRecordsAreShownThoughMarkersAreBehindThem(t *testing.T) {
	t.Chdir(t.TempDir())
	c, err := strata.Open(strata.Config{Dir: "data"})
	require.NoError(t, err)
	require.NoError(t, c.CreateTopic(t.Context(), "orders", topic.Config{Partitions: 2}))
	p, err := producer.New(c, producer.Config{TransactionalID: "tx"})
	require.NoError(t, err)
	transact := func(commit bool, partition int32, values ...string) {
		tx, err := p.Begin(t.Context())
		require.NoError(t, err)
		for _, v := range values {
			require.NoError(t, tx.Send(t.Context(), record.String("orders", "", v).To(partition)))
		}
		if commit {
			require.NoError(t, tx.Commit(t.Context()))
		} else {
			require.NoError(t, p.Flush(t.Context()))
			require.NoError(t, tx.Abort(t.Context()))
		}
	}
	transact(true, 0, "a", "b")
	transact(true, 0, "c")
	transact(true, 1, "x")
	for i := range 30 {
		transact(false, 0, fmt.Sprint("aborted ", i), "too")
	}
	require.NoError(t, p.Close())
	require.NoError(t, c.Close())
	for last, want := range map[string]string{"1": "c", "2": "bc", "3": "abc", "9": "abc"} {
		r := strataRun(t, "consume", "orders", "--last", last, "--format", `%p%v\n`, "--dir", "data")
		require.Equal(t, exitOK, r.code, r.err)
		shown := map[byte]string{} // by partition: the order of partitions is not fixed
		for _, line := range strings.Fields(r.out) {
			shown[line[0]] += line[1:]
		}
		require.Equal(t, map[byte]string{'0': want, '1': "x"}, shown, last)
	}
	r := strataRun(t, "consume", "orders", "--last", "1", "--partition", "0", "--isolation", "uncommitted", "--values", "--dir", "data")
	require.Equal(t, "too\n", r.out)
}
