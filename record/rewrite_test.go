package record

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRewriteChangesTheCodecAndNothingElse(t *testing.T) {
	t.Parallel()
	for _, from := range append(codecs, None) {
		for _, to := range append(codecs, None) {
			p := clientBatch(t, from)
			SetBaseOffset(p, 40)
			SetLeaderEpoch(p, 2)
			before := bytes.Clone(p)
			b, _, err := Parse(p)
			require.NoError(t, err)
			out, err := Rewrite([]byte("before"), b, RewriteOptions{Codec: to, MaxTimestamp: b.MaxTimestamp})
			require.NoError(t, err)
			require.Equal(t, before, p, "the original is not written to")
			got, n, err := Parse(out[6:])
			require.NoError(t, err)
			require.Equal(t, len(out)-6, n)
			require.Equal(t, to, got.Codec())
			require.Equal(t, records(t, p), records(t, out[6:]))
			if from == to {
				require.Equal(t, p, out[6:])
			}
			h := *got
			h.Attributes, h.Length, h.CRC, h.raw = b.Attributes, b.Length, b.CRC, b.raw
			require.Equal(t, *b, h, "the rest of the header")
		}
	}
}

func TestRewriteStampsTheAppendTime(t *testing.T) {
	t.Parallel()
	for _, c := range append(codecs, None) {
		b, _, err := Parse(clientBatch(t, c))
		require.NoError(t, err)
		p, err := Rewrite(nil, b, RewriteOptions{Codec: c, TimestampType: LogAppendTime, MaxTimestamp: 77777})
		require.NoError(t, err)
		for _, r := range records(t, p) {
			require.Equal(t, LogAppendTime, r.TimestampType)
			require.EqualValues(t, 77777, r.Timestamp.UnixMilli())
		}
	}
}

func TestStampClearsAWrongFlagAndMaximum(t *testing.T) {
	t.Parallel()
	p := clientBatch(t, None)
	good := bytes.Clone(p)
	Stamp(p, LogAppendTime, 123456)
	Stamp(p, CreateTime, 3000)
	require.Equal(t, good, p)
}

func TestRewriteOfUndecodableBytesLeavesTheDestination(t *testing.T) {
	t.Parallel()
	p := clientBatch(t, Gzip)
	p[HeaderSize+15] ^= 0xff
	sealBytes(p)
	b, _, err := Parse(p)
	require.NoError(t, err)
	out, err := Rewrite([]byte("before"), b, RewriteOptions{Codec: LZ4})
	require.ErrorIs(t, err, ErrCorrupt)
	require.Equal(t, "before", string(out))
	b, _, err = Parse(clientBatch(t, Gzip))
	require.NoError(t, err)
	out, err = Rewrite([]byte("before"), b, RewriteOptions{Codec: 6})
	require.ErrorIs(t, err, ErrUnsupportedCodec)
	require.Equal(t, "before", string(out))
}
