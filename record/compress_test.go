package record

import (
	"bytes"
	stdgzip "compress/gzip"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/synctest"
)

var codecs = []Codec{Gzip, Snappy, LZ4, Zstd}

// payloads have sizes around every block and chunk boundary, compressible and not.
func payloads() map[string][]byte {
	rnd := rand.NewChaCha8([32]byte{1})
	out := map[string][]byte{}
	for _, n := range []int{0, 1, 15, 100, 32<<10 - 1, 32 << 10, 32<<10 + 1, 64 << 10, 64<<10 + 1, 200 << 10, 3 << 20} {
		noise := make([]byte, n)
		_, _ = rnd.Read(noise)
		text := bytes.Repeat([]byte("the same again "), n/15+1)[:n]
		out[fmt.Sprintf("noise/%d", n)], out[fmt.Sprintf("text/%d", n)] = noise, text
	}
	return out
}

func TestEveryCodecReturnsWhatItWasGiven(t *testing.T) {
	t.Parallel()
	for name, p := range payloads() {
		for _, c := range codecs {
			z, err := compress([]byte("before"), p, c)
			require.NoError(t, err)
			require.Equal(t, "before", string(z[:6]))
			got, err := decompress([]byte("first"), z[6:], c, max(1, len(p)))
			require.NoError(t, err, "%v %s", c, name)
			require.Equal(t, "first", string(got[:5]))
			require.True(t, bytes.Equal(p, got[5:]), "%v %s", c, name)
			if len(p) > 1 {
				_, err = decompress(nil, z[6:], c, len(p)-1)
				require.ErrorIs(t, err, ErrTooLarge, "%v %s", c, name)
			}
		}
	}
}

func TestCompressedStreamsBeginLikeKafkas(t *testing.T) {
	t.Parallel()
	for c, head := range map[Codec]string{
		Gzip:   "\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff",
		Snappy: "\x82\x53\x4e\x41\x50\x50\x59\x00\x00\x00\x00\x01\x00\x00\x00\x01",
		LZ4:    "\x04\x22\x4d\x18\x60\x40\x82",
		Zstd:   "\x28\xb5\x2f\xfd",
	} {
		z, err := compress(nil, []byte("payload"), c)
		require.NoError(t, err)
		require.Equal(t, head, string(z[:len(head)]), c)
	}
}

func TestForeignWritersAreRead(t *testing.T) {
	t.Parallel()
	p := bytes.Repeat([]byte("some text with a little repetition, "), 20000)
	var gz, member bytes.Buffer
	for _, half := range [][]byte{p[:1000], p[1000:]} { // two members
		w, _ := stdgzip.NewWriterLevel(&gz, 9)
		w.Name = "named"
		_, _ = w.Write(half)
		require.NoError(t, w.Close())
	}
	var frame bytes.Buffer
	zw := lz4.NewWriter(&frame)
	require.NoError(t, zw.Apply(lz4.BlockSizeOption(lz4.Block256Kb), lz4.BlockChecksumOption(true), lz4.ChecksumOption(true), lz4.SizeOption(uint64(len(p)))))
	_, _ = zw.Write(p)
	require.NoError(t, zw.Close())
	// A stream: no content size, a checksum.
	sw, err := zstd.NewWriter(&member, zstd.WithEncoderConcurrency(1))
	require.NoError(t, err)
	_, _ = sw.Write(p)
	require.NoError(t, sw.Close())
	half, err := compress(nil, p[:1000], Snappy)
	require.NoError(t, err)
	twice, err := compress(half, p[1000:], Snappy)
	require.NoError(t, err)
	for name, in := range map[string]struct {
		c Codec
		z []byte
	}{
		"gzip members":            {Gzip, gz.Bytes()},
		"bare snappy":             {Snappy, snappy.Encode(nil, p)},
		"concatenated xerial":     {Snappy, twice},
		"lz4 with all checksums":  {LZ4, frame.Bytes()},
		"zstd without known size": {Zstd, member.Bytes()},
	} {
		got, err := decompress(nil, in.z, in.c, len(p))
		require.NoError(t, err, name)
		require.True(t, bytes.Equal(p, got), name)
		_, err = decompress(nil, in.z, in.c, len(p)-1)
		require.ErrorIs(t, err, ErrTooLarge, name)
	}
}

func TestOurLZ4FramesAreReadByOthers(t *testing.T) {
	t.Parallel()
	for name, p := range payloads() {
		var got bytes.Buffer
		_, err := got.ReadFrom(lz4.NewReader(bytes.NewReader(compressLZ4(nil, p))))
		require.NoError(t, err)
		require.True(t, bytes.Equal(p, got.Bytes()), name)
	}
}

func TestLZ4OfAnotherDialectIsRefused(t *testing.T) {
	t.Parallel()
	good := compressLZ4(nil, []byte("payload"))
	for name, change := range map[string]func([]byte){
		"magic":           func(p []byte) { p[0]++ },
		"version":         func(p []byte) { p[4] = 0xa0 },
		"linked blocks":   func(p []byte) { p[4] = 0x40; p[6] = byte(xxh32(p[4:6]) >> 8) },
		"dictionary":      func(p []byte) { p[4] = 0x61; p[6] = byte(xxh32(p[4:6]) >> 8) },
		"block size 0":    func(p []byte) { p[5] = 0; p[6] = byte(xxh32(p[4:6]) >> 8) },
		"header checksum": func(p []byte) { p[6]++ },
		"block length":    func(p []byte) { binary.LittleEndian.PutUint32(p[7:], 64<<10+1) },
	} {
		p := bytes.Clone(good)
		change(p)
		_, err := decompress(nil, p, LZ4, 1000)
		require.ErrorIs(t, err, ErrCorrupt, name)
	}
	_, err := decompress(nil, append(bytes.Clone(good), 0), LZ4, 1000)
	require.ErrorIs(t, err, ErrCorrupt)
	for i := range good {
		_, err := decompress(nil, good[:i], LZ4, 1000)
		require.ErrorIs(t, err, ErrCorrupt, i)
	}
}

func TestXXH32KnownAnswers(t *testing.T) {
	t.Parallel()
	for s, want := range map[string]uint32{"": 0x02cc5d05, "a": 0x550d7456, "abc": 0x32d153ff, "Nobody inspects the spammish repetition": 0xe2293b2f} {
		require.Equal(t, want, xxh32([]byte(s)), s)
	}
}

// bombs inflate to 64 MiB.
func bombs(t testing.TB) map[Codec][]byte {
	const size = 64 << 20
	out := map[Codec][]byte{}
	zeros := make([]byte, 1<<20)
	var gz bytes.Buffer
	w := stdgzip.NewWriter(&gz)
	for range size >> 20 {
		_, err := w.Write(zeros)
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	out[Gzip] = gz.Bytes()

	chunk := snappy.Encode(nil, zeros)
	out[Snappy] = []byte(xerialHeader)
	for range size >> 20 {
		out[Snappy] = append(binary.BigEndian.AppendUint32(out[Snappy], uint32(len(chunk))), chunk...)
	}

	frame := compressLZ4(nil, zeros[:lz4BlockSize])
	block := frame[len(lz4Header) : len(frame)-4]
	out[LZ4] = []byte(lz4Header)
	for range size / lz4BlockSize {
		out[LZ4] = append(out[LZ4], block...)
	}
	out[LZ4] = append(out[LZ4], 0, 0, 0, 0)

	z, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
	require.NoError(t, err)
	var zs bytes.Buffer
	z.ResetContentSize(&zs, size)
	for range size >> 20 {
		_, err := z.Write(zeros)
		require.NoError(t, err)
	}
	require.NoError(t, z.Close())
	out[Zstd] = zs.Bytes()
	return out
}

func TestBombsAreRefusedWithoutAskingForTheirMemory(t *testing.T) {
	if raceEnabled {
		t.Skip("counts allocations")
	}
	for c, bomb := range bombs(t) {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := decompress(nil, bomb, c, 64<<20-1)
		runtime.ReadMemStats(&after)
		require.ErrorIs(t, err, ErrTooLarge, c)
		require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(8<<20), "%v: bomb of %d bytes", c, len(bomb))
	}
}

// A pooled coder may have been created in one bubble and be used in another, or outside of any.
func TestCodersWorkAcrossBubbles(t *testing.T) {
	p := bytes.Repeat([]byte("payload"), 100000)
	use := func(t *testing.T) {
		for _, c := range codecs {
			z, err := compress(nil, p, c)
			require.NoError(t, err)
			got, err := decompress(nil, z, c, len(p))
			require.NoError(t, err)
			require.True(t, bytes.Equal(p, got))
		}
	}
	synctest.Test(t, use)
	use(t)
	synctest.Test(t, use)
}

func TestCodecNames(t *testing.T) {
	t.Parallel()
	for _, c := range append(codecs, None) {
		got, err := ParseCodec(c.String())
		require.NoError(t, err)
		require.Equal(t, c, got)
	}
	c, err := ParseCodec("uncompressed")
	require.NoError(t, err)
	require.Equal(t, None, c)
	_, err = ParseCodec("producer")
	require.ErrorIs(t, err, ErrUnsupportedCodec)
	require.Equal(t, "codec 7", Codec(7).String())
}

func TestCompressedBatchesAreReadBack(t *testing.T) {
	t.Parallel()
	want := awkwardRecords()
	for _, c := range codecs {
		var b Builder
		for i := range want {
			require.True(t, b.Append(&want[i]))
		}
		p, err := b.AppendBatch([]byte("before"), c)
		require.NoError(t, err)
		require.Zero(t, b.Len())
		require.Equal(t, want, records(t, p[6:]), c)
		batch, _, err := Parse(p[6:])
		require.NoError(t, err)
		require.Equal(t, c, batch.Codec())
		_, err = batch.Records(1000)
		require.ErrorIs(t, err, ErrTooLarge)
	}
}

func BenchmarkCompress(b *testing.B) {
	var bld Builder
	rnd := rand.New(rand.NewPCG(1, 2))
	for i := range 500 {
		bld.AppendKV(int64(1000+i), fmt.Appendf(nil, "user-%d", rnd.IntN(1000)), fmt.Appendf(nil, `{"id":%d,"action":"click","page":"/item/%d","ok":true}`, rnd.Uint32(), rnd.IntN(1000)), nil)
	}
	p := bld.Bytes()[HeaderSize:]
	for _, c := range codecs {
		z, _ := compress(nil, p, c)
		b.Run(fmt.Sprintf("%v/compress", c), func(b *testing.B) {
			b.SetBytes(int64(len(p)))
			b.ReportAllocs()
			var dst []byte
			for b.Loop() {
				dst, _ = compress(dst[:0], p, c)
			}
			b.ReportMetric(float64(len(p))/float64(len(dst)), "ratio")
		})
		b.Run(fmt.Sprintf("%v/decompress", c), func(b *testing.B) {
			b.SetBytes(int64(len(p)))
			b.ReportAllocs()
			var dst []byte
			for b.Loop() {
				dst, _ = decompress(dst[:0], z, c, 1<<20)
			}
		})
	}
}

// A batch of some kilobytes may inflate to 128 MiB. Only one such batch is inflated at a time, and
// only as many medium-sized ones as there are processors.
func TestFewBatchesInflateToManyBytesAtATime(t *testing.T) {
	for _, codec := range []Codec{Gzip, Snappy, LZ4, Zstd} {
		for size, want := range map[int]turn{100 << 10: noTurn, 1 << 20: mediumTurn, InflatedPerProcessor + 1<<20: largeTurn} {
			var builder Builder
			require.True(t, builder.Append(&Record{Value: make([]byte, size)}))
			p, err := builder.AppendBatch(nil, codec)
			require.NoError(t, err)
			b, _, err := Parse(p)
			require.NoError(t, err)
			s := getScratch()
			area, err := s.inflate(b, 0)
			require.NoError(t, err)
			require.Greater(t, len(area), size)
			require.Equal(t, want, s.turn, "%v, %d bytes", codec, size)
			putScratch(s)
		}
	}
}
