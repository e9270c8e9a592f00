package log

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/stratalog/strata/internal/segment"
	"github.com/stratalog/strata/vfs"
)

// ErrChanged is returned if the log was truncated, reset or removed during a read. A read-only log
// returns it for every later read and has to be opened again. A backup returns it if each of its
// attempts failed for that reason.
var ErrChanged = errors.New("log: truncated meanwhile")

// OpenReadOnly opens the log in dir without changing it, even while another process, Strata or a
// Kafka broker, writes to it. It takes no lock and uses a file system that rejects every change
// (vfs.ReadOnly): no call, Close included, creates, removes, renames or writes anything in dir.
// Every method that would change the log returns ErrReadOnly.
//
// The log ends with its last complete batch at the time of the call, and does not change. Segments
// that retention removes or compaction replaces later can still be read, since their files are held
// open (one descriptor each). After a truncation by the writer, or a failed write that was undone,
// every read returns ErrChanged, and no read returns a later record. (A truncation by a Kafka
// broker is detected if the sizes of the batches differ.) Records that are not on stable storage
// yet are visible; a power failure could remove them from the writer's log.
//
// After a killed process or a power failure, the log is shown as Open would recover it. If the
// journal of the log's directory has acknowledged records that its files lack, as is possible after
// a power failure, the error is ErrJournaled: open the directory first. Other errors are those of
// Open except ErrLocked. Without a log in dir, the error matches fs.ErrNotExist. While a writer is
// active, OpenReadOnly retries after an error and returns it only if it occurs again, so that a
// damaged log costs a few attempts.
//
// Only the file system of cfg.Dir is used, and only if cfg.FS is nil: its lock, descriptors and
// syncer are not.
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

// The numbers of attempts to make a view. A writer replaces the state atomically and renames files
// one by one, so that an attempt can find names of before and after. An error is returned only when
// viewAgrees attempts in a row, with pauses between them, found the same state and failed alike.
const (
	viewAgrees = 3
	viewTries  = 200
	viewPause  = 500 * time.Microsecond
)

// insist repeats attempts until one succeeds or its failure is confirmed.
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

// vouch validates a read of a segment's file, and is called after each with the error of the read.
// A read of a read-only log is valid only if the mark of the state is the same as at the open. The
// writer replaces the state before it overwrites a byte, so the bytes were read before that. If a
// view opened now does not have the damage, it is a change by the writer, too: the end of a file
// was cut off.
//
// A Kafka broker keeps no such mark. If it truncates and writes again batches of the same sizes,
// that cannot be detected.
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
