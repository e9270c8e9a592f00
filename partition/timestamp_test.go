package partition

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/vfs"
)

func TestTimestampAtPassesMarkersAndEndsAtTheHighWatermark(t *testing.T) {
	p := openLeader(t, testConfig(vfs.Mem()))
	at := func(from int64) [2]int64 {
		r, err := p.TimestampAt(from)
		require.NoError(t, err)
		return [2]int64{r.Offset, r.TimestampMs}
	}
	require.Equal(t, [2]int64{-1, -1}, at(0), "there is no record")
	send(p, batchSpec{pid: 1, txn: true, value: "a", n: 3, ts: 50})
	require.NoError(t, end(p, TxnMarker{ProducerID: 1, Commit: true}).Err)
	send(p, batchSpec{value: "b", ts: 40})
	send(p, batchSpec{pid: 2, txn: true, value: "c", ts: 60})
	require.NoError(t, end(p, TxnMarker{ProducerID: 2, Commit: true}).Err)
	for from, want := range map[int64][2]int64{0: {0, 50}, 2: {2, 50}, 3: {4, 40}, 4: {4, 40}, 5: {5, 60}, 6: {-1, -1}, 7: {-1, -1}, 100: {-1, -1}} {
		require.Equal(t, want, at(from), "from %d", from)
	}
	_, err := p.DeleteRecords(4)
	require.NoError(t, err)
	require.Equal(t, [2]int64{4, 40}, at(0), "the first record that is left")
	require.NoError(t, p.Close())
	_, err = p.TimestampAt(0)
	require.ErrorIs(t, err, ErrClosed)
}

func TestTimestampAtIsTheLogAppendTime(t *testing.T) {
	cfg := testConfig(vfs.Mem())
	cfg.TimestampType = record.LogAppendTime
	p := openLeader(t, cfg)
	before := time.Now().UnixMilli()
	send(p, batchSpec{value: "a", ts: 50})
	r, err := p.TimestampAt(0)
	require.NoError(t, err)
	require.GreaterOrEqual(t, r.TimestampMs, before)
	require.LessOrEqual(t, r.TimestampMs, time.Now().UnixMilli())
}
