package record

import (
	"encoding/hex"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestRecordHasHeadersKeyPayloadAndTimestamp(t *testing.T) {
	t.Parallel()
	r := Record{Key: []byte("k"), Value: []byte("v"), Timestamp: time.UnixMilli(1234), Headers: []Header{{"content-type", []byte("a")}, {"trace", nil}, {"content-type", []byte("b")}}}
	var b Builder
	require.True(t, b.Append(&r))
	got := records(t, b.Bytes())[0]
	got.LeaderEpoch = 0
	require.Equal(t, r, got, "order and duplicates of headers are kept")
	v, ok := got.Header("content-type")
	require.True(t, ok)
	require.Equal(t, "b", string(v), "the last of that name")
	v, ok = got.Header("trace")
	require.True(t, ok)
	require.Nil(t, v)
	_, ok = got.Header("Trace")
	require.False(t, ok)
}

func TestCloneSharesNoMemory(t *testing.T) {
	t.Parallel()
	p := golden(t, goldenOne)
	rs := records(t, p)
	c := rs[0].Clone()
	for i := range p {
		p[i] = 0xff
	}
	require.Equal(t, "k", string(c.Key))
	require.Equal(t, []Header{{"h", []byte("x")}}, c.Headers)
	empty := Record{Key: []byte{}}.Clone()
	require.True(t, empty.Key != nil && empty.Value == nil && empty.Headers == nil, "nil still differs from empty")
}

func TestExplicitPartition(t *testing.T) {
	t.Parallel()
	r := String("t", "", "v")
	require.Nil(t, r.Key)
	_, ok := r.ExplicitPartition()
	require.False(t, ok)
	r = r.To(0)
	n, ok := r.ExplicitPartition()
	require.True(t, ok)
	require.Zero(t, n)
	r = r.To(-1)
	_, ok = r.ExplicitPartition()
	require.False(t, ok)
}

func TestAcksAreSpelledAsInKafka(t *testing.T) {
	t.Parallel()
	require.Equal(t, [4]string{"all", "1", "0", "invalid"}, [4]string{AcksAll.String(), AcksLeader.String(), AcksNone.String(), Acks(9).String()})
}

func TestHeaderFieldsOfABatch(t *testing.T) {
	t.Parallel()
	b, n, err := Parse(append(golden(t, goldenTwo), "more"...))
	require.NoError(t, err)
	require.Equal(t, len(goldenTwo)/2, n)
	require.Equal(t, goldenTwo, hex.EncodeToString(b.Bytes()))
	require.EqualValues(t, 5, b.BaseOffset)
	require.EqualValues(t, 6, b.LastOffset())
	require.EqualValues(t, 7, b.NextOffset())
	require.EqualValues(t, 3, b.LeaderEpoch)
	require.EqualValues(t, 4000, b.ProducerID)
	require.EqualValues(t, 2, b.ProducerEpoch)
	require.EqualValues(t, 10, b.LastSequence())
	require.True(t, b.HasProducerID() && b.IsTransactional() && !b.IsControl() && !b.HasDeleteHorizon())

	b, _, err = Parse(golden(t, goldenCommit))
	require.NoError(t, err)
	require.True(t, b.IsControl())
	require.EqualValues(t, -1, b.LastSequence())

	wrapped := Batch{BaseSequence: 1<<31 - 1, LastOffsetDelta: 2}
	require.EqualValues(t, 1, wrapped.LastSequence())
}

func TestIncompleteBatchesAreShortNotCorrupt(t *testing.T) {
	t.Parallel()
	p := golden(t, goldenTwo)
	for i := range p {
		_, _, err := Parse(p[:i])
		require.ErrorIs(t, err, ErrShort, i)
		require.NotErrorIs(t, err, ErrCorrupt)
	}
	h, err := ParseHeader(p)
	require.NoError(t, err)
	require.Len(t, h.Bytes(), HeaderSize)
	require.ErrorIs(t, h.VerifyCRC(), ErrShort)
	_, err = h.Records(0)
	require.ErrorIs(t, err, ErrShort)
	require.ErrorIs(t, (&Batch{}).VerifyCRC(), ErrShort)
	for _, err := range (&Batch{}).All() {
		require.ErrorIs(t, err, ErrShort)
	}
}

func TestParseIntoTakesTheBytesThatAreThere(t *testing.T) {
	var bld Builder
	bld.Reset(0)
	bld.AppendKV(1, nil, []byte("value"), nil)
	p := bld.Bytes()
	var b Batch
	for n := range len(p) + 1 {
		err := ParseInto(&b, p[:n])
		if n < HeaderSize {
			require.Equal(t, ErrShort, err)
			continue
		}
		require.NoError(t, err)
		if n < len(p) {
			require.Equal(t, p[:HeaderSize], b.Bytes(), "only the header")
			require.Equal(t, ErrShort, b.VerifyCRC())
		}
	}
	require.Equal(t, p, b.Bytes())
	require.NoError(t, b.VerifyCRC())
	p[posMagic] = 1
	require.ErrorIs(t, ParseInto(&b, p), ErrCorrupt)
}

func TestEveryFlippedBitIsFound(t *testing.T) {
	t.Parallel()
	p := golden(t, goldenTwo)
	for i := posMagic; i < len(p); i++ { // the bytes before are not covered by the CRC
		for bit := range 8 {
			p[i] ^= 1 << bit
			_, _, err := Parse(p)
			require.ErrorIs(t, err, ErrCorrupt, "byte %d bit %d", i, bit)
			p[i] ^= 1 << bit
		}
	}
}

func TestBaseOffsetAndLeaderEpochAreOutsideTheCRC(t *testing.T) {
	t.Parallel()
	p := golden(t, goldenTwo)
	SetBaseOffset(p, 1<<40)
	SetLeaderEpoch(p, 77)
	rs := records(t, p)
	require.EqualValues(t, 1<<40+1, rs[1].Offset)
	require.EqualValues(t, 77, rs[1].LeaderEpoch)
}

func TestDamageInsideIsYieldedOnce(t *testing.T) {
	t.Parallel()
	p := clientBatch(t, None)
	second := HeaderSize + 1 + int(p[HeaderSize]>>1)
	p[second] = 1 // its length: -1
	sealBytes(p)
	b, _, err := Parse(p)
	require.NoError(t, err)
	var read, failed int
	for _, err := range b.All() {
		if err != nil {
			require.ErrorIs(t, err, ErrCorrupt)
			failed++
			continue
		}
		read++
	}
	require.Equal(t, 1, read, "what comes before is readable")
	require.Equal(t, 1, failed)
	it, err := b.Records(0)
	require.NoError(t, err)
	var r Record
	_, _ = it.Next(&r)
	_, err = it.Next(&r)
	_, again := it.Next(&r)
	require.Error(t, err)
	require.Equal(t, err, again)
}
