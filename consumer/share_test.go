package consumer

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/share"
)

// Checklist row S10: offsets that compaction has left without a record are distinguished from
// records.
func TestOffsetsWithoutARecordAreGapsOfWhatWasAcquired(t *testing.T) {
	var f share.Fetched
	for _, base := range []int64{2, 6, 12} {
		var b record.Builder
		b.Reset(0)
		b.AppendKV(1, nil, []byte("a"), nil)
		b.AppendKV(2, nil, []byte("b"), nil)
		batch, err := b.Build(record.None)
		require.NoError(t, err)
		binary.BigEndian.PutUint64(batch, uint64(base))
		f.Bytes = append(f.Bytes, batch...)
	}
	for _, x := range []struct {
		deliveries []share.Delivery
		offsets    []int64
		gaps       [][2]int64
	}{
		{[]share.Delivery{{First: 0, Last: 9, Count: 1}}, []int64{2, 3, 6, 7}, [][2]int64{{0, 1}, {4, 5}, {8, 9}}},
		{[]share.Delivery{{First: 3, Last: 3, Count: 1}, {First: 5, Last: 6, Count: 3}, {First: 13, Last: 15, Count: 1}}, []int64{3, 6, 13}, [][2]int64{{5, 5}, {14, 15}}},
		{[]share.Delivery{{First: 8, Last: 8, Count: 1}, {First: 10, Last: 11, Count: 1}}, nil, [][2]int64{{8, 8}, {10, 11}}},
		{nil, nil, nil},
	} {
		f.Deliveries = x.deliveries
		recs, gaps, err := shareRecords(f)
		require.NoError(t, err)
		var offsets []int64
		for _, r := range recs {
			offsets = append(offsets, r.Offset)
			if r.Offset == 6 {
				require.EqualValues(t, x.deliveries[len(x.deliveries)/2].Count, r.Deliveries)
			}
		}
		var got [][2]int64
		for _, g := range gaps {
			require.Equal(t, []share.AckType{share.Gap}, g.Types)
			got = append(got, [2]int64{g.First, g.Last})
		}
		require.Equal(t, x.offsets, offsets)
		require.Equal(t, x.gaps, got)
	}
}
