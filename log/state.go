package log

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"

	"github.com/stratalog/strata/log/internal/manifest"
	"github.com/stratalog/strata/vfs"
)

// stateFile has the log's manifest: the segments that belong to it, and facts that the segments
// cannot show. It is only ours; Kafka ignores it. It is replaced as a whole, and is on stable
// storage before anything relies on it. Its format is that of package manifest.
const stateFile = "strata.state"

// readState returns the state in dir; known is false if there is none. A damaged state is a
// *CorruptError. It is never guessed, since it determines the deleted records and the obsolete
// files.
func readState(fsys vfs.FS, dir string) (s manifest.State, known bool, err error) {
	path := filepath.Join(dir, stateFile)
	p, err := stateBytes(fsys, dir)
	if errors.Is(err, fs.ErrNotExist) {
		return s, false, nil
	}
	if err != nil {
		return s, false, fmt.Errorf("read %s: %w", path, err)
	}
	s, err = manifest.Parse(p)
	switch {
	case errors.Is(err, manifest.ErrNewer):
		return s, false, fmt.Errorf("%s: %w: %w", path, ErrNewerFormat, err)
	case err != nil:
		return s, false, &CorruptError{Path: path, Reason: err.Error()}
	}
	return s, true, nil
}

// readMark returns the mark of the state in dir, and reads only its beginning. The zero Mark means
// that there is no state.
func readMark(fsys vfs.FS, dir string) (m manifest.Mark, err error) {
	f, err := fsys.OpenFile(filepath.Join(dir, stateFile), os.O_RDONLY, 0)
	if errors.Is(err, fs.ErrNotExist) {
		p, err := stateBytes(fsys, dir)
		if errors.Is(err, fs.ErrNotExist) {
			return m, nil
		}
		return manifest.ParseMark(p), err
	}
	if err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	var p [manifest.MarkBytes]byte
	n, err := f.ReadAt(p[:], 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return m, err
	}
	return manifest.ParseMark(p[:n]), nil
}

// storeState replaces the state in dir. It is on stable storage when storeState returns nil; after
// an error the old one may be there, or the new one.
func storeState(fsys vfs.FS, dir string, s manifest.State) error {
	if err := vfs.WriteFile(fsys, filepath.Join(dir, stateFile), s.AppendTo(nil)); err != nil {
		return fmt.Errorf("write state of %s: %w", dir, err)
	}
	return nil
}

// storeFirstState is storeState for a new log. Everything that must be on stable storage before the
// state gets its name is synced at the same time: the state's content, the entry of the segment
// that it names, the entry of the log's directory, the owner's files, and the data that beside
// syncs, if it is not nil.
func (w *writer) storeFirstState(cfg *Config, s manifest.State, beside func() error) error {
	l := w.log
	var around error
	err := vfs.WriteFileBeside(cfg.FS, stateName(l.path), s.AppendTo(nil), func() error {
		around = l.syncAround(cfg, func() error {
			if !w.unlisted {
				return nil
			}
			return cfg.FS.SyncDir(l.path)
		}, beside)
		return around
	})
	switch {
	case around != nil:
		return l.breakWith(fmt.Errorf("sync directory of the first segment of %s: %w", l.path, around)) // as in createNext
	case err != nil:
		return fmt.Errorf("write state of %s: %w", l.path, err)
	}
	w.unlisted = false
	l.unentered.Store(false)
	return nil
}

// newIncarnation returns a random id for a log that is created or emptied, or a tag for its
// entries in a journal. It is never 0, which means none.
func newIncarnation() uint64 {
	for {
		if id := rand.Uint64(); id != 0 {
			return id
		}
	}
}
