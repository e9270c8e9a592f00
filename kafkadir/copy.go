package kafkadir

import (
	"context"
	"errors"
	"io"
	"os"
	"sync"

	"github.com/stratalog/strata/vfs"
)

// A copier copies files to a new directory.
type copier struct {
	fsys vfs.FS
}

// file copies from to a new file. The content is on stable storage, the name is not yet. It reports
// whether the files share their blocks.
func (c *copier) file(ctx context.Context, from, to string) (cloned bool, err error) {
	if err := ctx.Err(); err != nil {
		return false, err
	}
	info, err := c.fsys.Stat(from)
	if err != nil {
		return false, err
	}
	if info.Size() > maxLogBytes { // a sparse file would fill the disk
		return false, damaged(from, "%d bytes, and a file of a partition has at most %d", info.Size(), maxLogBytes)
	}
	err = vfs.Clone(c.fsys, from, to)
	if errors.Is(err, errors.ErrUnsupported) {
		return false, c.bytes(ctx, from, to)
	}
	if err != nil {
		return false, err
	}
	f, err := c.fsys.OpenFile(to, os.O_RDWR, 0)
	if err != nil {
		return true, err
	}
	return true, errors.Join(f.Sync(), f.Close())
}

// bytes copies a file a megabyte at a time.
func (c *copier) bytes(ctx context.Context, from, to string) (err error) {
	in, err := c.fsys.OpenFile(from, os.O_RDONLY, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	out, err := c.fsys.OpenFile(to, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	size, err := in.Size()
	if err != nil {
		return err
	}
	buf := make([]byte, min(size, windowBytes))
	for pos := int64(0); pos < size; {
		if err := ctx.Err(); err != nil {
			return err
		}
		n, err := in.ReadAt(buf[:min(int64(len(buf)), size-pos)], pos)
		if err != nil && !(errors.Is(err, io.EOF) && n > 0) {
			return err
		}
		if _, err := out.WriteAt(buf[:n], pos); err != nil {
			return err
		}
		pos += int64(n)
	}
	return out.Sync()
}

// each runs fn for every index below n, a few at a time, and returns the first error. After an
// error no other begins.
func each(n, workers int, fn func(i int) error) error {
	var wg sync.WaitGroup
	var mu sync.Mutex // guards the variables below
	next, failed := 0, error(nil)
	take := func() (i int, ok bool) {
		mu.Lock()
		defer mu.Unlock()
		if failed != nil || next >= n {
			return 0, false
		}
		next++
		return next - 1, true
	}
	for range min(workers, n) {
		wg.Go(func() {
			for i, ok := take(); ok; i, ok = take() {
				if err := fn(i); err != nil {
					mu.Lock()
					if failed == nil {
						failed = err
					}
					mu.Unlock()
				}
			}
		})
	}
	wg.Wait()
	return failed
}
