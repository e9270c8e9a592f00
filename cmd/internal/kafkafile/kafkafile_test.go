package kafkafile

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/leaktest"
	"github.com/stratalog/strata/record"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

func TestKindsOfFiles(t *testing.T) {
	for name, want := range map[string]Kind{
		"a/00000000000000000042.log": Log, "00000000000000000042.timeindex.deleted": TimeIndex, "leader-epoch-checkpoint": EpochCheckpoint,
		"recovery-point-offset-checkpoint": OffsetCheckpoint, "bootstrap.checkpoint": MetadataSnapshot, "strata.suspect": State, "strata.provisional": State,
		"meta.properties.tmp": MetaProperties, "README.md": Unknown, ".lock": Unknown,
	} {
		kind, _ := KindOf(name)
		require.Equal(t, want, kind, name)
	}
	for _, name := range []string{"42.log", "-0000000000000000042.log", "0000000000000000004x.log", "00000000000000000042"} {
		_, ok := BaseOffset(name)
		require.Equal(t, name == "00000000000000000042", ok, name)
	}
	topic, partition, set, ok := SplitPartition("x/my-topic-3.0123456789abcdef0123456789abcdef-delete")
	require.True(t, ok)
	require.Equal(t, []any{"my-topic", int32(3), "-delete"}, []any{topic, partition, set})
	for _, name := range []string{"topic", "-3", "topic-x", "topic-99999999999"} {
		_, _, _, ok := SplitPartition(name)
		require.False(t, ok, name)
	}
}

// batch returns a batch of one record.
func batch(t testing.TB, offset int64, value string) []byte {
	t.Helper()
	var b record.Builder
	b.SetBaseOffset(offset)
	require.True(t, b.AppendKV(1000, nil, []byte(value), nil))
	p, err := b.Build(record.None)
	require.NoError(t, err)
	return p
}

// scan returns the base offsets of the batches in p, the damage, and the end of the scan.
func scan(t testing.TB, p []byte) (offsets []int64, ds []Damage, end End) {
	t.Helper()
	end, err := ScanLog(bytes.NewReader(p), int64(len(p)), Visitor{
		Batch:  func(_ int64, b *record.Batch) error { offsets = append(offsets, b.BaseOffset); return nil },
		Damage: func(d Damage) error { ds = append(ds, d); return nil },
	})
	require.NoError(t, err)
	return offsets, ds, end
}

func TestScanGoesOnBehindDamage(t *testing.T) {
	one, two, three := batch(t, 0, "one"), batch(t, 1, "two"), batch(t, 2, "three")
	n := int64(len(one))
	for name, hurt := range map[string]func(p []byte){
		"value":            func(p []byte) { p[len(p)-2] ^= 1 },
		"crc":              func(p []byte) { p[17] ^= 1 },
		"length, longer":   func(p []byte) { p[8] = 0x10 },
		"length, shorter":  func(p []byte) { p[11]-- },
		"length, negative": func(p []byte) { p[8] = 0xff },
		"magic":            func(p []byte) { p[16] = 1 },
		"all":              func(p []byte) { clear(p) },
	} {
		bad := bytes.Clone(two)
		hurt(bad)
		offsets, ds, end := scan(t, bytes.Join([][]byte{one, bad, three}, nil))
		require.Equal(t, []int64{0, 2}, offsets, name)
		require.Len(t, ds, 1, name)
		require.Equal(t, []int64{n, int64(len(two))}, []int64{ds[0].Pos, ds[0].Size}, name)
		require.False(t, ds[0].Last, name)
		require.Zero(t, end.Zeros)
	}
}

func TestScanOfTheEnd(t *testing.T) {
	one, two := batch(t, 0, "one"), batch(t, 1, "two")
	for cut := 1; cut < len(two); cut++ {
		offsets, ds, end := scan(t, append(bytes.Clone(one), two[:cut]...))
		require.Equal(t, []int64{0}, offsets)
		require.EqualValues(t, len(one), end.Pos)
		if bytes.Count(two[:cut], []byte{0}) == cut {
			require.Empty(t, ds)
			require.EqualValues(t, cut, end.Zeros)
			continue
		}
		require.Len(t, ds, 1)
		require.True(t, ds[0].Last)
		require.EqualValues(t, cut, ds[0].Size+end.Zeros)
	}
	bad := append(bytes.Clone(one), two...)
	bad[len(bad)-2] ^= 1
	_, ds, end := scan(t, append(bad[:len(bad):len(bad)], make([]byte, 100)...))
	require.True(t, ds[0].Last)
	require.GreaterOrEqual(t, end.Zeros, int64(100))
}

func FuzzFiles(f *testing.F) {
	f.Add(batch(f, 7, "value"))
	f.Add([]byte("0\n1\n0 0\n"))
	f.Add([]byte("0\n1\ntopic 0 12\n"))
	f.Add([]byte("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ"))
	f.Add([]byte("#strata 1 xxhash64 0\nversion=1\nnode.id=1\ncluster.id=x\n"))
	f.Add([]byte(`{"version":0,"brokerEpoch":1}`))
	f.Fuzz(func(t *testing.T, p []byte) {
		_, _, end := scan(t, p)
		require.LessOrEqual(t, end.Pos+end.Zeros, int64(len(p)))
		r, n := bytes.NewReader(p), int64(len(p))
		entries := 0
		_ = ReadIndex(r, n, func(int64, IndexEntry) error { entries++; return nil })
		_ = ReadTimeIndex(r, n, func(int64, TimeEntry) error { entries++; return nil })
		_ = ReadTxnIndex(r, n, func(int64, AbortedTxn) error { entries++; return nil })
		require.LessOrEqual(t, entries, len(p))
		_, _ = ParseSnapshot(p)
		_, _ = ParseEpochs(p)
		_, _ = ParseOffsets(p)
		_, _, _ = ParsePartitionMetadata(p)
		_, _ = ParseProperties(p)
		_, _ = ParseCleanShutdown(p)
		_, _ = ParseState(p)
	})
}
