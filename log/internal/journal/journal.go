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
	// Settle returns nil when the holder's own files hold on stable storage what the holder had
	// appended to the journal before the call, or when that is not wanted any more. It may be
	// called by any goroutine, by several at once, and may sync.
	Settle() error
}

// Config describes a new journal.
type Config struct {
	FS       vfs.FS
	HalfSize int64  // bytes. 0: 8 MiB
	Witness  uint64 // kept in the header, for who loads it
	Settlers int    // holders that are asked to settle at once. 0: 4
}

const defaultHalf = 8 << 20

// A Journal is open for appending. Append is for one goroutine at a time, and so are Checkpoint and
// Drain; one of each may run at once. What else there is may be called at any time, but for Close
// and Remove, which come last.
type Journal[H Holder] struct {
	cfg  Config
	path string
	file vfs.File
	head Header

	mu         sync.Mutex // guards the fields below; never held during I/O
	halves     [2]half[H]
	active     int    // index of the half that is appended to
	generation uint64 // of the half that was begun last
	frames     int64  // appended since Create
	err        error  // sticky: out of use
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

// ErrFull says that both halves wait for their holders' files: the caller has to do without the
// journal this time.
var ErrFull = errors.New("journal: full")

// Create makes an empty journal at path, replacing what is there, and writes its space ahead, so
// that a sync need not change more than data. When it returns the file survives a power cut. It is
// written under another name first: at path there is never a part of one.
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
	if j.file, err = cfg.FS.OpenFile(tmp, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o644); err != nil {
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

// fill writes header and zeros, and syncs.
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

// Err returns why the journal is out of use, or nil.
func (j *Journal[H]) Err() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.err
}

// Frames returns how many frames were appended.
func (j *Journal[H]) Frames() int64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.frames
}

// Append makes f durable: when it returns nil its entries survive a power cut. holders are those
// that have entries in it. The frame can only be reset afterwards.
//
// ErrFull says that there is no room, or never will be for so large a frame; nothing was written,
// and a later Append may succeed. After any other error, which is sticky, f may be in the file or
// not.
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

// reserve finds room for a frame of the given size. Its half waits for the holders from then on,
// also if the frame is not written after all.
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

// begin returns where a half begins in the file.
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

// Retire puts the journal out of use with a reason: every later Append and Checkpoint returns it,
// or an earlier one. One that is under way may still succeed. What the file holds stays.
func (j *Journal[H]) Retire(err error) { _ = j.fail(err) }

// Close closes the file, which stays as it is. Nothing else may be under way, nor follow.
func (j *Journal[H]) Close() error { return j.file.Close() }

// Remove is Close, and takes the file away, which must not be needed by anybody any more. It
// survives a power cut.
func (j *Journal[H]) Remove() error {
	err := errors.Join(j.file.Close(), j.cfg.FS.Remove(j.path))
	return errors.Join(err, j.cfg.FS.SyncDir(filepath.Dir(j.path)))
}
