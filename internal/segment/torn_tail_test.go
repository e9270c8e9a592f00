package segment

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/record"
)

// lastBatches are batches that may be the last one of a segment, at offset 40, each with another
// kind of end.
func lastBatches(t testing.TB) map[string][]byte {
	t.Helper()
	build := func(codec record.Codec, values ...[]byte) []byte {
		var b record.Builder
		b.SetBaseOffset(40)
		b.SetLeaderEpoch(1)
		for _, v := range values {
			b.Append(&record.Record{Key: []byte("key"), Value: v, Timestamp: time.UnixMilli(5000)})
		}
		p, err := b.Build(codec)
		require.NoError(t, err)
		return p
	}
	return map[string][]byte{
		"a record":               build(record.None, []byte("value")),
		"several":                build(record.None, []byte("one"), nil, []byte("three")),
		"compressed":             build(record.Zstd, bytes.Repeat([]byte("compress me "), 20), []byte("once more")),
		"zeros at the end":       build(record.None, append([]byte("value"), make([]byte, 300)...)),
		"longer than a page":     build(record.None, bytes.Repeat([]byte("0123456789"), 600)),
		"with a page of nothing": build(record.None, append([]byte("value"), make([]byte, 5000)...)),
	}
}

// TestWriteThatFailedAnywhereInReservedSpaceIsCutAfterAKill has a process killed before it can
// truncate a failed write, for each number of written bytes.
func TestWriteThatFailedAnywhereInReservedSpaceIsCutAfterAKill(t *testing.T) {
	t.Parallel()
	before, ends := batches(20, 2, 150)
	zeros := make([]byte, 10_000)
	for name, last := range lastBatches(t) {
		for n := 0; n <= len(last); n += 1 + n/300 {
			raw := join(before, last[:n], zeros)
			s, rep, err := recovered(t, memFS(t), raw, RecoverOptions{SameBoot: true})
			require.NoError(t, err, "%s, %d of %d bytes", name, n, len(last))
			if whole := lastNonZero(last) < n; whole {
				require.EqualValues(t, len(before)+len(last), s.Size(), "%s, %d bytes", name, n)
			} else {
				require.EqualValues(t, ends[19], s.Size(), "%s, %d bytes", name, n)
				require.EqualValues(t, 40, s.NextOffset())
				require.EqualValues(t, ends[19], rep.CutAt)
			}
			require.NoError(t, s.Close())
		}
	}
}

// TestFlippedBitOfTheLastBatchBeforeReservedSpaceIsNoTornWrite: zeros at the end of an
// acknowledged batch are no reason to truncate it. Base offset and leader epoch, which no CRC
// covers, are checked elsewhere. A page of zeros at the end of a batch passes for an unwritten
// page.
func TestFlippedBitOfTheLastBatchBeforeReservedSpaceIsNoTornWrite(t *testing.T) {
	t.Parallel()
	before, _ := batches(20, 2, 150)
	zeros := make([]byte, 10_000)
	step := 1
	if raceEnabled {
		step = 13 // other bits in each byte
	}
	for name, last := range lastBatches(t) {
		if name == "with a page of nothing" {
			continue
		}
		for bit := lengthAt * 8; bit < len(last)*8; bit += step * (1 + bit/4000) {
			if at := bit / 8; at >= 12 && at < 16 {
				continue // the leader epoch
			}
			raw := join(before, flipped(last, bit/8, 1<<(bit%8)), zeros)
			s, _, err := recovered(t, memFS(t), raw, RecoverOptions{SameBoot: true})
			require.ErrorIs(t, err, ErrCorrupt, "%s, bit %d of byte %d was flipped: cut to %d", name, bit%8, bit/8, s.Size())
			require.NoError(t, s.Close())
		}
	}
}

// TestFlippedLengthOfTheLastBatchIsNoTornWrite: the length reaches beyond the end of the file.
func TestFlippedLengthOfTheLastBatchIsNoTornWrite(t *testing.T) {
	t.Parallel()
	before, _ := batches(20, 2, 150)
	for name, last := range lastBatches(t) {
		for _, reserved := range []int{0, 1, 5000} {
			raw := join(before, flipped(last, lengthAt+1, 1), make([]byte, reserved))
			s, _, err := recovered(t, memFS(t), raw, RecoverOptions{SameBoot: true})
			require.ErrorIs(t, err, ErrCorrupt, "%s, %d bytes reserved", name, reserved)
			require.NoError(t, s.Close())
		}
	}
}

// TestDamagedBatchBeforeATornOneIsNotCut: a kill tears one batch. If the batch before it is
// damaged, too, recovery must not truncate them one after the other, one per open.
func TestDamagedBatchBeforeATornOneIsNotCut(t *testing.T) {
	t.Parallel()
	before, ends := batches(20, 2, 150)
	zeros := make([]byte, 10_000)
	for name, last := range lastBatches(t) {
		for n := record.HeaderSize; n < len(last); n += 1 + n/40 {
			if lastNonZero(last) < n {
				break // the batch is complete
			}
			damaged := flipped(flipped(before, ends[18]+90, 4), ends[18]+100, 4)
			fsys := memFS(t)
			raw := join(damaged, last[:n], zeros)
			s, _, err := recovered(t, fsys, raw, RecoverOptions{SameBoot: true})
			require.ErrorIs(t, err, ErrCorrupt, "%s, %d of %d bytes", name, n, len(last))
			require.Equal(t, raw, readFile(t, fsys, LogSuffix), "nothing is changed")
			require.NoError(t, s.Close())
		}
	}
}
