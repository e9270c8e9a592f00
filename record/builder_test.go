package record

import (
	"encoding/hex"
	"math"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// Batches as Apache Kafka 4.3 writes them.
const (
	goldenOne    = "00000000000000000000003effffffff0285d4936f00000000000000000000000003e800000000000003e8ffffffffffffffffffffffffffff0000000118000000026b02760202680278"
	goldenTwo    = "0000000000000005000000420000000302d9c0c98500100000000100000000000003e800000000000003ef0000000000000fa0000200000009000000021000000001047631000e000e02026b0100"
	goldenCommit = "0000000000000007000000420000000302713402ad00300000000000000000000007d000000000000007d00000000000000fa00002ffffffff000000012000000008000000010c00000000000500"
	goldenEmpty  = "00000000000000050000003100000003029fd2271b001000000001ffffffffffffffff00000000000003ef0000000000000fa000020000000900000000"
)

func golden(t testing.TB, s string) []byte {
	p, err := hex.DecodeString(s)
	require.NoError(t, err)
	return p
}

// records parses one batch that must fill p and collects its records.
func records(t testing.TB, p []byte) []Record {
	t.Helper()
	b, n, err := Parse(p)
	require.NoError(t, err)
	require.Equal(t, len(p), n)
	var rs []Record
	for r, err := range b.All() {
		require.NoError(t, err)
		rs = append(rs, r)
	}
	return rs
}

func TestBuilderWritesTheBytesOfKafka(t *testing.T) {
	t.Parallel()
	var b Builder
	require.True(t, b.Append(&Record{Timestamp: time.UnixMilli(1000), Key: []byte("k"), Value: []byte("v"), Headers: []Header{{"h", []byte("x")}}}))
	p, err := b.Build(None)
	require.NoError(t, err)
	require.Equal(t, goldenOne, hex.EncodeToString(p))

	b.SetBaseOffset(5)
	b.SetLeaderEpoch(3)
	b.SetProducer(4000, 2, 9)
	b.SetTransactional(true)
	require.True(t, b.AppendKV(1000, nil, []byte("v1"), nil))
	require.True(t, b.AppendKV(1007, []byte("k"), nil, nil))
	require.Equal(t, len(goldenTwo)/2, b.Size())
	p, err = b.AppendBatch([]byte("before"), None)
	require.NoError(t, err)
	require.Equal(t, "before", string(p[:6]))
	require.Equal(t, goldenTwo, hex.EncodeToString(p[6:]))
}

func TestIteratorReadsTheBytesOfKafka(t *testing.T) {
	t.Parallel()
	require.Equal(t, []Record{
		{Offset: 0, LeaderEpoch: -1, Timestamp: time.UnixMilli(1000), Key: []byte("k"), Value: []byte("v"), Headers: []Header{{"h", []byte("x")}}},
	}, records(t, golden(t, goldenOne)))
	require.Equal(t, []Record{
		{Offset: 5, LeaderEpoch: 3, Timestamp: time.UnixMilli(1000), Value: []byte("v1")},
		{Offset: 6, LeaderEpoch: 3, Timestamp: time.UnixMilli(1007), Key: []byte("k")},
	}, records(t, golden(t, goldenTwo)))
	require.Empty(t, records(t, golden(t, goldenEmpty)))
	require.Len(t, records(t, golden(t, goldenCommit)), 1)
}

// awkwardRecords has every distinction that the format keeps: nil and empty values, order and
// repetition of headers, lengths around each varint step.
func awkwardRecords() []Record {
	big := []byte(strings.Repeat("x", 9000))
	rs := []Record{
		{Timestamp: time.UnixMilli(500)},
		{Timestamp: time.UnixMilli(400), Key: []byte{}, Value: []byte{}},
		{Timestamp: time.UnixMilli(1 << 50), Key: []byte("k"), Value: nil, Headers: []Header{{"a", nil}, {"a", []byte{}}, {"", []byte("v")}, {"a", []byte("last")}}},
		{Timestamp: time.UnixMilli(-1), Key: big, Value: big[:8191], Headers: []Header{{string(big[:64]), big[:63]}}},
		{Timestamp: time.UnixMilli(math.MinInt64 / 4), Value: big[:8192]},
	}
	for i := range 200 {
		rs = append(rs, Record{Timestamp: time.UnixMilli(int64(i)), Key: big[:i], Value: big[:i%130]})
	}
	for i := range rs {
		rs[i].Offset, rs[i].LeaderEpoch = int64(i), -1
	}
	return rs
}

func TestWhatIsBuiltIsReadBack(t *testing.T) {
	t.Parallel()
	want := awkwardRecords()
	var b Builder
	for i := range want {
		require.True(t, b.Append(&want[i]))
	}
	require.Equal(t, len(want), b.Len())
	p := b.Bytes()
	require.Len(t, p, b.Size())
	require.Equal(t, want, records(t, p))
	batch, _, err := Parse(p)
	require.NoError(t, err)
	require.Equal(t, int64(1<<50), batch.MaxTimestamp)
	require.Equal(t, int64(500), batch.BaseTimestamp)
	require.EqualValues(t, len(want)-1, batch.LastOffsetDelta)
}

func TestZeroTimestampIsStampedWithThePresentTime(t *testing.T) {
	t.Parallel()
	var b Builder
	before := time.Now().Truncate(time.Millisecond)
	require.True(t, b.Append(&Record{Value: []byte("v")}))
	got := records(t, b.Bytes())[0].Timestamp
	require.False(t, got.Before(before) || got.After(time.Now()), got)
}

func TestBatchIsFullAtItsLimitButTakesOneRecord(t *testing.T) {
	t.Parallel()
	var b Builder
	b.Reset(100)
	require.True(t, b.AppendKV(1, nil, make([]byte, 1000), nil), "a first record always fits")
	require.False(t, b.AppendKV(1, nil, nil, nil))
	require.Equal(t, 1, b.Len())

	b.Reset(HeaderSize + 2*8)
	require.True(t, b.AppendKV(1, nil, []byte("x"), nil))
	require.Equal(t, HeaderSize+8, b.Size())
	require.True(t, b.AppendKV(1, nil, []byte("x"), nil))
	require.False(t, b.AppendKV(1, nil, []byte("x"), nil))
	require.Len(t, b.Bytes(), HeaderSize+2*8, "exactly the limit")
}

func TestAppendAllWritesTheBytesOfAppendKV(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		const now = 5000
		value := rapid.OneOf(rapid.Just([]byte(nil)), rapid.SliceOfN(rapid.Byte(), 0, 3), rapid.SliceOfN(rapid.Byte(), 50, 200))
		rs := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) (r Record) {
			r.Value = value.Draw(t, "value")
			switch rapid.IntRange(0, 9).Draw(t, "kind") {
			case 0:
				r.Key = value.Draw(t, "key")
			case 1:
				r.Headers = []Header{{"h", value.Draw(t, "header")}}
			case 2:
				r.Timestamp = time.UnixMilli(now + rapid.Int64Range(-2, 2).Draw(t, "timestamp"))
			}
			return r
		}), 0, 200).Draw(t, "records")
		limit := rapid.SampledFrom([]int{0, 80, 1000, 5000}).Draw(t, "limit")

		var each, all Builder
		each.Reset(limit)
		n, newest := 0, int64(math.MinInt64)
		for ; n < len(rs); n++ {
			r, ms := &rs[n], int64(now)
			if !r.Timestamp.IsZero() {
				ms = r.Timestamp.UnixMilli()
			}
			if !each.AppendKV(ms, r.Key, r.Value, r.Headers) {
				break
			}
			newest = max(newest, ms)
		}
		for _, sumsEarly := range []bool{false, true} {
			all = Builder{sumsEarly: sumsEarly}
			all.Reset(limit)
			first := rapid.IntRange(0, len(rs)).Draw(t, "first")
			added := all.AppendAll(now, rs[:first])
			if added == first {
				added += all.AppendAll(now, rs[first:])
			}
			require.Equal(t, n, added)
			require.Equal(t, each.Bytes(), all.Bytes())
			if n > 0 {
				require.Equal(t, newest, all.MaxTimestamp())
			}
		}
	})
}

func TestBuilderForgetsEverythingOnReset(t *testing.T) {
	t.Parallel()
	var b Builder
	b.SetProducer(1, 2, 3)
	b.SetTransactional(true)
	b.SetBaseOffset(7)
	require.True(t, b.AppendKV(5, nil, nil, nil))
	b.Reset(0)
	require.Nil(t, b.Bytes())
	_, err := b.Build(None)
	require.ErrorIs(t, err, ErrEmpty)
	require.True(t, b.AppendKV(1000, []byte("k"), []byte("v"), []Header{{"h", []byte("x")}}))
	require.Equal(t, goldenOne, hex.EncodeToString(b.Bytes()))
}

func TestBuiltBytesAreDetached(t *testing.T) {
	t.Parallel()
	var b Builder
	require.True(t, b.AppendKV(1000, []byte("k"), []byte("v"), []Header{{"h", []byte("x")}}))
	first, err := b.Build(None)
	require.NoError(t, err)
	require.True(t, b.AppendKV(9, []byte("other"), []byte("other"), nil))
	_, err = b.Build(None)
	require.NoError(t, err)
	require.Equal(t, goldenOne, hex.EncodeToString(first))
}

func TestUnknownCodecIsRefusedAndKeepsTheRecords(t *testing.T) {
	t.Parallel()
	var b Builder
	require.True(t, b.AppendKV(1, nil, []byte("v"), nil))
	_, err := b.Build(Codec(5))
	require.ErrorIs(t, err, ErrUnsupportedCodec)
	require.Len(t, records(t, b.Bytes()), 1)
}

func TestReusedBuilderAndIteratorDoNotAllocate(t *testing.T) {
	if raceEnabled {
		t.Skip("counts allocations")
	}
	key, value := []byte("key"), make([]byte, 100)
	var b Builder
	dst := make([]byte, 0, 1<<20)
	build := func() {
		b.Reset(0)
		for range 1000 {
			b.AppendKV(1000, key, value, nil)
		}
		dst, _ = b.AppendBatch(dst[:0], None)
	}
	build()
	require.Zero(t, testing.AllocsPerRun(20, build))
	require.Zero(t, testing.AllocsPerRun(20, func() {
		batch, err := ParseUnverified(dst)
		if err != nil || batch.VerifyCRC() != nil {
			t.Fatal(err)
		}
		it, _ := batch.Records(0)
		var r Record
		n := 0
		for ok, err := it.Next(&r); ok; ok, err = it.Next(&r) {
			if err != nil {
				t.Fatal(err)
			}
			n++
		}
		if n != 1000 {
			t.Fatal(n)
		}
	}))
}

func TestHeadersOfABatchShareOneAllocation(t *testing.T) {
	if raceEnabled {
		t.Skip("counts allocations")
	}
	var b Builder
	for range 100 {
		b.AppendKV(1, nil, []byte("v"), []Header{{"trace", []byte("id")}, {"type", []byte("json")}})
	}
	batch, _, err := Parse(b.Bytes())
	require.NoError(t, err)
	require.LessOrEqual(t, testing.AllocsPerRun(20, func() {
		for _, err := range batch.All() {
			if err != nil {
				t.Fatal(err)
			}
		}
	}), 1.0)
}

func TestExpectedBatchesAreAllocatedAtOnce(t *testing.T) {
	value := make([]byte, 100)
	require.LessOrEqual(t, testing.AllocsPerRun(20, func() {
		var b Builder
		b.Expect(64 << 10)
		for b.Len() < 500 {
			b.AppendKV(1, nil, value, nil)
		}
	}), 1.0)
}

// Consumers return slices of records: a busy consumer mostly allocates and clears records, so
// their size matters.
func TestRecordIsSmall(t *testing.T) {
	require.LessOrEqual(t, unsafe.Sizeof(Record{}), uintptr(136))
}
