package log

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/stratalog/strata/internal/segment"
	"github.com/stratalog/strata/log/internal/journal"
	"github.com/stratalog/strata/log/internal/manifest"
	"github.com/stratalog/strata/vfs"
)

// journalFile is the file with which the logs of a directory make their appends durable together:
// see docs/explanation/journal.md. It exists while it is in use, and after a crash until the
// directory is opened. It is only ours; Kafka ignores it.
const journalFile = "strata.journal"

// A replay writes the entries of a journal to their segments.
type replay struct {
	fs     vfs.FS
	dir    string
	logger *slog.Logger

	mu      sync.Mutex          // guards the fields below, for the workers of all
	written map[string]replayed // by the name of the log's directory
	misfit  []string            // why entries were left out that count by their tag
}

// replayed is the data that a replay has written to the active segment of a log, and synced. The
// whole segment is on stable storage then, as long as the log's state has this tag and the log is
// not written to.
type replayed struct {
	tag   uint64
	bytes int64
}

// replayShare is how many logs a replay has for each worker at least: fewer are not worth one.
const replayShare = 8

// replayJournal replays the journal of a directory and removes it. No log of the directory is open.
// Every step can be repeated: the journal is removed when all its entries are in the logs' own
// files, on stable storage.
//
// A journal that does not belong to this directory's files is not replayed, or only its matching
// entries are; it is renamed and kept.
func replayJournal(fsys vfs.FS, dir string, logger *slog.Logger, workers int) (written map[string]replayed, err error) {
	path := filepath.Join(dir, journalFile)
	c, err := loadJournal(fsys, path)
	missing := errors.Is(err, fs.ErrNotExist)
	if err != nil && !missing {
		return nil, err
	}
	mark, err := readJournalMark(fsys, dir)
	if err == nil && (missing || !mark.isOf(&c.Header)) {
		err = mark.doubt(fsys, dir)
	}
	if err != nil {
		return nil, err
	}
	if missing {
		if mark.there {
			logger.Warn("the journal is missing, and is not needed", "path", path)
			err = dropJournalMark(fsys, dir)
		}
		return nil, err
	}
	r := &replay{fs: fsys, dir: dir, logger: logger, written: map[string]replayed{}}
	seen, err := witness(fsys, dir)
	if err != nil {
		return nil, err
	}
	if c.Header.Witness != seen {
		r.misfit = append(r.misfit, "another broker has used the directory since")
		c.Entries = nil
	}
	byLog := map[string][]journal.Entry{}
	for _, e := range c.Entries {
		byLog[e.Log] = append(byLog[e.Log], e)
	}
	if err := r.all(byLog, min(workers, len(byLog)/replayShare)); err != nil {
		return nil, fmt.Errorf("replay %s: %w", path, err)
	}
	if err := dropJournalMark(fsys, dir); err != nil {
		return nil, err
	}
	slices.Sort(r.misfit)
	if len(r.misfit) == 0 {
		err = fsys.Remove(path)
	} else {
		aside := fmt.Sprintf("%s.%016x.aside", path, c.Header.ID)
		err = fsys.Rename(path, aside)
		logger.Error("entries of the journal do not fit to the logs: it was set aside", "path", aside, "reasons", r.misfit)
	}
	return r.written, errors.Join(err, fsys.SyncDir(dir))
}

// all replays the entries of all logs, several at once: each waits for a sync, and the
// disk takes many syncs in the time of one.
func (r *replay) all(byLog map[string][]journal.Entry, workers int) error {
	names := slices.Sorted(maps.Keys(byLog))
	errs := make([]error, max(workers, 1))
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() {
			for k := i; k < len(names) && errs[i] == nil; k += len(errs) {
				errs[i] = r.log(names[k], byLog[names[k]])
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// loadJournal is journal.Load with errors of this package.
func loadJournal(fsys vfs.FS, path string) (journal.Content, error) {
	c, err := journal.Load(fsys, path)
	var damage *journal.DamageError
	switch {
	case errors.As(err, &damage):
		return c, &CorruptError{Path: path, Pos: damage.Pos, Offset: -1, Reason: damage.Reason +
			"; it may be the only place of acknowledged records: restore it, or remove it and " + markFile + " to give them up"}
	case errors.Is(err, journal.ErrNewerFormat):
		return c, fmt.Errorf("%w: %s: %w", ErrNewerFormat, path, err)
	}
	return c, err
}

// log replays the entries of one log, all or none.
func (r *replay) log(name string, entries []journal.Entry) (err error) {
	entries, base, err := liveEntries(r.fs, r.dir, name, entries)
	if err != nil || len(entries) == 0 {
		return err
	}
	path := filepath.Join(r.dir, name)
	f, err := r.fs.OpenFile(filePath(path, base, segment.LogSuffix), os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		r.logger.Warn("the segment that entries of the journal are for is missing", "path", path, "offset", base)
		return nil // the log was being removed; or Open reports the error
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if reason, err := misfit(f, base, entries); err != nil || reason != "" {
		if reason != "" {
			r.mu.Lock()
			r.misfit = append(r.misfit, name+": "+reason)
			r.mu.Unlock()
		}
		return err
	}
	bytes := int64(0)
	for _, e := range entries { // also bytes the file shows already: after a failed sync they may be in memory only
		if _, err := f.WriteAt(e.Data, e.Pos); err != nil {
			return err
		}
		bytes += int64(len(e.Data))
	}
	// A failure also concerns bytes that only the file has: its next sync is not reliable.
	if err := f.Sync(); err != nil {
		return errors.Join(err, r.noteSuspect(path))
	}
	r.mu.Lock()
	r.written[name] = replayed{entries[0].Tag, bytes}
	r.mu.Unlock()
	return nil
}

// noteSuspect writes the mark of a failed sync of the log in path, unless there is one, which has
// more. If it is unknown whether there is one, this one is kept in memory, and an existing one
// stays.
func (r *replay) noteSuspect(path string) error {
	real, err := r.fs.RealPath(path)
	if err != nil {
		return err
	}
	mark := filepath.Join(real, suspectFile)
	_, statErr := r.fs.Stat(mark)
	if statErr == nil || vfs.Note(r.fs, mark) != nil {
		return nil
	}
	// Everything is suspect that the state does not call synced.
	s := manifest.State{BootID: r.fs.BootID()}
	if st, known, err := readState(r.fs, path); err == nil && known {
		s.Start, s.RecoveryPoint = st.Start, st.RecoveryPoint
	}
	if !errors.Is(statErr, fs.ErrNotExist) {
		vfs.SetNote(r.fs, mark, s.AppendTo(nil))
		return statErr
	}
	return leaveMark(r.fs, real, &s)
}

// replay makes sure that the log's files have the log's entries in the journal of its directory,
// before the files are read. It returns the data that was written for that, now or when the
// directory was opened.
func (l *Log) replay(cfg *Config) (done replayed, err error) {
	if filepath.Dir(l.claim.name) != l.dir.real { // it is alone, or its Directory lies elsewhere
		_, _, err := journaledBeside(cfg.FS, l.path)
		return done, err
	}
	done = l.dir.takeReplayed(l.name)
	if !l.journaled || l.dir.syncer.journal.state.Load() != journalOut || l.dir.syncer.journal.current == nil {
		return done, nil
	}
	// A log was closed with an error, possibly this one: the disk may have lost data that only the
	// journal has.
	c, err := loadJournal(cfg.FS, filepath.Join(l.dir.path, journalFile))
	if err != nil {
		return done, err
	}
	r := &replay{fs: cfg.FS, dir: l.dir.path, logger: cfg.Logger, written: map[string]replayed{}}
	if err := r.log(l.name, entriesOf(c, l.name)); err != nil {
		return done, err
	}
	if again := r.written[l.name]; again.bytes > 0 {
		done = replayed{again.tag, done.bytes + again.bytes}
	}
	return done, nil
}

// takeReplayed returns the data that was replayed for a log when the directory was opened, to the
// first open of the log.
func (d *Directory) takeReplayed(name string) replayed {
	d.mu.Lock()
	defer d.mu.Unlock()
	done := d.replayed[name]
	if delete(d.replayed, name); len(d.replayed) == 0 {
		d.replayed = nil // memory
	}
	return done
}

func entriesOf(c journal.Content, name string) []journal.Entry {
	return slices.DeleteFunc(c.Entries, func(e journal.Entry) bool { return e.Log != name })
}

// journaledBeside returns the live entries that a journal beside the log in path holds, with
// ErrJournaled if there are any.
func journaledBeside(fsys vfs.FS, path string) (live []journal.Entry, base int64, err error) {
	real, err := fsys.RealPath(path)
	if err != nil {
		return nil, 0, nil // nothing there that could be lost
	}
	dir, name := filepath.Split(real)
	beside := filepath.Join(dir, journalFile)
	if there, err := journal.Exists(fsys, beside); err != nil {
		return nil, 0, nil // not ours to look into
	} else if !there {
		return nil, 0, missingBeside(fsys, dir, name, nil)
	}
	c, err := loadJournal(fsys, beside)
	if err == nil {
		err = missingBeside(fsys, dir, name, &c.Header)
	}
	if err != nil {
		return nil, 0, err
	}
	live, base, err = liveEntries(fsys, dir, name, entriesOf(c, name))
	if err == nil && len(live) > 0 {
		err = fmt.Errorf("%w: %s: open and close the directory", ErrJournaled, beside)
	}
	return live, base, err
}

// checkComplete returns ErrJournaled if a journal beside the log in path has entries of the log
// that are not in its files, and a *CorruptError if the journal is missing. On the same boot all are
// in its files, even if another process is writing: bytes get into the files first.
func checkComplete(fsys vfs.FS, path string) error {
	real, err := fsys.RealPath(path)
	if err != nil {
		return nil // open reports it
	}
	beside := filepath.Join(filepath.Dir(real), journalFile)
	head, err := journal.ReadHeader(fsys, beside)
	if errors.Is(err, fs.ErrNotExist) {
		return missingBeside(fsys, filepath.Dir(real), filepath.Base(real), nil)
	}
	if err != nil || head.BootID != "" && head.BootID == fsys.BootID() {
		return nil // an unreadable one: the log itself can be read
	}
	live, base, err := journaledBeside(fsys, path)
	if !errors.Is(err, ErrJournaled) {
		return err
	}
	f, openErr := fsys.OpenFile(filePath(path, base, segment.LogSuffix), os.O_RDONLY, 0)
	if openErr != nil {
		return openErr
	}
	for _, e := range live {
		there := make([]byte, len(e.Data))
		if n, readErr := f.ReadAt(there, e.Pos); readErr != nil && readErr != io.EOF || !bytes.Equal(there[:n], e.Data) {
			return errors.Join(err, f.Close())
		}
	}
	return f.Close()
}
