package log

import (
	"context"
	"fmt"
	"io/fs"
	"strings"
	"testing"

	"github.com/stratalog/strata/vfs"
)

// forgetfulFS drops writes to .log files, so that a benchmark measures the cost of an append
// without the write.
type forgetfulFS struct{ vfs.FS }

func (f forgetfulFS) OpenFile(name string, flag int, perm fs.FileMode) (vfs.File, error) {
	file, err := f.FS.OpenFile(name, flag, perm)
	if err == nil && strings.HasSuffix(name, ".log") {
		file = forgetfulFile{file}
	}
	return file, err
}

type forgetfulFile struct{ vfs.File }

func (f forgetfulFile) WriteAt(p []byte, _ int64) (int, error) { return len(p), nil }

func (f forgetfulFile) WritevAt(bufs [][]byte, _ int64) (n int, err error) {
	for _, b := range bufs {
		n += len(b)
	}
	return n, nil
}

// BenchmarkAppendWithoutTheWrite measures the cost of an append without its system call.
func BenchmarkAppendWithoutTheWrite(b *testing.B) {
	for _, n := range []int{1, 100, 1000} {
		b.Run(fmt.Sprintf("batch=%d", n), func(b *testing.B) {
			l, rs := openBench(b, Config{Sync: SyncNever, FS: forgetfulFS{vfs.OS()}}), benchRecords(n, 100)
			ctx := context.Background()
			b.ReportAllocs()
			for b.Loop() {
				if _, err := l.Append(ctx, rs...); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
