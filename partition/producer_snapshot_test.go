package partition

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/stratalog/strata/record"
)

const day = 24 * time.Hour

func TestKafkasSnapshotsDecodeAndEncodeToTheSameBytes(t *testing.T) {
	files, err := filepath.Glob("testdata/golden/*/*.snapshot")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		want, err := os.ReadFile(file)
		require.NoError(t, err)
		s := newProducers(day)
		require.NoError(t, s.load(want, 0), file)
		got := s.appendSnapshot(nil)
		require.Equal(t, sortedEntries(want), sortedEntries(got), file)
		if slices.Equal(sortedEntries(want), want[snapshotHeader:]) {
			require.Equal(t, want, got, file) // in the same order: also the header with its CRC
		}
	}
}

// sortedEntries returns the entries of a snapshot by producer id: Kafka writes them in no
// particular order.
func sortedEntries(p []byte) []byte {
	entries := slices.Collect(slices.Chunk(slices.Clone(p[snapshotHeader:]), snapshotEntry))
	slices.SortFunc(entries, slices.Compare)
	return slices.Concat(entries...)
}

func TestSnapshotHoldsWhatKafkaHoldsAfterTransactions(t *testing.T) {
	p, err := os.ReadFile("testdata/golden/transactions-0/00000000000000000069.snapshot")
	require.NoError(t, err)
	s := newProducers(day)
	require.NoError(t, s.load(p, 0))
	states := s.states()
	require.Len(t, states, 4)
	require.Equal(t, ProducerState{ProducerID: 10, Epoch: 0, LastSequence: 0, LastOffset: 66, LastTimestampMs: 1700000000120,
		CoordinatorEpoch: -1, TxnFirstOffset: 66}, states[2], "the transaction left open")
	require.Equal(t, ProducerState{ProducerID: 11, Epoch: 1, LastSequence: -1, LastOffset: -1, LastTimestampMs: states[3].LastTimestampMs,
		CoordinatorEpoch: 0, TxnFirstOffset: -1}, states[3], "ended by a marker of the next epoch")
	require.Equal(t, int64(66), s.txns.lastStable(69))
}

func TestEmptySnapshotIsTenBytes(t *testing.T) {
	require.Len(t, newProducers(day).appendSnapshot(nil), 10)
}

func TestDamagedSnapshotIsRefusedAndLeavesNothing(t *testing.T) {
	good := someState().appendSnapshot(nil)
	for i := range good {
		for bit := range 8 {
			bad := slices.Clone(good)
			bad[i] ^= 1 << bit
			s := newProducers(day)
			require.ErrorIs(t, s.load(bad, 0), errBadSnapshot, "byte %d bit %d", i, bit)
			require.Empty(t, s.m)
			require.Empty(t, s.txns.open)
		}
		require.ErrorIs(t, newProducers(day).load(good[:i], 0), errBadSnapshot)
	}
	require.ErrorIs(t, newProducers(day).load(append(slices.Clone(good), 0), 0), errBadSnapshot)
}

func TestSnapshotWithHostileEntriesIsRefused(t *testing.T) {
	s := newProducers(day)
	twice := someState().appendSnapshot(nil)
	copy(twice[snapshotHeader+snapshotEntry:], twice[snapshotHeader:snapshotHeader+snapshotEntry])
	require.ErrorIs(t, s.load(resealed(twice), 0), errBadSnapshot)
	negative := someState().appendSnapshot(nil)
	negative[snapshotHeader] |= 0x80
	require.ErrorIs(t, s.load(resealed(negative), 0), errBadSnapshot)
	huge := []byte{0, 1, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff}
	require.ErrorIs(t, s.load(resealed(huge), 0), errBadSnapshot)
	require.Empty(t, s.m)
}

func TestAProducerCostsLessThan200Bytes(t *testing.T) {
	require.LessOrEqual(t, int(unsafe.Sizeof(producerEntry{})), 160)
}

// resealed gives p the right CRC.
func resealed(p []byte) []byte {
	binary.BigEndian.PutUint32(p[snapshotCRCOffset:], crc32.Checksum(p[snapshotCRCStart:], castagnoli))
	return p
}

func someState() *producers {
	s := newProducers(day)
	s.apply(&record.Batch{ProducerID: 7, ProducerEpoch: 1, BaseSequence: 0, LastOffsetDelta: 2, MaxTimestamp: 11}, 0, 0)
	s.apply(&record.Batch{ProducerID: 8, BaseSequence: 0, MaxTimestamp: 12, Attributes: 0x10}, 3, 0)
	s.mark(marker{producerID: 9, epoch: 4, coordinatorEpoch: 2, offset: 4, timestamp: 13}, 0)
	return s
}

func TestSnapshotRoundTripOfAnyState(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, end := newProducers(day), int64(0)
		for range rapid.IntRange(0, 60).Draw(t, "steps") {
			pid, epoch := rapid.Int64Range(0, 9).Draw(t, "pid"), rapid.Int16Range(0, 3).Draw(t, "epoch")
			if rapid.IntRange(0, 3).Draw(t, "kind") == 0 {
				s.mark(marker{pid, epoch, rapid.Int32Range(0, 5).Draw(t, "coordinator"), end, end, rapid.Bool().Draw(t, "abort"), 0}, 0)
				end++
				continue
			}
			b := record.Batch{ProducerID: pid, ProducerEpoch: epoch, BaseSequence: rapid.Int32Min(0).Draw(t, "seq"),
				LastOffsetDelta: rapid.Int32Range(0, 9).Draw(t, "delta"), MaxTimestamp: rapid.Int64().Draw(t, "ts")}
			if rapid.Bool().Draw(t, "txn") {
				b.Attributes = 0x10
			}
			s.apply(&b, end, 0)
			end += int64(b.LastOffsetDelta) + 1
		}
		again := newProducers(day)
		require.NoError(t, again.load(s.appendSnapshot(nil), 0))
		require.Equal(t, s.states(), again.states())
		require.True(t, slices.Equal(s.txns.open, again.txns.open))
		require.Equal(t, s.appendSnapshot(nil), again.appendSnapshot(nil))
	})
}

func FuzzDecodeSnapshot(f *testing.F) {
	f.Add(newProducers(day).appendSnapshot(nil))
	f.Add(someState().appendSnapshot(nil))
	f.Fuzz(func(t *testing.T, p []byte) {
		if len(p) >= snapshotHeader && len(p)%2 == 0 {
			p = resealed(slices.Clone(p)) // otherwise hardly any input passes the CRC
		}
		s := newProducers(day)
		if err := s.load(p, 0); err != nil {
			if !errors.Is(err, errBadSnapshot) || len(s.m) > 0 {
				t.Fatalf("error %v with %d entries", err, len(s.m))
			}
			return
		}
		again := newProducers(day)
		if err := again.load(s.appendSnapshot(nil), 0); err != nil {
			t.Fatal(err)
		}
		require.Equal(t, s.states(), again.states())
	})
}
