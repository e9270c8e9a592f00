package vfs_test

import (
	"fmt"
	"io"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/vfs"
)

// benchBytes is the size at which a benchmark begins its next file.
const benchBytes = 128 << 20

// BenchmarkWrite appends to files as a log does: without a sync, and with one after every append.
func BenchmarkWrite(b *testing.B) {
	for _, size := range []int{112, 11 << 10, 110 << 10, 1 << 20} {
		for _, sync := range []bool{false, true} {
			onBoth(b, fmt.Sprintf("%dB,sync=%v", size, sync), func(b *testing.B, fsys vfs.FS, dir string) {
				if _, inMemory := fsys.(*vfs.MemFS); sync && !inMemory {
					b.Skip("the disk's time")
				}
				p := make([]byte, size)
				for i := range p {
					p[i] = byte(i) | 1
				}
				b.SetBytes(int64(size))
				b.ReportAllocs()
				benchWrites(b, fsys, dir, p, sync)
			})
		}
	}
}

func benchWrites(b *testing.B, fsys vfs.FS, dir string, p []byte, sync bool) {
	var f vfs.File
	next := func() (err error) {
		if f != nil {
			require.NoError(b, f.Close())
			require.NoError(b, fsys.Remove(filepath.Join(dir, "f")))
		}
		f, err = fsys.OpenFile(filepath.Join(dir, "f"), readWriteCreate, 0o644)
		return err
	}
	require.NoError(b, next())
	head, off := p[:16], int64(0)
	bufs := [2][]byte{}
	for b.Loop() {
		if off+int64(len(p)) > benchBytes {
			if err := next(); err != nil {
				b.Fatal(err)
			}
			off = 0
		}
		bufs = [2][]byte{head, p[16:]}
		n, err := f.WritevAt(bufs[:], off)
		if err == nil && sync {
			err = f.Sync()
		}
		if err != nil {
			b.Fatal(err)
		}
		off += int64(n)
	}
	require.NoError(b, f.Close())
}

// BenchmarkReadAt reads a file of 64 MiB from end to end.
func BenchmarkReadAt(b *testing.B) {
	for _, size := range []int{4 << 10, 64 << 10, 1 << 20} {
		onBoth(b, fmt.Sprintf("%dB", size), func(b *testing.B, fsys vfs.FS, dir string) {
			f, err := fsys.OpenFile(filepath.Join(dir, "f"), readWriteCreate, 0o644)
			require.NoError(b, err)
			p, end := make([]byte, size), int64(64<<20)
			for i := range p {
				p[i] = byte(i) | 1
			}
			for off := int64(0); off < end; off += int64(size) {
				_, err := f.WriteAt(p, off)
				require.NoError(b, err)
			}
			b.SetBytes(int64(size))
			b.ReportAllocs()
			off := int64(0)
			for b.Loop() {
				if _, err := f.ReadAt(p, off); err != nil && err != io.EOF {
					b.Fatal(err)
				}
				if off += int64(size); off >= end {
					off = 0
				}
			}
			require.NoError(b, f.Close())
		})
	}
}

// onBoth runs f in memory and on files.
func onBoth(b *testing.B, name string, f func(b *testing.B, fsys vfs.FS, dir string)) {
	b.Run(name+",fs=mem", func(b *testing.B) { f(b, memWithDir(b), dir) })
	b.Run(name+",fs=os", func(b *testing.B) { f(b, vfs.OS(), b.TempDir()) })
}
