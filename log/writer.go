package log

import "math/rand/v2"

// A writer is the right to change a log, and what only its holder may touch. There is one per log.
// It is had by acquiring the log's token, and by the goroutine that opens the log, before anybody
// knows it. What needs that right is a method of writer: so none can be called without.
type writer struct {
	log *Log

	appended   counts // not counted in the token yet
	idleRounds int64  // Stats.Rounds when the log was last seen to be idle or not
	marked     bool   // state says that the log is open
	unlisted   bool   // the directory was not synced since the first segment was made
	jitter     int64  // ms, of the active segment

	// provisional says that the state which marked speaks of is the provisional one; there is no
	// other then.
	provisional bool
	stateless   bool // no state was there when the log was opened, nor was one written since, but the provisional one
	made        bool // there was no segment either, nor a mark of a failed sync
	leftover    bool // the provisional state may be there

	incarnation uint64 // of strata.state: drawn when the log is created, and anew by TruncateFully
	journalTag  uint64 // of strata.state: entries of the directory's journal count that carry it; drawn by writeState

	cuts       uint64 // of strata.state: how often bytes that others may have read were taken back
	cutPending bool   // the state on the disk lacks the last of them: until it has, nothing is appended

	// installing says that the state on the disk asks for a result of compaction, under whatever
	// name it still has: until it does not, no other one is written under that name.
	installing bool

	// gapless says that the active segment leaves no offset out, as the state may say, so
	// that recovery finds out about a base offset that is not what it was. It is taken
	// back before the first gap is written.
	gapless bool

	// unfilled is the gap that the log ended in when it was cut or opened. Until a batch behind it
	// is on stable storage, the states tell of it.
	unfilled gap

	manyAborts int // length of aborts.recent from which on storeAborted, which has failed, is tried again

	created    int64 // when the active segment was made, ms
	epoch      int32 // stamped on appends that bring none
	epochKnown bool  // epoch is the newest in epochs
	roundSize  int   // appends of the last round that a worker led

	strays []int64 // bases of files that failed rolls may have left, and that no state of ours names
}

// A gap is the offsets from that of the last batch's end to the log's: they were given, and no
// batch has them. The zero gap is none.
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
	w.jitter = 0
	if j := min(cfg.SegmentJitter, cfg.SegmentAge).Milliseconds(); j > 0 {
		w.jitter = rand.Int64N(j)
	}
}

// countCut counts that bytes of a file are taken back, or were, which goes on to be written to. The
// next state says so, and comes before the next write: a read-only log tells by it whether what it
// read in the place of those bytes can be something else.
func (w *writer) countCut() {
	w.cuts++
	w.cutPending = true
}
