package record

import (
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

func all(*Record) bool  { return true }
func none(*Record) bool { return false }

// parsed parses one batch that must fill p.
func parsed(t testing.TB, p []byte) *Batch {
	t.Helper()
	b, n, err := Parse(p)
	require.NoError(t, err)
	require.Len(t, p, n)
	return b
}

func TestBatchThatLosesNothingIsCopied(t *testing.T) {
	t.Parallel()
	for dir, batches := range kafkaBatches(t) {
		for _, b := range batches {
			out, kept, err := Filter([]byte("before"), b, FilterOptions{}, all)
			require.NoError(t, err)
			require.EqualValues(t, b.RecordCount, kept)
			require.Equal(t, b.Bytes(), out[6:], dir)
		}
	}
}

func TestBatchThatLosesEverythingGoesOrShrinksToKafkasEmptyHeader(t *testing.T) {
	t.Parallel()
	b := parsed(t, golden(t, goldenTwo))
	out, kept, err := Filter([]byte("before"), b, FilterOptions{}, none)
	require.NoError(t, err)
	require.Zero(t, kept)
	require.Equal(t, "before", string(out))
	out, kept, err = Filter(nil, b, FilterOptions{KeepEmpty: true, DeleteHorizonMs: 5}, none)
	require.NoError(t, err)
	require.Zero(t, kept)
	require.Equal(t, goldenEmpty, hex.EncodeToString(out))

	empty := parsed(t, out)
	out, _, err = Filter(nil, empty, FilterOptions{KeepEmpty: true}, all)
	require.NoError(t, err)
	require.Equal(t, goldenEmpty, hex.EncodeToString(out))
	out, _, err = Filter(nil, empty, FilterOptions{}, all)
	require.NoError(t, err)
	require.Empty(t, out, "nothing needs it any more")
}

func TestSurvivorsKeepTheirOffsetsAndTheBatchItsOwn(t *testing.T) {
	t.Parallel()
	for _, c := range append(codecs, None) {
		p := clientBatch(t, c)
		SetBaseOffset(p, 100)
		SetLeaderEpoch(p, 4)
		want := records(t, p)
		out, kept, err := Filter(nil, parsed(t, p), FilterOptions{DeleteHorizonMs: 99}, func(r *Record) bool { return r.Offset != 101 })
		require.NoError(t, err)
		require.Equal(t, 2, kept)
		b := parsed(t, out)
		require.EqualValues(t, 100, b.BaseOffset)
		require.EqualValues(t, 102, b.LastOffset())
		require.EqualValues(t, 2, b.LastSequence())
		require.EqualValues(t, 7, b.ProducerID)
		require.EqualValues(t, 2000, b.MaxTimestamp, "recomputed: 3000 is gone")
		require.Equal(t, c, b.Codec())
		require.False(t, b.HasDeleteHorizon())
		require.Equal(t, []Record{want[0], want[2]}, records(t, out))

		out, _, err = Filter(nil, b, FilterOptions{}, func(r *Record) bool { return r.Offset == 102 })
		require.NoError(t, err)
		require.Equal(t, []Record{want[2]}, records(t, out))
		require.EqualValues(t, 2000, parsed(t, out).BaseTimestamp, "the first survivor's")
		require.EqualValues(t, 100, parsed(t, out).BaseOffset)
	}
}

func TestTombstonesGetADeleteHorizonOnce(t *testing.T) {
	t.Parallel()
	b := parsed(t, golden(t, goldenTwo)) // k→nil at offset 6
	out, kept, err := Filter(nil, b, FilterOptions{DeleteHorizonMs: 5000}, all)
	require.NoError(t, err)
	require.Equal(t, 2, kept)
	first := parsed(t, out)
	require.True(t, first.HasDeleteHorizon())
	require.EqualValues(t, 5000, first.BaseTimestamp)
	require.EqualValues(t, 1007, first.MaxTimestamp)
	require.Equal(t, records(t, b.Bytes()), records(t, out), "timestamps are re-based, not changed")

	again, _, err := Filter(nil, first, FilterOptions{DeleteHorizonMs: 9000}, all)
	require.NoError(t, err)
	require.Equal(t, out, again, "the first horizon stays")

	gone, kept, err := Filter(nil, first, FilterOptions{DeleteHorizonMs: 9000}, func(r *Record) bool { return r.Value != nil })
	require.NoError(t, err)
	require.Equal(t, 1, kept)
	require.True(t, parsed(t, gone).HasDeleteHorizon(), "also after the tombstones are gone")
	require.EqualValues(t, 5000, parsed(t, gone).BaseTimestamp)
	require.Equal(t, records(t, b.Bytes())[:1], records(t, gone))

	out, _, err = Filter(nil, b, FilterOptions{DeleteHorizonMs: 5000}, func(r *Record) bool { return r.Value != nil })
	require.NoError(t, err)
	require.False(t, parsed(t, out).HasDeleteHorizon(), "no tombstone stays")
}

func TestMarkerOfAFinishedTransactionGetsADeleteHorizon(t *testing.T) {
	t.Parallel()
	b := parsed(t, golden(t, goldenCommit))
	out, _, err := Filter(nil, b, FilterOptions{DeleteHorizonMs: 5000}, all)
	require.NoError(t, err)
	require.Equal(t, b.Bytes(), out)
	out, _, err = Filter(nil, b, FilterOptions{DeleteHorizonMs: 5000, FinishedMarker: true}, all)
	require.NoError(t, err)
	m := parsed(t, out)
	require.True(t, m.HasDeleteHorizon() && m.IsControl() && m.IsTransactional())
	require.EqualValues(t, 5000, m.BaseTimestamp)
	kind, epoch, err := m.Control()
	require.NoError(t, err)
	require.Equal(t, ControlCommit, kind)
	require.EqualValues(t, 5, epoch)
}

func TestAppendTimeSurvivesFiltering(t *testing.T) {
	t.Parallel()
	b := parsed(t, clientBatch(t, None))
	p, err := Rewrite(nil, b, RewriteOptions{TimestampType: LogAppendTime, MaxTimestamp: 8000})
	require.NoError(t, err)
	out, _, err := Filter(nil, parsed(t, p), FilterOptions{}, func(r *Record) bool { return r.Offset == 0 })
	require.NoError(t, err)
	require.Equal(t, records(t, p)[:1], records(t, out))
	require.EqualValues(t, 8000, parsed(t, out).MaxTimestamp)
}

func TestFilterAgainstTheNaiveWay(t *testing.T) {
	t.Parallel()
	all := awkwardRecords()
	rnd := rand.New(rand.NewPCG(4711, 1))
	for round := range 50 {
		var b Builder
		for i := range all {
			require.True(t, b.Append(&all[i]))
		}
		p, err := b.Build(Codec(round % 5))
		require.NoError(t, err)
		var want []Record
		keep := map[int64]bool{}
		for _, r := range all {
			if rnd.IntN(3) == 0 {
				keep[r.Offset] = true
				want = append(want, r)
			}
		}
		out, kept, err := Filter(nil, parsed(t, p), FilterOptions{DeleteHorizonMs: int64(round%2) * 12345}, func(r *Record) bool { return keep[r.Offset] })
		require.NoError(t, err)
		require.Equal(t, len(want), kept)
		require.Equal(t, want, records(t, out), fmt.Sprintf("seed 4711, round %d", round))
	}
}

func TestFilterOfDamagedRecordsLeavesTheDestination(t *testing.T) {
	t.Parallel()
	p := clientBatch(t, None)
	p[HeaderSize+4] = 120
	sealBytes(p)
	out, _, err := Filter([]byte("before"), parsed(t, p), FilterOptions{}, all)
	require.ErrorIs(t, err, ErrCorrupt)
	require.Equal(t, "before", string(out))
}
