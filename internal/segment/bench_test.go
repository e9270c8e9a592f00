package segment

import (
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/vfs"
)

// Each append is compared with the write that it needs at least.
func BenchmarkAppend(b *testing.B) {
	for _, records := range []int{1, 100, 1000} {
		p := batch(0, records, 1, 100)
		name := fmt.Sprintf("100B,batch=%d,fsync=never", records)
		b.Run(name+"/segment", func(b *testing.B) {
			s, err := Create(b.TempDir(), 0, Config{})
			require.NoError(b, err)
			bufs, infos := make([][]byte, 1), infoOf(p)
			b.SetBytes(int64(len(p)))
			b.ReportAllocs()
			for b.Loop() {
				bufs[0] = p
				if err := s.Append(bufs, infos); err != nil {
					b.Fatal(err)
				}
				infos[0].BaseOffset += int64(records)
				infos[0].LastOffset += int64(records)
				infos[0].MaxTimestamp++
				if s.Size() > 1<<30 {
					require.NoError(b, s.Truncate(0))
					infos = infoOf(p)
				}
			}
			require.NoError(b, s.Close())
		})
		b.Run(name+"/write", func(b *testing.B) {
			f, err := vfs.OS().OpenFile(filepath.Join(b.TempDir(), "f"), os.O_RDWR|os.O_CREATE, 0o644)
			require.NoError(b, err)
			b.SetBytes(int64(len(p)))
			pos := int64(0)
			for b.Loop() {
				n, err := f.WriteAt(p, pos)
				if err != nil {
					b.Fatal(err)
				}
				if pos += int64(n); pos > 1<<30 {
					require.NoError(b, f.Truncate(0))
					pos = 0
				}
			}
			require.NoError(b, f.Close())
		})
	}
}

// A replay of 64 MiB, first with CRCs to check, then verified, then plain reads.
func BenchmarkReplay(b *testing.B) {
	dir := b.TempDir()
	s, err := Create(dir, 0, Config{})
	require.NoError(b, err)
	p := batch(0, 100, 1, 100)
	infos := infoOf(p)
	for s.Size() < 64<<20 {
		require.NoError(b, s.Append([][]byte{batch(s.NextOffset(), 100, 1, 100)}, infos))
		infos[0].BaseOffset += 100
		infos[0].LastOffset += 100
	}
	require.NoError(b, s.Seal())
	size, next := s.Size(), s.NextOffset()
	require.NoError(b, s.Close())
	buf := make([]byte, 0, 1<<20)
	replay := func(b *testing.B, s *Segment) {
		for offset := int64(0); offset < next; {
			p, err := s.ReadAt(buf, offset, cap(buf), -1)
			if err != nil {
				b.Fatal(err)
			}
			offset += int64(len(p)) / (size / (next / 100)) * 100
		}
	}
	open := func() *Segment {
		s, err := Open(dir, 0, Config{}, OpenOptions{Clean: true, NextOffset: next, Size: size})
		require.NoError(b, err)
		return s
	}
	b.Run("first", func(b *testing.B) {
		b.SetBytes(size)
		b.ReportAllocs()
		for b.Loop() {
			s := open()
			replay(b, s)
			require.NoError(b, s.Close())
		}
	})
	b.Run("verified", func(b *testing.B) {
		b.SetBytes(size)
		b.ReportAllocs()
		s := open()
		replay(b, s)
		for b.Loop() {
			replay(b, s)
		}
		require.NoError(b, s.Close())
	})
	b.Run("read", func(b *testing.B) {
		f, err := os.Open(filepath.Join(dir, FileName(0, LogSuffix)))
		require.NoError(b, err)
		b.SetBytes(size)
		for b.Loop() {
			for pos := int64(0); pos < size; pos += 1 << 20 {
				_, _ = f.ReadAt(buf[:1<<20], pos)
			}
		}
		require.NoError(b, f.Close())
	})
}

// Recovery of 64 MiB, after a kill and after a power cut. After the kill the newest timestamp is
// at the beginning, so that no header can be left out. The lower bound of recovery after a power
// cut is reading the file and a CRC over pieces as large as its batches.
func BenchmarkRecover(b *testing.B) {
	for _, records := range []int{1, 100} {
		dir := b.TempDir()
		s, err := Create(dir, 0, Config{})
		require.NoError(b, err)
		for ms := int64(1 << 40); s.Size() < 64<<20; ms = 0 {
			p := batch(s.NextOffset(), records, ms, 100)
			require.NoError(b, s.Append([][]byte{p}, infoOf(p)))
		}
		require.NoError(b, s.Seal())
		size := s.Size()
		require.NoError(b, s.Close())
		for _, o := range []struct {
			name string
			RecoverOptions
		}{{"killed", RecoverOptions{SameBoot: true}}, {"power", RecoverOptions{}}} {
			b.Run(fmt.Sprintf("100B,batch=%d/%s", records, o.name), func(b *testing.B) {
				b.SetBytes(size)
				b.ReportAllocs()
				for b.Loop() {
					s, err := Open(dir, 0, Config{}, OpenOptions{})
					require.NoError(b, err)
					rep, err := s.Recover(o.RecoverOptions)
					require.NoError(b, err)
					require.Equal(b, size, rep.CutAt)
					require.NoError(b, s.Close())
				}
			})
		}
		batchBytes := len(batch(0, records, 0, 100))
		for _, limit := range []struct {
			name  string
			piece int
			// a CRC over few bytes costs more per byte than one over many
		}{{"crc32c", 1 << 20}, {"crc32c-pieces", batchBytes}} {
			b.Run(fmt.Sprintf("100B,batch=%d/%s", records, limit.name), func(b *testing.B) {
				buf := make([]byte, 1<<20)
				b.SetBytes(size)
				for b.Loop() {
					f, err := os.Open(filepath.Join(dir, FileName(0, LogSuffix)))
					require.NoError(b, err)
					for pos := int64(0); pos < size; pos += 1 << 20 {
						n, _ := f.ReadAt(buf, pos)
						for p := buf[:n]; len(p) > 0; p = p[min(limit.piece, len(p)):] {
							crc32.Checksum(p[:min(limit.piece, len(p))], castagnoli)
						}
					}
					require.NoError(b, f.Close())
				}
			})
		}
	}
}
