package log

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/stratalog/strata/segment"
	"github.com/stratalog/strata/vfs"
)

// ErrChanged says that what was being read is no more: the log has been truncated, or begun anew,
// or removed. A read-only log says so for every read from then on: open it again. A backup says so
// that was begun several times and never got through.
var ErrChanged = errors.New("log: truncated meanwhile")

// OpenReadOnly opens the log in dir as it is, also while another process writes to it: ours, or a
// Kafka broker. It takes no lock and gets a file system that refuses every change (vfs.ReadOnly):
// nothing in dir is created, removed, renamed or written, by no call and not by Close. Every method
// that would change the log returns ErrReadOnly.
//
// The log ends where it did at the time, with its last whole batch, and stays what it was: segments
// that retention removes or compaction replaces later are read as they were, since their files are
// held open (one descriptor each). Only a truncation shows, as does a failed write that was taken
// back: every read from then on gives ErrChanged, and none gives a record of after it. (A
// truncation by a Kafka broker is noticed where the sizes of the batches differ.) Records that were
// not on stable storage yet are seen; a power cut could take them from the writer.
//
// What a killed process or a power cut left is shown as Open would recover it. If after a power cut
// the journal of the log's directory has acknowledged records that its files lack, it is
// ErrJournaled: the directory has to be opened first. Errors are those of Open but ErrLocked;
// without a log in dir it is one that matches fs.ErrNotExist. While a writer is at work an error is
// believed only when it comes again, so that a damaged log costs a few attempts.
//
// Of cfg.Dir only its file system counts, and only if cfg.FS is nil: no lock, descriptor or syncer
// is shared with it.
func OpenReadOnly(dir string, cfg Config) (*Log, error) {
	if cfg.FS == nil && cfg.Dir != nil {
		cfg.FS = cfg.Dir.fs
	}
	cfg.Dir = nil
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	cfg.FS = vfs.ReadOnly(cfg.FS)
	l, err := openView(dir, &cfg)
	if err != nil {
		return nil, fmt.Errorf("open log %s read-only: %w", dir, err)
	}
	return l, nil
}

// How often a view is tried. A writer replaces the state atomically and renames files one by one,
// so that an attempt can meet names of before and after: what it fails with is believed when
// viewAgrees attempts in a row, with pauses between them, found the same state and failed alike.
const (
	viewAgrees = 3
	viewTries  = 200
	viewPause  = 500 * time.Microsecond
)

// insist repeats attempts until one succeeds or its failure is to be believed.
func insist(cfg *Config, dir string, attempt func() error) error {
	var last error
	var lastState []byte
	for try, agreed := 1, 1; ; try++ {
		state, _ := stateBytes(cfg.FS, dir)
		err := attempt()
		if err == nil {
			return nil
		}
		if last != nil && err.Error() == last.Error() && bytes.Equal(state, lastState) {
			agreed++
		} else {
			agreed = 1
		}
		if agreed == viewAgrees || try == viewTries {
			return err
		}
		last, lastState = err, state
		time.Sleep(viewPause * time.Duration(min(try, 10)))
	}
}

func openView(dir string, cfg *Config) (l *Log, err error) {
	err = insist(cfg, dir, func() error {
		l, err = tryView(dir, cfg)
		return err
	})
	return l, err
}

// orClosed adds ErrClosed to the error of a read that was under way when the log was closed, or
// removed: it came upon a closed segment, or a file that was gone.
func (l *Log) orClosed(err error) error {
	if l.closing.Load() && (errors.Is(err, segment.ErrClosed) || errors.Is(err, fs.ErrNotExist)) {
		return fmt.Errorf("%w: %w", ErrClosed, err)
	}
	return err
}

// vouch is called after each read of a segment's file, with what it failed with. What a read-only
// log has read counts only if the mark of the state is still that of when it was opened: the writer
// replaces the state before it writes a byte in the place of another, so the bytes were read before
// that. Damage that a view opened now does not have is a change by the writer, too: the end was
// taken off a file.
//
// A Kafka broker keeps no such mark. What it truncates and writes again with batches of the same
// sizes is not told from what was there.
func (l *Log) vouch(offset int64, err error) error {
	if err = l.orClosed(err); !l.readOnly || errors.Is(err, ErrClosed) {
		return err
	}
	cfg := l.cfg.Load()
	switch now, markErr := readMark(cfg.FS, l.path); {
	case markErr != nil:
		return errors.Join(err, fmt.Errorf("read %s at offset %d: has it changed? %w", l.path, offset, markErr))
	case now != l.moment:
		return fmt.Errorf("%w: read %s at offset %d", ErrChanged, l.path, offset)
	case err == nil || !errors.Is(err, ErrCorrupt):
		return err
	}
	still := insist(cfg, l.path, func() error {
		now, err := tryView(l.path, cfg)
		if err != nil {
			return err
		}
		_, err = now.readSegments(nil, offset, 1)
		if errors.Is(err, ErrOffsetOutOfRange) || offset >= now.EndOffset() {
			err = nil
		}
		return errors.Join(err, now.Close())
	})
	if still != nil {
		return err
	}
	return fmt.Errorf("%w: read %s at offset %d: %w", ErrChanged, l.path, offset, err)
}
