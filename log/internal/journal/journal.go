package journal

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"

	"github.com/stratalog/strata/vfs"
)

// A Holder has entries in a journal.
type Holder interface {
	comparable
	// Settle returns nil when the holder's own files have on stable storage everything that the
	// holder had appended to the journal before the call, or when the data is not needed any more.
	// It may be called by any goroutine and concurrently, and may sync.
	Settle() error
}

// Config describes a new journal.
type Config struct {
	FS       vfs.FS
	HalfSize int64  // bytes. 0 means 8 MiB
	Witness  uint64 // stored in the header, for the caller
	Settlers int    // number of holders that settle concurrently. 0 means 4
}

const defaultHalf = 8 << 20

// A Journal is open for appending. Append must not be called concurrently with itself, nor may
// Checkpoint and Drain with each other; one of each group may run at once. Other methods may be
// called at any time, except Close and Remove, which must come last.
type Journal[H Holder] struct {
	cfg  Config
	path string
	file vfs.File
	head Header

	mu         sync.Mutex // guards the fields below; never held during I/O
	halves     [2]half[H]
	active     int    // index of the half that is appended to
	generation uint64 // of the half that was begun last
	frames     int64  // number of frames appended since Create
	err        error  // sticky: why the journal is out of use; nil while it is in use
}

// half is a half of the file. It is free (generation 0), in use, or full and waiting for its
// holders; then nothing is written to it.
type half[H Holder] struct {
	generation uint64
	frames     uint64
	used       int64 // bytes
	full       bool
	holders    map[H]struct{}
}

// ErrFull is returned if both halves wait for their holders' files: the caller has to work without
// the journal this time.
var ErrFull = errors.New("journal: full")

// Create creates an empty journal at path, replacing an existing file. It writes the journal's
// space ahead, so that a later sync writes only data. When it returns, the file survives a power
// failure. It is written under another name first: at path there is never an incomplete file.
func Create[H Holder](path string, cfg Config) (_ *Journal[H], err error) {
	if cfg.HalfSize <= 0 {
		cfg.HalfSize = defaultHalf
	}
	if cfg.Settlers <= 0 {
		cfg.Settlers = 4
	}
	cfg.HalfSize = align(cfg.HalfSize)
	j := &Journal[H]{cfg: cfg, path: path}
	j.head = Header{ID: rand.Uint64(), Witness: cfg.Witness, BootID: cfg.FS.BootID(), half: cfg.HalfSize}
	for i := range j.halves {
		j.halves[i].holders = make(map[H]struct{})
	}
	tmp := path + ".tmp"
	if j.file, err = cfg.FS.OpenFile(tmp, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600); err != nil {
		return nil, fmt.Errorf("create journal: %w", err)
	}
	if err = j.fill(); err == nil {
		err = cfg.FS.Rename(tmp, path)
	}
	if err == nil {
		err = cfg.FS.SyncDir(filepath.Dir(path))
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("create journal: %w", err), j.file.Close())
	}
	return j, nil
}

// fill writes the header and zeros, and syncs the file.
func (j *Journal[H]) fill() error {
	if _, err := j.file.WriteAt(j.head.encode(), 0); err != nil {
		return err
	}
	zeros := make([]byte, min(1<<20, j.cfg.HalfSize))
	for pos, end := int64(headerBytes), headerBytes+2*j.cfg.HalfSize; pos < end; {
		n, err := j.file.WriteAt(zeros[:min(int64(len(zeros)), end-pos)], pos)
		if err != nil {
			return err
		}
		pos += int64(n)
	}
	return j.file.Sync()
}

// Header returns the header of the file.
func (j *Journal[H]) Header() Header { return j.head }

// Err returns the reason why the journal is out of use, or nil.
func (j *Journal[H]) Err() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.err
}

// Frames returns the number of appended frames.
func (j *Journal[H]) Frames() int64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.frames
}

// Append makes f durable: when it returns nil, its entries survive a power failure. holders are the
// holders with entries in f. Afterwards f must be reset before it is used again.
//
// ErrFull means that there is no room, or that the frame is larger than a half. Nothing was
// written, and a later Append may succeed. After any other error, which is sticky, f may or may not
// be in the file.
func (j *Journal[H]) Append(f *Frame, holders []H) error {
	if f.Empty() {
		return nil
	}
	at, pos, err := j.reserve(f.size(), holders)
	if err != nil {
		return err
	}
	if _, err = j.file.WriteAt(f.seal(at), pos); err == nil {
		err = j.file.Sync()
	}
	if err != nil {
		return j.fail(fmt.Errorf("append to journal: %w", err))
	}
	j.mu.Lock()
	j.frames++
	j.mu.Unlock()
	return nil
}

// reserve reserves room for a frame of the given size. Its half waits for the holders from then
// on, even if the frame is not written in the end.
func (j *Journal[H]) reserve(size int64, holders []H) (at place, pos int64, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	switch h := &j.halves[j.active]; {
	case j.err != nil:
		return at, 0, j.err
	case size > j.cfg.HalfSize:
		return at, 0, ErrFull
	case h.full || h.used+size > j.cfg.HalfSize:
		h.full = true
		if j.halves[1-j.active].generation > 0 {
			return at, 0, ErrFull
		}
		j.active = 1 - j.active
	}
	h := &j.halves[j.active]
	if h.generation == 0 {
		j.generation++
		h.generation = j.generation
	}
	for _, holder := range holders {
		h.holders[holder] = struct{}{}
	}
	at = place{h.generation, j.head.ID, h.frames}
	pos = j.begin(j.active) + h.used
	h.used += size
	h.frames++
	return at, pos, nil
}

// begin returns the position of a half in the file.
func (j *Journal[H]) begin(i int) int64 { return headerBytes + int64(i)*j.cfg.HalfSize }

// fail puts the journal out of use and returns the first reason for that.
func (j *Journal[H]) fail(err error) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.err == nil {
		j.err = err
	}
	return j.err
}

// Retire puts the journal out of use with a reason: every later Append and Checkpoint returns err,
// or an earlier error. An Append in progress may still succeed. The file keeps its frames.
func (j *Journal[H]) Retire(err error) { _ = j.fail(err) }

// Close closes the file, which stays as it is. No other call may be in progress or follow.
func (j *Journal[H]) Close() error { return j.file.Close() }

// Remove is Close, and deletes the file, which must not be needed any more. The deletion survives a
// power failure.
func (j *Journal[H]) Remove() error {
	err := errors.Join(j.file.Close(), j.cfg.FS.Remove(j.path))
	return errors.Join(err, j.cfg.FS.SyncDir(filepath.Dir(j.path)))
}
