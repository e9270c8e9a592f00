package record

import (
	"bytes"
	"encoding/binary"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// seedBatches are batches of every codec, from Kafka and from this package.
func seedBatches(f *testing.F) [][]byte {
	out := [][]byte{golden(f, goldenOne), golden(f, goldenTwo), golden(f, goldenCommit), golden(f, goldenEmpty)}
	for _, batches := range kafkaBatches(f) {
		if b := batches[0]; b.Size() < 4096 {
			out = append(out, bytes.Clone(b.Bytes()))
		}
	}
	for _, c := range append(codecs, None) {
		out = append(out, clientBatch(f, c))
	}
	return out
}

// FuzzParse: Parse never panics, never reads past the end, and returns the length of each batch
// that it accepts.
func FuzzParse(f *testing.F) {
	for _, p := range seedBatches(f) {
		f.Add(p)
		f.Add(append(p, "tail"...))
	}
	f.Fuzz(func(t *testing.T, p []byte) {
		b, n, err := Parse(p)
		if err != nil {
			require.True(t, errors.Is(err, ErrShort) || errors.Is(err, ErrCorrupt), err)
			return
		}
		require.Equal(t, p[:n], b.Bytes())
		require.GreaterOrEqual(t, b.NextOffset(), b.BaseOffset)
		alone, m, err := Parse(p[:n:n])
		require.NoError(t, err)
		require.Equal(t, n, m)
		require.Equal(t, b, alone, "what follows a batch does not matter")
		into := Batch{BaseOffset: -1, Attributes: -1, RecordCount: -1, raw: p[:1]}
		require.NoError(t, ParseInto(&into, p))
		require.Equal(t, *b, into, "nothing is left of what was there")
	})
}

// FuzzRecords: the CRC is made right, so that the fuzzer gets past it. Records that can be walked
// are the same after they are built again, Filter keeps them, and Check agrees with the walk on
// valid batches.
func FuzzRecords(f *testing.F) {
	for _, p := range seedBatches(f) {
		f.Add(p)
	}
	const limit = 1 << 20
	f.Fuzz(func(t *testing.T, p []byte) {
		if len(p) < HeaderSize {
			return
		}
		p = bytes.Clone(p)
		sealBytes(p)
		b, _, err := Parse(p)
		if err != nil {
			return
		}
		it, err := b.Records(limit)
		if err != nil {
			return
		}
		var rs []Record
		var bld Builder
		// A Builder counts offsets from 0 and measures time from its first record. Only such
		// batches are the same after a rebuild.
		same := !b.HasDeleteHorizon()
		for {
			var r Record
			ok, err := it.Next(&r)
			if err != nil {
				require.ErrorIs(t, err, ErrCorrupt)
				_, _, err := Check(p, CheckOptions{MaxInflated: limit})
				require.Error(t, err, "Check lets pass what cannot be read")
				return
			}
			if !ok {
				break
			}
			same = same && r.Offset == b.BaseOffset+int64(len(rs))
			rs = append(rs, r)
			bld.Append(&r)
		}
		require.EqualValues(t, b.RecordCount, len(rs))
		_, _, _ = Check(p, CheckOptions{MaxInflated: limit})
		_, _, _ = b.Control()
		if !same || len(rs) == 0 {
			return
		}
		bld.SetBaseOffset(b.BaseOffset)
		bld.SetLeaderEpoch(b.LeaderEpoch)
		again := records(t, bld.Bytes())
		for i := range again {
			if b.TimestampType() == LogAppendTime {
				again[i].TimestampType = LogAppendTime
			}
		}
		require.Equal(t, rs, again)
		filterMustKeep(t, b, rs, limit)
	})
}

func filterMustKeep(t *testing.T, b *Batch, rs []Record, limit int) {
	keep := func(r *Record) bool { return r.Offset%2 == 0 }
	out, kept, err := Filter(nil, b, FilterOptions{MaxInflated: limit}, keep)
	require.NoError(t, err)
	var want []Record
	for i := range rs {
		if keep(&rs[i]) {
			want = append(want, rs[i])
		}
	}
	require.Equal(t, len(want), kept)
	if kept > 0 {
		require.Equal(t, want, records(t, out))
	}
}

// FuzzDecompress: arbitrary bytes never cause a panic nor exceed the limit. Decompression restores
// compressed bytes.
func FuzzDecompress(f *testing.F) {
	for _, c := range codecs {
		for _, p := range [][]byte{nil, []byte("payload"), bytes.Repeat([]byte("again "), 1000)} {
			z, err := compress(nil, p, c)
			require.NoError(f, err)
			f.Add(uint8(c), z)
		}
	}
	f.Add(uint8(Snappy), []byte{0xff, 0xff, 0xff, 0xff, 0x0f, 0})
	const limit = 64 << 10
	f.Fuzz(func(t *testing.T, codec uint8, p []byte) {
		c := Codec(codec % 6)
		out, err := decompress(nil, p, c, limit)
		if err != nil {
			require.True(t, errors.Is(err, ErrCorrupt) || errors.Is(err, ErrTooLarge) || errors.Is(err, ErrUnsupportedCodec), err)
			require.Nil(t, out)
		} else if c != None {
			require.LessOrEqual(t, len(out), limit)
			require.LessOrEqual(t, cap(out), 16*limit)
		}
		z, err := compress(nil, p, c)
		if c > Zstd {
			require.ErrorIs(t, err, ErrUnsupportedCodec)
			return
		}
		require.NoError(t, err)
		if c == None {
			return
		}
		back, err := decompress(nil, z, c, len(p)+1)
		require.NoError(t, err)
		require.True(t, bytes.Equal(p, back))
	})
}

// FuzzRoundTrip: decode(encode(x)) == x.
func FuzzRoundTrip(f *testing.F) {
	f.Add([]byte("key"), []byte("value"), "name", []byte("header"), int64(1000), uint8(0))
	f.Add([]byte(nil), []byte{}, "", []byte(nil), int64(-1), uint8(4))
	f.Fuzz(func(t *testing.T, key, value []byte, name string, header []byte, ms int64, codec uint8) {
		ms %= 1 << 53
		want := []Record{
			{LeaderEpoch: -1, Timestamp: time.UnixMilli(ms), Key: key, Value: value, Headers: []Header{{name, header}, {name, nil}}},
			{LeaderEpoch: -1, Timestamp: time.UnixMilli(-ms), Key: value, Value: nil, Offset: 1},
		}
		var b Builder
		for i := range want {
			require.True(t, b.Append(&want[i]))
		}
		p, err := b.Build(Codec(codec % 5))
		require.NoError(t, err)
		require.Equal(t, want, records(t, p))
		_, latest, err := Check(p, CheckOptions{})
		require.NoError(t, err)
		require.Equal(t, max(ms, -ms), latest)
	})
}

// FuzzVarint: a varint has at most ten bytes, and a longer one is an error. Its length is that of
// encoding/binary.
func FuzzVarint(f *testing.F) {
	f.Add([]byte{0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 1})
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0x0f})
	f.Fuzz(func(t *testing.T, p []byte) {
		want, n := binary.Uvarint(p)
		got, i := uvarint(p, 0)
		if n <= 0 {
			require.Equal(t, -1, i)
			return
		}
		require.Equal(t, n, i)
		require.Equal(t, want, got)
		out := make([]byte, 10)
		require.LessOrEqual(t, uvarintLen(got), n, "shortest form")
		require.Equal(t, uvarintLen(got), putUvarint(out, 0, got))
		require.Equal(t, unzigzag(got), unzigzag(zigzag(unzigzag(got))))
	})
}
