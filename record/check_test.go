package record

import (
	"encoding/binary"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// clientBatch is a good batch of three records with timestamps 1000, 3000, 2000.
func clientBatch(t testing.TB, c Codec) []byte {
	var b Builder
	b.SetProducer(7, 0, 0)
	for i, ts := range []int64{1000, 3000, 2000} {
		require.True(t, b.AppendKV(ts, []byte{byte(i)}, []byte("value"), []Header{{"h", nil}}))
	}
	p, err := b.Build(c)
	require.NoError(t, err)
	return p
}

// withArea returns a batch with the header of p and another record area, with the right CRC and
// length.
func withArea(p, area []byte) []byte {
	out := append(append([]byte(nil), p[:HeaderSize]...), area...)
	sealBytes(out)
	return out
}

func put16(p []byte, at int, v int16) { binary.BigEndian.PutUint16(p[at:], uint16(v)) }
func put32(p []byte, at int, v int32) { binary.BigEndian.PutUint32(p[at:], uint32(v)) }
func put64(p []byte, at int, v int64) { binary.BigEndian.PutUint64(p[at:], uint64(v)) }

func TestGoodBatchesPassCheck(t *testing.T) {
	t.Parallel()
	for _, c := range append(codecs, None) {
		p := clientBatch(t, c)
		b, latest, err := Check(p, CheckOptions{MaxBytes: len(p), RequireKeys: true, NowMs: 2000, MaxAgeMs: 1000, MaxAheadMs: 1000})
		require.NoError(t, err, c)
		require.EqualValues(t, 3000, latest)
		require.EqualValues(t, 3, b.RecordCount)
		require.Equal(t, p, b.Bytes())
	}
}

func TestPoisonBatchesAreRefused(t *testing.T) {
	t.Parallel()
	area := func(p []byte) []byte { return p[HeaderSize:] }
	seal := func(f func(p []byte)) func([]byte) []byte {
		return func(p []byte) []byte { f(p); sealBytes(p); return p }
	}
	for name, test := range map[string]struct {
		change func(p []byte) []byte // of an uncompressed batch, unless codec is set
		codec  Codec
		err    error
	}{
		"empty":                      {change: func(p []byte) []byte { return nil }, err: ErrInvalidRecord},
		"header only":                {change: func(p []byte) []byte { return p[:HeaderSize] }, err: ErrInvalidRecord},
		"partial":                    {change: func(p []byte) []byte { return p[:len(p)-1] }, err: ErrInvalidRecord},
		"trailing garbage":           {change: func(p []byte) []byte { return append(p, 0) }, err: ErrInvalidRecord},
		"two batches":                {change: func(p []byte) []byte { return append(p, p...) }, err: ErrInvalidRecord},
		"magic 1":                    {change: seal(func(p []byte) { p[posMagic] = 1 }), err: ErrInvalidRecord},
		"magic 3":                    {change: seal(func(p []byte) { p[posMagic] = 3 }), err: ErrCorrupt},
		"length 13":                  {change: func(p []byte) []byte { put32(p, posLength, 13); return p }, err: ErrCorrupt},
		"negative length":            {change: func(p []byte) []byte { put32(p, posLength, -1); return p }, err: ErrCorrupt},
		"base offset":                {change: func(p []byte) []byte { put64(p, posBaseOffset, 1); return p }, err: ErrInvalidRecord},
		"CRC":                        {change: func(p []byte) []byte { p[posCRC]++; return p }, err: ErrCorrupt},
		"flipped bit":                {change: func(p []byte) []byte { p[len(p)-1] ^= 4; return p }, err: ErrCorrupt},
		"count 0":                    {change: seal(func(p []byte) { put32(p, posRecordCount, 0) }), err: ErrInvalidRecord},
		"count too small":            {change: seal(func(p []byte) { put32(p, posRecordCount, 2) }), err: ErrInvalidRecord},
		"count too large":            {change: seal(func(p []byte) { put32(p, posRecordCount, 4); put32(p, posLastOffsetDelta, 3) }), err: ErrCorrupt},
		"count and delta too small":  {change: seal(func(p []byte) { put32(p, posRecordCount, 2); put32(p, posLastOffsetDelta, 1) }), err: ErrInvalidRecord},
		"count negative":             {change: seal(func(p []byte) { put32(p, posRecordCount, -1) }), err: ErrCorrupt},
		"last offset delta":          {change: seal(func(p []byte) { put32(p, posLastOffsetDelta, 5) }), err: ErrInvalidRecord},
		"last offset delta negative": {change: seal(func(p []byte) { put32(p, posLastOffsetDelta, -3) }), err: ErrCorrupt},
		"control bit":                {change: seal(func(p []byte) { p[posAttributes+1] |= byte(attrControl) }), err: ErrInvalidRecord},
		"delete horizon bit":         {change: seal(func(p []byte) { p[posAttributes+1] |= byte(attrDeleteHorizon) }), err: ErrInvalidRecord},
		"sequence missing":           {change: seal(func(p []byte) { put32(p, posBaseSequence, -1) }), err: ErrInvalidRecord},
		"producer epoch missing":     {change: seal(func(p []byte) { put16(p, posProducerEpoch, -1) }), err: ErrInvalidRecord},
		"producer id":                {change: seal(func(p []byte) { put64(p, posProducerID, -2) }), err: ErrInvalidRecord},
		"transaction without id": {change: seal(func(p []byte) {
			put64(p, posProducerID, -1)
			p[posAttributes+1] |= byte(attrTransactional)
		}), err: ErrInvalidRecord},
		"codec 5":                     {change: seal(func(p []byte) { p[posAttributes+1] = 5 }), err: ErrUnsupportedCodec},
		"codec 7":                     {change: seal(func(p []byte) { p[posAttributes+1] = 7 }), err: ErrUnsupportedCodec},
		"wrong codec":                 {change: seal(func(p []byte) { p[posAttributes+1] = byte(Zstd) }), err: ErrCorrupt},
		"gzip garbage":                {codec: Gzip, change: seal(func(p []byte) { p[HeaderSize+12] ^= 0xff }), err: ErrCorrupt},
		"snappy garbage":              {codec: Snappy, change: seal(func(p []byte) { p[HeaderSize+20] ^= 0xff }), err: ErrCorrupt},
		"lz4 garbage":                 {codec: LZ4, change: seal(func(p []byte) { p[HeaderSize+7] ^= 0xff }), err: ErrCorrupt},
		"zstd garbage":                {codec: Zstd, change: seal(func(p []byte) { p[HeaderSize+1] ^= 0xff }), err: ErrCorrupt},
		"record cut":                  {change: func(p []byte) []byte { return withArea(p, area(p)[:len(area(p))-1]) }, err: ErrCorrupt},
		"bytes behind the records":    {change: func(p []byte) []byte { return withArea(p, append(area(p), 0)) }, err: ErrInvalidRecord},
		"compressed trailing bytes":   {change: recompressed(func(p []byte) []byte { return append(p, 0) }), err: ErrInvalidRecord},
		"offset delta":                {change: func(p []byte) []byte { p[HeaderSize+3] = 2; sealBytes(p); return p }, err: ErrInvalidRecord},
		"offset delta inside codec":   {change: recompressed(func(p []byte) []byte { p[3] = 2; return p }), err: ErrInvalidRecord},
		"offset delta negative":       {change: func(p []byte) []byte { p[HeaderSize+3] = 1; sealBytes(p); return p }, err: ErrInvalidRecord},
		"record length too small":     {change: func(p []byte) []byte { p[HeaderSize] -= 2; sealBytes(p); return p }, err: ErrCorrupt},
		"record length negative":      {change: func(p []byte) []byte { p[HeaderSize] = 1; sealBytes(p); return p }, err: ErrCorrupt},
		"key length beyond the value": {change: func(p []byte) []byte { p[HeaderSize+4] = 120; sealBytes(p); return p }, err: ErrCorrupt},
		"key length -2":               {change: func(p []byte) []byte { p[HeaderSize+4] = 3; sealBytes(p); return p }, err: ErrCorrupt},
		"header count":                {change: func(p []byte) []byte { p[HeaderSize+12] = 4; sealBytes(p); return p }, err: ErrCorrupt},
		"header without a name":       {change: func(p []byte) []byte { p[HeaderSize+13] = 1; sealBytes(p); return p }, err: ErrCorrupt},
		"bogus varints": {change: func(p []byte) []byte {
			return withArea(p, []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff})
		}, err: ErrCorrupt},
	} {
		p := clientBatch(t, test.codec)
		_, _, err := Check(p, CheckOptions{})
		require.NoError(t, err, name)
		_, _, err = Check(test.change(p), CheckOptions{})
		require.ErrorIs(t, err, test.err, name)
	}
}

// recompressed applies change to the records of a batch and compresses them.
func recompressed(change func(area []byte) []byte) func([]byte) []byte {
	return func(p []byte) []byte {
		z, err := compress(nil, change(p[HeaderSize:]), LZ4)
		if err != nil {
			panic(err)
		}
		p = withArea(p, z)
		p[posAttributes+1] |= byte(LZ4)
		sealBytes(p)
		return p
	}
}

func TestSizeIsCheckedBeforeTheCRCAndTheBaseOffsetBeforeBoth(t *testing.T) {
	t.Parallel()
	p := clientBatch(t, None)
	p[posCRC]++
	_, _, err := Check(p, CheckOptions{MaxBytes: len(p) - 1})
	require.ErrorIs(t, err, ErrBatchTooLarge)
	SetBaseOffset(p, 1)
	_, _, err = Check(p, CheckOptions{MaxBytes: len(p) - 1})
	require.ErrorIs(t, err, ErrInvalidRecord)
}

func TestTimestampsOutOfRangeAreNamedOneByOne(t *testing.T) {
	t.Parallel()
	p := clientBatch(t, Zstd)
	_, _, err := Check(p, CheckOptions{NowMs: 2000, MaxAgeMs: 999, MaxAheadMs: 999})
	require.ErrorIs(t, err, ErrInvalidTimestamp)
	var invalid *InvalidRecordError
	require.ErrorAs(t, err, &invalid)
	require.Len(t, invalid.Records, 2)
	require.Equal(t, 0, invalid.Records[0].Index)
	require.Equal(t, 1, invalid.Records[1].Index)

	_, _, err = Check(p, CheckOptions{NowMs: math.MaxInt64 - 5, MaxAheadMs: math.MaxInt64})
	require.NoError(t, err, "bounds that overflow bound nothing")
	_, _, err = Check(p, CheckOptions{NowMs: 9e9, MaxAgeMs: 1, TimestampType: LogAppendTime})
	require.NoError(t, err, "on an append-time topic the producer's time does not matter")

	var b Builder
	require.True(t, b.AppendKV(-1, nil, nil, nil))
	_, latest, err := Check(b.Bytes(), CheckOptions{NowMs: 9e9, MaxAgeMs: 1})
	require.NoError(t, err, "no timestamp is in no range")
	require.EqualValues(t, -1, latest)
}

func TestAppendTimeFlagOfAProducer(t *testing.T) {
	t.Parallel()
	p := clientBatch(t, None)
	Stamp(p, LogAppendTime, 9000)
	_, _, err := Check(p, CheckOptions{TimestampType: LogAppendTime})
	require.ErrorIs(t, err, ErrInvalidTimestamp)
	b, latest, err := Check(p, CheckOptions{})
	require.NoError(t, err, "on a create-time topic the leader clears it")
	require.EqualValues(t, 3000, latest)
	require.Equal(t, LogAppendTime, b.TimestampType())

	var bld Builder
	require.True(t, bld.AppendKV(-1, nil, nil, nil))
	p, err = bld.Build(None)
	require.NoError(t, err)
	Stamp(p, LogAppendTime, 9000)
	_, _, err = Check(p, CheckOptions{})
	require.ErrorIs(t, err, ErrInvalidTimestamp, "nothing would be left once it is cleared")
}

func TestRecordsWithoutKeysAreNamedOnACompactedTopic(t *testing.T) {
	t.Parallel()
	var b Builder
	b.AppendKV(1, []byte{}, nil, nil)
	b.AppendKV(1, nil, nil, nil)
	_, _, err := Check(b.Bytes(), CheckOptions{RequireKeys: true})
	var invalid *InvalidRecordError
	require.ErrorAs(t, err, &invalid)
	require.ErrorIs(t, err, ErrInvalidRecord)
	require.Len(t, invalid.Records, 1)
	require.Equal(t, 1, invalid.Records[0].Index)
	_, _, err = Check(b.Bytes(), CheckOptions{})
	require.NoError(t, err)
}

func TestCheckDoesNotAllocate(t *testing.T) {
	if raceEnabled {
		t.Skip("counts allocations")
	}
	for _, c := range append(codecs, None) {
		p := clientBatch(t, c)
		check := func() {
			if _, _, err := Check(p, CheckOptions{RequireKeys: true}); err != nil {
				t.Fatal(err)
			}
		}
		check()
		require.Zero(t, testing.AllocsPerRun(100, check), c)
	}
}

func TestBatchThatInflatesTooFarIsRefused(t *testing.T) {
	t.Parallel()
	var b Builder
	require.True(t, b.AppendKV(1, nil, make([]byte, 8<<20), nil))
	p, err := b.Build(Zstd)
	require.NoError(t, err)
	_, _, err = Check(p, CheckOptions{MaxInflated: 4 << 20})
	require.ErrorIs(t, err, ErrTooLarge)
	_, _, err = Check(p, CheckOptions{})
	require.NoError(t, err)
}

func TestCheckBuiltAgreesWithCheckOnBuiltBatches(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var bld Builder
		if rapid.Bool().Draw(t, "idempotent") {
			bld.SetProducer(rapid.Int64Range(0, 9).Draw(t, "id"), rapid.Int16Range(-1, 2).Draw(t, "epoch"), rapid.Int32Range(-1, 2).Draw(t, "sequence"))
		}
		bld.SetTransactional(rapid.Bool().Draw(t, "transactional"))
		for range rapid.IntRange(1, 4).Draw(t, "records") {
			key := rapid.SampledFrom([][]byte{nil, {}, {1}}).Draw(t, "key")
			bld.AppendKV(rapid.Int64Range(-2, 4000).Draw(t, "timestamp"), key, []byte("value"), nil)
		}
		p, err := bld.Build(rapid.SampledFrom(append(codecs, None)).Draw(t, "codec"))
		require.NoError(t, err)
		if rapid.Bool().Draw(t, "stamp") {
			Stamp(p, LogAppendTime, 3000)
		}
		o := CheckOptions{
			MaxBytes: rapid.SampledFrom([]int{0, 100, len(p)}).Draw(t, "max"), RequireKeys: rapid.Bool().Draw(t, "keys"), NowMs: 2000,
			MaxAgeMs: rapid.SampledFrom([]int64{0, 1000}).Draw(t, "age"), MaxAheadMs: rapid.SampledFrom([]int64{0, 1000}).Draw(t, "ahead"),
			TimestampType: rapid.SampledFrom([]TimestampType{CreateTime, LogAppendTime}).Draw(t, "topic"),
		}
		want, wantLatest, wantErr := Check(p, o)
		got, latest, err := CheckBuilt(p, o)
		require.Equal(t, wantErr, err)
		require.Equal(t, want, got)
		if o.TimestampType == CreateTime && got.TimestampType() == CreateTime {
			require.Equal(t, wantLatest, latest)
		}
	})
}

func TestCheckBuiltFindsWhatIsInTheHeader(t *testing.T) {
	t.Parallel()
	p := clientBatch(t, None)
	for name, damage := range map[string]func(p []byte){
		"length":      func(p []byte) { put32(p, posLength, 5) },
		"base offset": func(p []byte) { put64(p, posBaseOffset, 1) },
		"magic":       func(p []byte) { p[posMagic] = 1 },
		"count":       func(p []byte) { put32(p, posRecordCount, 9) },
		"control":     func(p []byte) { put16(p, posAttributes, int16(attrControl)) },
	} {
		bad := append([]byte(nil), p...)
		damage(bad)
		_, _, err := CheckBuilt(bad, CheckOptions{})
		require.Error(t, err, name)
	}
}
