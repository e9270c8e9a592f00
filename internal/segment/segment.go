package segment

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"

	"github.com/stratalog/strata/internal/chanlock"
	"github.com/stratalog/strata/record"
)

// A Segment is one .log file with its indexes.
//
// One goroutine at a time, the writer, may call Append, AppendAborted, ResetAborted, Preallocate,
// TrimTail, Recover, Truncate, Finish, Seal, Unseal and Close. All other methods are safe for
// concurrent use, also with these. Reading takes no lock that is held during I/O.
type Segment struct {
	dir  string
	base int64
	cfg  Config

	// firstTs is MaxTimestamp of the first batch; math.MinInt64: no batch, or not read yet.
	firstTs atomic.Int64
	// end is what publish stores: the writer's, after the bytes are in the file.
	end       atomic.Uint64
	cuts      atomic.Uint32            // sequence lock of truncations: see readStable
	sealed    atomic.Bool              // stored by the writer, under mu
	file      atomic.Pointer[openFile] // stored under the cache's mu
	checked   verified                 // the ranges that matched their CRC
	positions positionCache            // where the last reads ended
	txns      txnIndexCache
	indexFiles
	lifetime
	pinned // of a ReadOnly segment

	// mu guards the fields below, which the writer changes. Not held during I/O, except the cut of
	// a truncation.
	mu          sync.Mutex
	deleted     string        // name of the .log file since Remove
	renaming    chan struct{} // closed when Remove has given the file that name, or failed to; nil: it is not at it
	index       index
	newest      timestampAt
	newestKnown bool
	activeFile
	space
	stability
}

// indexFiles is the state of a segment's index files.
type indexFiles struct {
	// indexRoomBelow is a size of the segment below which no index is full, by far: an entry takes
	// more than an interval of bytes. Constant.
	indexRoomBelow uint64

	// indexStays is the writer's: the index that Recover found stays in memory until it is flushed
	// by the usual rules.
	indexStays   bool
	indexInDoubt bool // likewise: the files may have entries of batches that Recover did not find
	noIndexes    bool // likewise: there were no indexes when the segment was opened

	notedAborted atomic.Uint64 // see NoteAborted
	noAborted    atomic.Bool   // there is no transaction index: cleared before one is made
	repairing    atomic.Bool   // set by the goroutine that rebuilds the index, until it is done

	// indexing is held while the index files are written or renamed; it is taken before mu. A
	// goroutine that waits for it is durably blocked, unlike a goroutine that waits for mu.
	indexing chanlock.Lock
}

// timestampAt is the largest timestamp and the last offset of the batch that first had it.
type timestampAt struct{ ts, offset int64 }

// raise enters the timestamp of the batch that ends at offset.
func (t *timestampAt) raise(ts, offset int64) {
	if ts > t.ts {
		*t = timestampAt{ts, offset}
	}
}

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
	s := &Segment{dir: dir, base: base, cfg: cfg.withDefaults(), newest: timestampAt{-1, base}}
	s.firstTs.Store(math.MinInt64)
	s.indexRoomBelow = uint64(max(s.cfg.IndexBytes/16-1, 0)) * uint64(s.cfg.IndexIntervalBytes)
	s.refs.Store(1)
	s.checked.own.Store(-1)
	return s
}

// Create creates a new, empty segment. If files with that base exist, the error matches
// fs.ErrExist. It does not sync the directory.
func Create(dir string, base int64, cfg Config) (*Segment, error) {
	return create(dir, base, cfg, false)
}

// CreateAlone is Create in a directory that is known to have no index file with that base: it does
// not check for one.
func CreateAlone(dir string, base int64, cfg Config) (*Segment, error) {
	return create(dir, base, cfg, true)
}

func create(dir string, base int64, cfg Config, alone bool) (*Segment, error) {
	s := newSegment(dir, base, cfg)
	f, err := s.cfg.FS.OpenFile(s.name(LogSuffix), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, fmt.Errorf("create segment: %w", err)
	}
	if err := f.Close(); err != nil {
		return nil, fmt.Errorf("create segment: %w", err)
	}
	if !alone {
		if err := s.removeIndexes(); err != nil { // left behind by a crash
			return nil, fmt.Errorf("create segment: %w", err)
		}
	}
	s.index.loaded, s.newestKnown = true, true
	s.noAborted.Store(true)
	return s, nil
}

// OpenOptions describe the state of a segment's files, as far as the caller knows it.
type OpenOptions struct {
	// Clean means that the segment was closed or sealed in order, so that every byte is part of a
	// batch (or a zero after the last one) and the indexes are complete. Without it, Recover must
	// be called before anything else.
	Clean bool
	// NextOffset and Size are the end of a clean segment if it is known, else -1: then Open finds
	// the end from the last index entry.
	NextOffset, Size int64
	// FileSize is the present size of the .log file; 0 means that Open determines it.
	FileSize int64
	// NoIndexes and NoTxnIndex mean that there are no such files.
	NoIndexes, NoTxnIndex bool
}

// maxFileBytes is the largest .log file that is opened: positions in the indexes are int32, and
// some reserved space may be behind the last batch. A larger file is a sparse one, as a rule, and
// looking for its last batch would take hours.
const maxFileBytes = math.MaxInt32 + 64<<20

// Open opens an existing segment. It reads nothing of a clean segment whose end is known. It
// returns a *CorruptError if the end of a clean segment is invalid.
func Open(dir string, base int64, cfg Config, o OpenOptions) (*Segment, error) {
	s := newSegment(dir, base, cfg)
	if err := s.open(o); err != nil {
		return nil, fmt.Errorf("open segment: %w", errors.Join(err, s.unpin(), s.abandon()))
	}
	return s, nil
}

func (s *Segment) open(o OpenOptions) (err error) {
	s.noIndexes = o.NoIndexes
	s.noAborted.Store(o.NoTxnIndex)
	if s.cfg.ReadOnly {
		err = s.pin()
	} else if s.alloc = o.FileSize; s.alloc > 0 {
		err = nil
	} else if info, statErr := s.cfg.FS.Stat(s.name(LogSuffix)); statErr == nil {
		s.alloc = info.Size()
	} else {
		err = statErr
	}
	if err == nil && s.alloc > maxFileBytes {
		err = s.corrupt(math.MaxInt32, s.base, fmt.Sprintf("file has %d bytes, a segment has at most %d", s.alloc, math.MaxInt32))
	}
	if err != nil || !o.Clean {
		return err
	}
	if o.Size >= 0 && o.NextOffset >= s.base {
		if s.alloc < o.Size {
			return s.corrupt(s.alloc, o.NextOffset, fmt.Sprintf("file has %d bytes, %d were written", s.alloc, o.Size))
		}
		s.publish(end{o.Size, o.NextOffset})
		return nil
	}
	_, err = s.Recover(RecoverOptions{SameBoot: true, KeepTail: true})
	return err
}

// abandon makes a segment whose open failed unusable.
func (s *Segment) abandon() error {
	s.closed.Store(true)
	return s.cfg.Files.closeFile(s)
}

// name returns the name of one of the segment's files. The name of the .log file changes with
// Remove.
func (s *Segment) name(suffix string) string { return filepath.Join(s.dir, FileName(s.base, suffix)) }

// end is where a segment ends: the bytes of its batches and the offset after the last one.
type end struct{ size, next int64 }

// publish makes everything up to e visible to readers. Both numbers change in one step: relative
// offset and size have 32 bits each, as in the indexes. A next offset further away (a gap behind
// the last batch) is cut to that.
func (s *Segment) publish(e end) {
	s.end.Store(uint64(min(e.next-s.base, math.MaxUint32))<<32 | uint64(e.size))
}

func (s *Segment) published() end {
	v := s.end.Load()
	return end{int64(v & math.MaxUint32), s.base + int64(v>>32)}
}

// Base returns the offset in the segment's file names: no record in it has a lower one.
func (s *Segment) Base() int64 { return s.base }

// NextOffset returns the offset after the last batch.
func (s *Segment) NextOffset() int64 { return s.published().next }

// Size returns the bytes of all batches.
func (s *Segment) Size() int64 { return s.published().size }

// Path returns the name of the .log file or, once the segment is removed, the last name it had.
func (s *Segment) Path() string { return s.name(LogSuffix) }

// FirstTimestamp returns the largest timestamp of the first batch, in ms, from which the segment's
// age is counted; ok is false for an empty segment.
func (s *Segment) FirstTimestamp() (ts int64, ok bool, err error) {
	if ts = s.firstTs.Load(); ts != math.MinInt64 {
		return ts, true, nil
	}
	return s.findFirstTimestamp()
}

func (s *Segment) findFirstTimestamp() (ts int64, ok bool, err error) {
	if s.Size() == 0 {
		return 0, false, nil
	}
	err = s.Headers(0, func(b *record.Batch, _ int64) bool {
		ts = b.MaxTimestamp
		return false
	})
	if err != nil {
		return 0, false, err
	}
	s.firstTs.Store(ts)
	return ts, true, nil
}

// Err returns the sticky error of a failed sync or cut-back, or nil.
func (s *Segment) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.broken
}

// Allocated returns the size of the file in bytes, including its preallocated tail.
func (s *Segment) Allocated() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.alloc
}

// Sealed reports whether Seal or Finish has succeeded.
func (s *Segment) Sealed() bool { return s.sealed.Load() }
