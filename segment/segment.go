package segment

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"

	"github.com/stratalog/strata/vfs"
)

// A Segment is one .log file with its indexes.
//
// One goroutine at a time may use the writing methods: Append, AppendAborted, Preallocate, Recover, Truncate, Seal. Everything else is
// safe for concurrent use, also with them.
type Segment struct {
	dir  string
	base int64
	cfg  Config

	size    atomic.Int64 // bytes of whole batches, published after the write; the file may go on with zeros
	next    atomic.Int64 // offset after the last batch; base if there is none
	newest  atomic.Pointer[timestampAt]
	hint    atomic.Pointer[position] // where the last read ended
	checked verified                 // what was seen to match its CRC

	mu      sync.Mutex // guards the fields below
	path    string     // of the .log file
	active  *openFile  // held while the segment is written to; nil: the cache opens the file when it is needed
	index   index
	alloc   int64 // size of the file: size and preallocated zeros
	firstTs int64 // MaxTimestamp of the first batch; math.MinInt64: no batch, or not looked at
	broken  error // sticky: of a failed sync or cut-back
	sealed  bool
	changes int64 // writes, cuts and ends so far: whether a sync covers everything
	refs    int
	removed bool
	closed  bool

	found bool // it holds bytes that nobody may have synced
}

// timestampAt is the largest timestamp and the last offset of the batch that first had it.
type timestampAt struct{ ts, offset int64 }

// position says that the batch at byte pos is the first with records at or after offset.
type position struct{ offset, pos int64 }

// FileName returns the name of a segment's file: 20 digits and a suffix such as ".log".
func FileName(base int64, suffix string) string { return fmt.Sprintf("%020d%s", base, suffix) }

// Suffixes of a segment's files, as in Kafka.
const (
	LogSuffix       = ".log"
	IndexSuffix     = ".index"
	TimeIndexSuffix = ".timeindex"
	TxnIndexSuffix  = ".txnindex"
	DeletedSuffix   = ".deleted"
)

func newSegment(dir string, base int64, cfg Config) *Segment {
	s := &Segment{dir: dir, path: filepath.Join(dir, FileName(base, LogSuffix)), base: base, cfg: cfg.withDefaults(), firstTs: math.MinInt64, refs: 1}
	s.next.Store(base)
	s.checked.own.Store(-1)
	s.newest.Store(&timestampAt{-1, base})
	return s
}

// Create makes a new, empty segment; existing files of that base are an error matching fs.ErrExist. It does not sync the directory.
func Create(dir string, base int64, cfg Config) (*Segment, error) {
	s := newSegment(dir, base, cfg)
	f, err := s.cfg.FS.OpenFile(s.path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return nil, fmt.Errorf("create segment: %w", err)
	}
	if err := f.Close(); err != nil {
		return nil, fmt.Errorf("create segment: %w", err)
	}
	if err := s.removeIndexes(); err != nil { // left behind by a crash
		return nil, fmt.Errorf("create segment: %w", err)
	}
	s.index.loaded = true
	return s, nil
}

// OpenOptions is what the opener knows of a segment.
type OpenOptions struct {
	// Clean says that the segment was closed or sealed in order, so that every byte is part of a batch (or a zero behind the last one)
	// and the indexes are complete. Without it, Recover must be called before anything else.
	Clean bool
	// NextOffset and Size are the end of a clean segment if they are known, else -1: then the tail is looked at, from the last index entry.
	NextOffset, Size int64
}

// Open opens an existing segment. It reads nothing of a clean one whose end is known.
// It returns *CorruptError if the end of a clean segment is not what it should be.
func Open(dir string, base int64, cfg Config, o OpenOptions) (*Segment, error) {
	s := newSegment(dir, base, cfg)
	info, err := s.cfg.FS.Stat(s.path)
	if err != nil {
		return nil, fmt.Errorf("open segment: %w", err)
	}
	s.alloc = info.Size()
	if !o.Clean {
		return s, nil
	}
	if o.Size >= 0 && o.NextOffset >= base {
		if s.alloc < o.Size {
			return nil, &CorruptError{s.path, s.alloc, o.NextOffset, fmt.Sprintf("file has %d bytes, %d were written", s.alloc, o.Size)}
		}
		s.size.Store(o.Size)
		s.next.Store(o.NextOffset)
		return s, s.loadNewest()
	}
	_, err = s.Recover(RecoverOptions{SameBoot: true, KeepTail: true})
	return s, err
}

func (s *Segment) file(suffix string) string { return filepath.Join(s.dir, FileName(s.base, suffix)) }

// Base returns the offset the segment is named by: no record in it has a lower one.
func (s *Segment) Base() int64 { return s.base }

// NextOffset returns the offset after the last batch.
func (s *Segment) NextOffset() int64 { return s.next.Load() }

// Size returns the bytes of all batches.
func (s *Segment) Size() int64 { return s.size.Load() }

// Path returns the name of the .log file.
func (s *Segment) Path() string { return s.file(LogSuffix) }

// MaxTimestamp returns the largest timestamp in ms and the last offset of the batch that first had it; -1 and the base if there is none.
func (s *Segment) MaxTimestamp() (ts, offset int64) {
	n := s.newest.Load()
	return n.ts, n.offset
}

// FirstTimestamp returns the largest timestamp of the first batch, in ms, which rolls by age count from; ok is false for an empty segment.
func (s *Segment) FirstTimestamp() (ts int64, ok bool, err error) {
	s.mu.Lock()
	ts = s.firstTs
	s.mu.Unlock()
	if ts != math.MinInt64 {
		return ts, true, nil
	}
	if s.Size() == 0 {
		return 0, false, nil
	}
	b, err := s.headerAt(0)
	if err != nil {
		return 0, false, err
	}
	s.mu.Lock()
	s.firstTs = b.MaxTimestamp
	s.mu.Unlock()
	return b.MaxTimestamp, true, nil
}

// Err returns the sticky error of a failed sync or cut-back, or nil.
func (s *Segment) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.broken
}

// withFile calls fn with the open .log file.
func (s *Segment) withFile(fn func(f *openFile) error) error {
	s.mu.Lock()
	if f := s.active; f != nil {
		s.cfg.Files.hold(f)
		s.mu.Unlock()
		return errors.Join(fn(f), s.cfg.Files.release(f))
	}
	gone := s.removed && s.refs == 0 || s.closed
	s.mu.Unlock()
	if gone {
		return ErrClosed
	}
	f, err := s.cfg.Files.acquire(s, s.openPath)
	if err != nil {
		return err
	}
	return errors.Join(fn(f), s.cfg.Files.release(f))
}

// openPath opens the .log file whatever its name is at the moment. Remove changes the name, and the old one may be another segment's then:
// only a name that is still ours after opening was ours while it was opened.
func (s *Segment) openPath() (vfs.File, error) {
	flag := os.O_RDWR
	if s.cfg.ReadOnly {
		flag = os.O_RDONLY
	}
	for {
		path := s.currentPath()
		f, err := s.cfg.FS.OpenFile(path, flag, 0o644)
		if s.currentPath() == path {
			return f, err
		}
		if err == nil {
			if err := f.Close(); err != nil {
				return nil, err
			}
		}
	}
}

func (s *Segment) currentPath() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.path
}

// Acquire keeps the segment readable until Release, also when it is removed meanwhile. It returns false if it is removed or closed already.
func (s *Segment) Acquire() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.removed {
		return false
	}
	s.refs++
	return true
}

// Release ends Acquire. The last one deletes the files of a removed segment.
func (s *Segment) Release() error {
	s.mu.Lock()
	s.refs--
	last := s.refs == 0
	path, removed := s.path, s.removed
	s.mu.Unlock()
	if !last {
		return nil
	}
	err := s.cfg.Files.forget(s)
	if removed {
		err = errors.Join(err, s.cfg.FS.Remove(path))
	}
	return err
}

var removals atomic.Int64

// Remove takes the segment out of its directory: the .log file is renamed at once (suffix .deleted) and deleted when the last reader
// has gone. The directory must be synced for that to survive power loss.
func (s *Segment) Remove() error {
	s.mu.Lock()
	if s.removed || s.closed {
		s.mu.Unlock()
		return nil
	}
	if s.refs > 1 {
		_ = s.loadIndexLocked() // readers go on with what is in memory; without it they scan
	}
	// Numbered: the one that was removed from this place before may still have readers.
	deleted := fmt.Sprintf("%s.%d%s", s.path, removals.Add(1), DeletedSuffix)
	if err := s.cfg.FS.Rename(s.path, deleted); err != nil {
		s.mu.Unlock()
		return fmt.Errorf("remove segment: %w", err)
	}
	s.path, s.removed = deleted, true
	err := s.letGoLocked()
	s.mu.Unlock()
	return errors.Join(err, s.cfg.Files.forget(s), s.removeIndexes(), s.Release())
}

func (s *Segment) removeIndexes() error {
	var errs []error
	for _, suffix := range []string{IndexSuffix, TimeIndexSuffix, TxnIndexSuffix} {
		if err := s.cfg.FS.Remove(s.file(suffix)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// letGoLocked gives the descriptor back to the cache.
func (s *Segment) letGoLocked() error {
	f := s.active
	if f == nil {
		return nil
	}
	s.active = nil
	return s.cfg.Files.release(f)
}

// Close trims preallocated space, writes the indexes and closes the files. It does not sync. It is idempotent; a sealed segment loses nothing
// by not being closed.
func (s *Segment) Close() error {
	s.mu.Lock()
	if s.closed || s.removed {
		s.mu.Unlock()
		return nil
	}
	var errs []error
	if !s.cfg.ReadOnly && s.broken == nil {
		if s.active != nil {
			errs = append(errs, s.trimLocked())
		}
		errs = append(errs, s.flushIndexLocked(true))
	}
	errs = append(errs, s.letGoLocked())
	s.closed = true
	s.mu.Unlock()
	return errors.Join(append(errs, s.Release())...)
}
