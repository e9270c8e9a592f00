package log

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stratalog/strata/internal/chanlock"
	"github.com/stratalog/strata/internal/segment"
)

// durability records which part of the log is on stable storage, and whether that is still
// reliable. It has no single owner: writers, workers of the syncer and callers of Sync change it.
type durability struct {
	// one pass over dirty and the active segment at a time. A writer may acquire it; its holder
	// must not acquire the token.
	syncing chanlock.Lock

	offset atomic.Int64 // everything below is on stable storage; stored under mu
	// everything below is on stable storage in the log's own files, the rest in the directory's
	// journal; <= offset; stored under mu
	inFiles atomic.Int64
	// set once: the first failure that left disk and memory in doubt. The log is read-only from
	// then on
	failure atomic.Pointer[stickyError]
	// number of truncations, changed under mu or by a writer. A sync, read or copy that began
	// before one and ends after it is void.
	cuts  atomic.Int64
	syncs atomic.Int64 // number of syncs

	noting    chanlock.Lock             // one at a time leaves the mark of a failure; taken last
	torn      atomic.Pointer[tornWrite] // set once, by the writer
	persisted persisted                 // the content of the state on the disk
	// unnamed means that the names that lead to the log's records may not be on stable storage, see
	// syncNamesBeside. Set by the writer, before the first append; cleared by the goroutine that
	// has synced them.
	unnamed atomic.Bool
	// stated means that strata.state is on stable storage. Set by the writer, never cleared.
	stated atomic.Bool

	mu sync.Mutex // guards dirty, and that offset only grows, except at a truncation
	// dirty has the closed segments that no sync has covered. A roll adds one and stores the longer
	// list of segments in one critical section. So a goroutine that reads dirty, the active segment
	// and the end in another critical section misses none. The slice is replaced, never changed.
	dirty []*segment.Segment
}

type stickyError struct{ err error }

// persisted is when a state with a new recovery point was last written. The writer stores it; Sync
// reads it, to see whether another one pays.
type persisted struct {
	bytes atomic.Int64 // appended below that point, as counts has them; it may be less
	at    atomic.Int64 // time, ns; 0: not since the log was opened
}

func (p *persisted) note(bytes int64) {
	p.bytes.Store(bytes)
	p.at.Store(time.Now().UnixNano())
}

// failed returns the sticky error, or nil.
func (d *durability) failed() error {
	if f := d.failure.Load(); f != nil {
		return f.err
	}
	return nil
}

// fail makes err the sticky error, unless there is one. It returns the sticky error.
func (d *durability) fail(err error) (sticky error, first bool) {
	first = d.failure.CompareAndSwap(nil, &stickyError{err})
	return d.failure.Load().err, first
}

// advance records that everything below end is on stable storage in the log's files, as seen by a
// sync that began when cuts were counted. It reports whether that is more than was durable: not if
// the log was cut since.
func (d *durability) advance(end, cuts int64) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.cuts.Load() != cuts {
		return false
	}
	d.inFiles.Store(max(d.inFiles.Load(), end))
	if end <= d.offset.Load() {
		return false
	}
	d.offset.Store(end)
	return true
}

// advanceJournaled records that everything below end is on stable storage, in the files or in the
// journal. It reports whether that is news. For a writer: the log cannot have been cut.
func (d *durability) advanceJournaled(end int64) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if end <= d.offset.Load() {
		return false
	}
	d.offset.Store(end)
	return true
}

// settled reports whether the log's own files have the whole durable part, so that the journal is
// not needed.
func (d *durability) settled() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.inFiles.Load() >= d.offset.Load()
}

// cutTo limits the durable offset to end, after the log was truncated: a sync that began before may
// have covered segments that were removed after it.
func (d *durability) cutTo(end int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.cuts.Add(1)
	d.offset.Store(min(d.offset.Load(), end))
	d.inFiles.Store(min(d.inFiles.Load(), end))
}

// set makes offset the durable end, of the files too, forwards or backwards. For a writer that cuts
// the log, with everything in the files, and for open.
func (d *durability) set(offset int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.offset.Store(offset)
	d.inFiles.Store(offset)
}

// forget removes a segment from dirty: it is synced, removed, or active again.
func (d *durability) forget(s *segment.Segment) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.dirty = slices.DeleteFunc(slices.Clone(d.dirty), func(x *segment.Segment) bool { return x == s })
}

// forgetAll empties dirty: no segment is left.
func (d *durability) forgetAll() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.dirty = nil
}
