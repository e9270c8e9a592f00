package log

import "math/rand/v2"

// A writer is the right to change a log, with the data that only its holder may access. There is
// one per log. The holder of the log's token has it, and the goroutine that opens the log, before
// other goroutines have the log. Functions that need that right are methods of writer, so none can
// be called without it.
type writer struct {
	log *Log

	appended   counts // not counted in the token yet
	idleRounds int64  // Stats.Rounds when the log was last seen to be idle or not
	marked     bool   // the state marks the log as open
	unlisted   bool   // the directory was not synced since the first segment was made

	// provisional means that the state that marked refers to is the provisional one; there is no
	// other then.
	provisional bool
	stateless   bool // no state was there when the log was opened, nor was one written since, but the provisional one
	made        bool // there was no segment either, nor a mark of a failed sync
	leftover    bool // the provisional state may be there

	incarnation uint64 // of strata.state: drawn when the log is created, and again by TruncateFully
	journalTag  uint64 // of strata.state: entries of the directory's journal count that carry it; drawn by writeState

	cuts       uint64 // of strata.state: how often bytes that others may have read were taken back
	cutPending bool   // the state on the disk lacks the last of them: until it has, nothing is appended

	// installing means that the state on the disk names a result of compaction that may not have
	// its final name yet. Until that changes, no other result is written under that name.
	installing bool

	// gapless means that the active segment leaves no offset out. The state may record that, so
	// that recovery detects a damaged base offset. It is cleared before the first gap is written.
	gapless bool

	// unfilled is the gap at the log's end when it was truncated or opened. Until a batch after it
	// is on stable storage, the states record it.
	unfilled gap

	manyAborts int // length of aborts.recent from which on storeAborted, which has failed, is tried again

	epoch      int32 // stamped on appends that bring none
	epochKnown bool  // epoch is the newest in epochs
	roundSize  int   // appends of the last round that a worker led

	strays []int64 // bases of files that failed rolls may have left, and that no state of ours names
}

// A gap is a range of offsets, from the end of the last batch to the end of the log: they were
// handed out, and no batch has them. The zero gap is empty.
type gap struct{ from, to int64 }

// exclusively runs fn as the only writer.
func (l *Log) exclusively(fn func(w *writer) error) error {
	if l.readOnly {
		return ErrReadOnly
	}
	w, err := l.token.acquire()
	if err != nil {
		return err
	}
	defer w.release()
	if l.closing.Load() {
		return ErrClosed
	}
	return fn(w)
}

// release gives the token up. A round that waits is led by a worker, since the caller is no
// appender.
func (w *writer) release() {
	if w.log.token.offer() {
		w.leadOnWorkerNext()
	}
}

// leadOnWorkerNext hands the token to a worker of the syncer, which leads a round.
func (w *writer) leadOnWorkerNext() { w.log.dir.syncer.add(job{lead: w}) }

// drawJitter chooses how much earlier than SegmentAge the active segment rolls.
func (w *writer) drawJitter() {
	cfg := w.log.cfg.Load()
	jitter := int64(0)
	if j := min(cfg.SegmentJitter, cfg.SegmentAge).Milliseconds(); j > 0 {
		jitter = rand.Int64N(j)
	}
	w.log.segments.jitter.Store(jitter)
}

// countCut counts that bytes are removed, or were, from a file that is written to afterwards. The
// next state records it, and is written before the next write: from it a read-only log determines
// whether its read can have returned other bytes.
func (w *writer) countCut() {
	w.cuts++
	w.cutPending = true
}
