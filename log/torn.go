package log

import (
	"io"
	"io/fs"
	"path/filepath"

	"github.com/stratalog/strata/internal/segment"
	"github.com/stratalog/strata/vfs"
)

// marked reports whether there is a mark of a failed sync or write in the directory of a log that
// is only read.
func (o *opening) marked() bool {
	_, err := o.cfg.FS.Stat(filepath.Join(o.log.path, suspectFile))
	return err == nil
}

// heedTornWrite makes a read-only log end where Open would cut off a failed write: its appends were
// rejected, though their batches may be complete. The step is in the report.
func (o *opening) heedTornWrite() error {
	l := o.log
	dir, err := o.cfg.FS.RealPath(l.path)
	if err != nil {
		return err
	}
	o.suspect = o.marked()
	mark, err := l.suspicion(o.cfg, dir, o.suspect)
	if err != nil {
		return err
	}
	torn, ok := tornWriteOf(mark)
	if !ok {
		return nil
	}
	o.ended = &endedFile{filePath(l.path, torn.Base, segment.LogSuffix), torn.Size}
	name, files := segment.FileName(torn.Base, segment.LogSuffix), o.facts.Files
	for i, f := range files {
		if step, ok := torn.Cut(f.Size); ok && f.Name == name {
			files[i].Size = torn.Size
			l.recovery.noteCut(step)
		}
	}
	return nil
}

// An endedFile is a file that ends before its real end, for read-only use.
type endedFile struct {
	name string
	size int64
}

// endedFS shows one file as it ends.
type endedFS struct {
	vfs.FS
	ended endedFile
}

// OpenFile implements vfs.FS.
func (f *endedFS) OpenFile(name string, flag int, perm fs.FileMode) (vfs.File, error) {
	file, err := f.FS.OpenFile(name, flag, perm)
	if err != nil || name != f.ended.name {
		return file, err
	}
	return &shortFile{file, f.ended.size}, nil
}

// shortFile is a file of which only the first end bytes are readable.
type shortFile struct {
	vfs.File
	end int64
}

// Size implements vfs.File.
func (f *shortFile) Size() (int64, error) {
	size, err := f.File.Size()
	return min(size, f.end), err
}

// ReadAt implements vfs.File.
func (f *shortFile) ReadAt(p []byte, off int64) (int, error) {
	if left := max(f.end-off, 0); int64(len(p)) > left {
		n, err := f.File.ReadAt(p[:left], off)
		if err == nil {
			err = io.EOF
		}
		return n, err
	}
	return f.File.ReadAt(p, off)
}
