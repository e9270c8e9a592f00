package replication

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/topic"
	"github.com/stratalog/strata/vfs"
)

// All partitions in the copy end at one moment, during which the transaction coordinator decides
// nothing.
func TestBackupIsOfTheMomentInWhichNoTransactionIsDecided(t *testing.T) {
	fsys := vfs.Mem()
	c := open(t, fsys)
	create(t, c, "orders", 20)
	write := func(value string) {
		for p := range int32(20) {
			produce(t, c, at("orders", p), value)
		}
	}
	write("before")
	held := 0
	stop := c.HoldTransactionsWith(func(f func()) {
		held++
		write("held")
		f()
		write("after")
	})
	require.NoError(t, c.Backup(t.Context(), "copy"))
	require.Equal(t, 1, held)
	stop()
	c.HoldTransactions(func() { held++ })
	require.Equal(t, 2, held, "with nobody who decides any")
	again, ok := copied(t, fsys, "")
	require.True(t, ok)
	defer again.Close()
	for p := range int32(20) {
		require.Equal(t, []string{"before", "held"}, values(t, again, at("orders", p)))
	}
}

// Offsets and share states point at records, so their topics are cut before the partitions with
// records. __transaction_state is cut last, after the partitions that its transactions name.
func TestPartitionsAreLookedAtBehindWhatPointsAtThem(t *testing.T) {
	var all []*replica
	for _, name := range []string{"orders", topic.TransactionTopic, "__consumer_offsets", "__share_group_state", "invoices"} {
		all = append(all, &replica{tp: record.TopicPartition{Topic: name}})
	}
	var steps []string
	for i, step := range inCutOrder(all) {
		for _, r := range step {
			steps = append(steps, fmt.Sprint(i, " ", r.tp.Topic))
		}
	}
	require.Equal(t, []string{"0 __consumer_offsets", "0 __share_group_state", "1 orders", "1 invoices", "2 __transaction_state"}, steps)
}
