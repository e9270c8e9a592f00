package remote

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/record"
)

// batchAt returns a batch with n records from an offset on.
func batchAt(t testing.TB, offset int64, n int) []byte {
	t.Helper()
	b := record.Builder{}
	for range n {
		require.True(t, b.Append(&record.Record{Value: []byte("value")}))
	}
	p, err := b.Build(record.None)
	require.NoError(t, err)
	record.SetBaseOffset(p, offset)
	return p
}

func TestIncompleteLastBatchOfAResponseIsLeftOut(t *testing.T) {
	first, second := batchAt(t, 10, 3), batchAt(t, 13, 2)
	all := append(append([]byte(nil), first...), second...)
	for cut := len(first); cut < len(all); cut++ {
		whole, next, _, err := verify(all[:cut], 10, -1)
		require.NoError(t, err)
		require.Equal(t, first, whole)
		require.EqualValues(t, 13, next)
	}
	whole, next, _, err := verify(all, 10, -1)
	require.NoError(t, err)
	require.Equal(t, all, whole)
	require.EqualValues(t, 15, next)
}

func TestResponseWithOnlyAPartOfABatchIsAnError(t *testing.T) {
	p := batchAt(t, 0, 3)
	for cut := 1; cut < len(p); cut++ {
		_, _, _, err := verify(p[:cut], 0, -1)
		require.Error(t, err)
	}
}

func TestDamagedBatchIsAnErrorOnlyWhenItIsTheFirst(t *testing.T) {
	first, second := batchAt(t, 0, 3), batchAt(t, 3, 3)
	second[len(second)-1] ^= 1
	whole, next, _, err := verify(append(append([]byte(nil), first...), second...), 0, -1)
	require.NoError(t, err)
	require.Equal(t, first, whole)
	require.EqualValues(t, 3, next)
	_, _, _, err = verify(second, 3, -1)
	require.ErrorIs(t, err, record.ErrCorrupt)
}

// FuzzVerify: whatever a broker sends, the result is whole batches with right checksums.
func FuzzVerify(f *testing.F) {
	f.Add(batchAt(f, 5, 2), int64(5))
	f.Add([]byte{}, int64(0))
	f.Fuzz(func(t *testing.T, p []byte, offset int64) {
		whole, next, _, err := verify(p, offset, -1)
		if err != nil {
			require.Empty(t, whole)
			return
		}
		require.GreaterOrEqual(t, next, offset)
		for rest := whole; len(rest) > 0; {
			_, n, err := record.Parse(rest)
			require.NoError(t, err)
			rest = rest[n:]
		}
	})
}

// 0 is a valid id of a broker.
func TestReaderIsSentToAnyFollower(t *testing.T) {
	for _, id := range []int32{0, 3} {
		p, tp := newPuller(nil), record.TopicPartition{Topic: "t"}
		p.storeLocked([]*answer{{preferred: id, FetchedPartition: partition.FetchedPartition{TopicPartition: tp}}})
		require.Equal(t, id, p.prefer[tp].broker)
		require.False(t, p.prefer[tp].until.IsZero())
		require.Empty(t, p.answers, "the leader has returned nothing")
	}
}
