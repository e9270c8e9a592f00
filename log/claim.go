package log

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/stratalog/strata/log/internal/recovery"
	"github.com/stratalog/strata/vfs"
)

// A log has one owner at a time, by whatever path and in whatever process. Two files named .lock
// show the owner:
//
//	parent/.lock       held by an open Directory, for the logs directly in it, open or not
//	parent/log/.lock   held by a log that is open alone, or through a Directory elsewhere
//
// An open first takes the lock that protects the log, and then checks the other file (probe):
//
//	T1, Directory   takes parent/.lock      then probes parent/log/.lock
//	T2, alone       takes parent/log/.lock  then probes parent/.lock
//
// Each takes before it probes, so of two concurrent opens at least one detects the other. Both may,
// and then neither gets the log. A log of a Directory takes no descriptor: its name in
// Directory.logs distinguishes two opens through the same Directory. The system releases the locks
// of a killed process.
//
// Only a lock that was taken, or a file that does not exist, proves that no process has the log
// open. Any other result rejects the open: on a read-only mount, on one without locks, or with
// another user's file, another process may have the log open for writing.

// lockTries and lockPause limit the wait for a lock that another open may only be probing.
const (
	lockTries = 4
	lockPause = time.Millisecond
)

// takeLock locks a file. It returns an error matching ErrLocked if another holder has it.
func takeLock(fsys vfs.FS, name string) (io.Closer, error) {
	for try := 1; ; try++ {
		lock, err := fsys.Lock(name)
		locked := errors.Is(err, vfs.ErrLocked)
		switch {
		case err == nil:
			return lock, nil
		case !locked && try == 1:
			return nil, fmt.Errorf("is %s in use? %w", filepath.Dir(name), err)
		case !locked || try == lockTries:
			return nil, fmt.Errorf("%w: %s: close it there first (%w)", ErrLocked, filepath.Dir(name), err)
		}
		time.Sleep(lockPause) // a probe ends soon
	}
}

// probe returns nil if the lock of dir is free, and an error matching ErrLocked if it is held. It
// creates no file.
func probe(fsys vfs.FS, dir string) error {
	name := filepath.Join(dir, lockFile)
	switch info, err := fsys.Stat(name); {
	case errors.Is(err, fs.ErrNotExist): // every open of dir creates one
		return nil
	case err != nil:
		return fmt.Errorf("is %s in use? %w", dir, err)
	case info.IsDir(): // of another program: it cannot be locked
		return nil
	}
	lock, err := takeLock(fsys, name)
	if err != nil {
		return err
	}
	return lock.Close()
}

// A claim makes its log the only one open on a directory, until release.
type claim struct {
	name string    // in Directory.logs
	lock io.Closer // of the log's own directory; nil: the Directory's lock protects it
}

// enter makes the log's directory, if there is none, claims it for l and lists it. It returns an
// error matching ErrLocked if the log is open already.
func (d *Directory) enter(l *Log, fsys vfs.FS) (found listing, err error) {
	name, err := d.makeLogDir(fsys, l.path)
	if err != nil {
		return nil, err
	}
	if l.claim, err = d.claim(fsys, l.path, name); err != nil {
		return nil, err
	}
	found, err = fsys.ReadDir(l.path)
	if err == nil && d.real == filepath.Dir(name) {
		if found.has(lockFile) {
			if err = probe(fsys, name); err == nil {
				found, err = fsys.ReadDir(l.path) // it may have been open when it was listed
			}
		}
		switch {
		case err != nil || found.has(stateFile):
		case slices.ContainsFunc(found, func(e fs.DirEntry) bool { return recovery.IsSegmentFile(e.Name()) || e.Name() == epochFile }):
			// The process that created the directory may have been killed before it synced it.
			err = d.syncEntries(fsys)
		default:
			l.unentered.Store(true) // for the first state, which comes before the first append
		}
	}
	if err != nil {
		return nil, errors.Join(err, d.release(l.claim))
	}
	return found, nil
}

// syncEntries makes the directories of logs survive a power cut that were made right below d.
func (d *Directory) syncEntries(fsys vfs.FS) error {
	return d.entries.do(func() error { return fsys.SyncDir(d.path) })
}

// makeLogDir makes the directory of a log, if there is none, and returns its real path. enter
// syncs the new entry in d later; d's own entry is durable since OpenDirectory.
func (d *Directory) makeLogDir(fsys vfs.FS, path string) (name string, err error) {
	if d.solo {
		return d.real, nil
	}
	if filepath.Dir(path) != filepath.Clean(d.path) {
		if err := makeDir(fsys, path, stateFile); err != nil {
			return "", err
		}
		return fsys.RealPath(path)
	}
	name, err = vfs.RealPathIn(fsys, d.real, path)
	if !errors.Is(err, fs.ErrNotExist) {
		return name, err
	}
	if err := fsys.MkdirAll(path, 0o700); err != nil {
		return "", err
	}
	return vfs.RealPathIn(fsys, d.real, path)
}

// makeDir makes dir, durably. If it holds the given file, which is written only after that, it has
// been done before: an fsync less.
func makeDir(fsys vfs.FS, dir, file string) error {
	if _, err := fsys.Stat(filepath.Join(dir, file)); err == nil {
		return nil
	}
	return vfs.MakeDir(fsys, dir, 0o700)
}

// A listing has the entries of a directory, by name.
type listing []fs.DirEntry

func (l listing) has(name string) bool {
	_, ok := slices.BinarySearchFunc(l, name, func(e fs.DirEntry, name string) int { return strings.Compare(e.Name(), name) })
	return ok
}

// hasNone reports whether the directory holds none of these.
func (l listing) hasNone(names ...string) bool { return !slices.ContainsFunc(names, l.has) }

// claim makes the log in path, whose real path is name, one of d's open logs. The caller checks
// that no log directly in d is open alone.
func (d *Directory) claim(fsys vfs.FS, path, name string) (c claim, err error) {
	c.name = name
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
