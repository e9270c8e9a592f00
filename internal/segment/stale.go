package segment

import (
	"errors"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/stratalog/strata/vfs"
)

// reopened are the descriptors that replace a stale one for reading. All descriptors of a network
// file system that are open when its server is restarted may be stale for ever (ESTALE).
//
// Writes and syncs stay with the stale descriptor and fail. Bytes that were written through it and
// not synced may be lost, and a sync of another descriptor would not report that.
type reopened struct {
	last atomic.Pointer[vfs.File] // nil: none

	mu  sync.Mutex // guards all; held while a file is opened
	all []vfs.File // closed with the openFile: readers may still use earlier ones
}

// readAt reads from the file, through another descriptor once this one is stale.
func (f *openFile) readAt(p []byte, pos int64) (int, error) {
	for {
		from := f.reopened.last.Load()
		file := f.file
		if from != nil {
			file = *from
		}
		n, err := file.ReadAt(p, pos)
		if err == nil || !errors.Is(err, syscall.ESTALE) {
			return n, err
		}
		if again, openErr := f.reopen(from); !again {
			return n, errors.Join(err, openErr)
		}
	}
}

// reopen replaces the stale descriptor from. It returns false if the new one may be stale as well,
// or there is none.
func (f *openFile) reopen(from *vfs.File) (bool, error) {
	r := &f.reopened
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.last.Load() != from { // another reader has done it
		return true, nil
	}
	file, err := f.owner.openLog()
	if err != nil {
		return false, err
	}
	if _, err := file.ReadAt(make([]byte, 1), 0); errors.Is(err, syscall.ESTALE) {
		return false, file.Close()
	}
	r.all = append(r.all, file)
	r.last.Store(&file)
	return true, nil
}

// close closes the file. No one uses it any more.
func (f *openFile) close() error {
	f.reopened.mu.Lock()
	defer f.reopened.mu.Unlock()
	errs := []error{f.file.Close()}
	for _, file := range f.reopened.all {
		errs = append(errs, file.Close())
	}
	return errors.Join(errs...)
}
