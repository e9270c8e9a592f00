package log

import (
	"errors"
	"io"
	"math"
	"os"

	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/vfs"
)

// endOfLogFile returns the offset after the last whole batch of a .log file, going from header to
// header.
func endOfLogFile(fsys vfs.FS, name string, base int64) (next int64, err error) {
	f, err := fsys.OpenFile(name, os.O_RDONLY, 0)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	size, err := f.Size()
	if err != nil {
		return 0, err
	}
	next = base
	var head [record.HeaderSize]byte
	for pos := int64(0); pos+record.HeaderSize <= size; {
		if _, err := f.ReadAt(head[:], pos); err != nil && !errors.Is(err, io.EOF) {
			return 0, err
		}
		b, err := record.ParseHeader(head[:])
		if err != nil || b.BaseOffset < next || b.BaseOffset-base > math.MaxInt32 || pos+int64(b.Size()) > size {
			break // the segment's own recovery decides about that
		}
		next = b.NextOffset()
		pos += int64(b.Size())
	}
	return next, nil
}
