package log

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"github.com/stratalog/strata/vfs"
)

// A log has one owner at a time, whatever its directory is called by: through symbolic links, by a
// relative name, in this process or another. Two files named .lock say who it is:
//
//	parent/.lock       held by a Directory while it is open, for the logs right below it, open or not
//	parent/log/.lock   held by a log that is open alone, or through a Directory that lies elsewhere
//
// Whoever opens a log first takes what protects it and then looks at the other file (probe):
//
//	T1, Directory   takes parent/.lock      then probes parent/log/.lock
//	T2, alone       takes parent/log/.lock  then probes parent/.lock
//
// Each takes before it probes, so of two opens that run at once at least one sees the other; both
// may, and then neither gets the log. A log of a Directory costs no descriptor: a name in
// Directory.logs tells two opens through the same Directory apart. The system ends the locks of a
// killed process.

// lockTries and lockPause are how long somebody waits for a lock that may only be probed.
const (
	lockTries = 4
	lockPause = time.Millisecond
)

// takeLock locks a file. It returns an error matching ErrLocked if somebody holds it.
func takeLock(fsys vfs.FS, name string) (io.Closer, error) {
	for try := 1; ; try++ {
		lock, err := fsys.Lock(name)
		if !errors.Is(err, vfs.ErrLocked) {
			return lock, err
		}
		if try == lockTries {
			return nil, fmt.Errorf("%w: %s: close it there first (%w)", ErrLocked, filepath.Dir(name), err)
		}
		time.Sleep(lockPause) // a probe is over at once
	}
}

// probe returns an error matching ErrLocked if somebody holds the lock of dir. It creates no file.
func probe(fsys vfs.FS, dir string) error {
	name := filepath.Join(dir, lockFile)
	if _, err := fsys.Stat(name); err != nil { // never locked, or not ours to look at
		return nil
	}
	lock, err := takeLock(fsys, name)
	switch {
	case errors.Is(err, ErrLocked):
		return err
	case err != nil: // nobody who may write there can be met by somebody who may not
		return nil
	}
	return lock.Close()
}

// A claim makes its log the only one open on a directory, until release.
type claim struct {
	name string    // in Directory.logs
	lock io.Closer // of the log's own directory; nil: the Directory's lock protects it
}

// claim makes the log in path one of d's open logs. It returns an error matching ErrLocked if it is
// open already.
func (d *Directory) claim(fsys vfs.FS, path string) (c claim, err error) {
	if c.name, err = fsys.RealPath(path); err != nil {
		return c, err
	}
	d.mu.Lock()
	switch {
	case d.closed:
		err = fmt.Errorf("log: directory %s: %w", d.path, ErrClosed)
	case d.logs[c.name]:
		err = fmt.Errorf("%w: %s: this process has it open", ErrLocked, path)
	default:
		d.logs[c.name] = true
	}
	d.mu.Unlock()
	if err != nil {
		return c, err
	}
	switch parent := filepath.Dir(c.name); {
	case d.real == c.name: // a log that is alone: d's lock is its own
		err = probe(fsys, parent)
	case d.real == parent:
		err = probe(fsys, c.name)
	default:
		if c.lock, err = takeLock(fsys, filepath.Join(c.name, lockFile)); err == nil {
			err = probe(fsys, parent)
		}
	}
	if err != nil {
		return c, errors.Join(err, d.release(c))
	}
	return c, nil
}

// release gives the directory of a log back.
func (d *Directory) release(c claim) (err error) {
	if c.lock != nil {
		err = c.lock.Close()
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.logs, c.name)
	return err
}
