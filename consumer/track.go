package consumer

import "context"

// A track follows the records of one delivery that workers have: a ring of done flags whose
// contiguous prefix may be committed. Guarded by runner.mu.
type track struct {
	p         *part
	d         *delivery       // delivery of p that the records belong to
	ctx       context.Context // of the handlers; ends when the partition is revoked or lost
	cancel    context.CancelCauseFunc
	idle      chan struct{} // closed when closing and no call is running any more
	first     int64         // sequence number of entries[0]
	entries   []trackEntry  // in offset order, the first one not done
	running   int           // active calls
	throttled bool          // at MaxInFlight
	paused    bool          // no new calls begin
	closing   bool          // waiting jobs are dropped; set once
	// outcomes are ignored: its partition was lost or sought; set once, with closing
	obsolete bool
}

type trackEntry struct {
	offset int64
	done   bool
}

// add adds a record and returns its sequence number.
func (t *track) add(offset int64) int64 {
	t.entries = append(t.entries, trackEntry{offset: offset})
	return t.first + int64(len(t.entries)) - 1
}

// done marks a record. It returns the new end of the contiguous prefix of done records, if that
// moved.
func (t *track) done(seq int64) (end trackEntry, moved bool) {
	t.entries[seq-t.first].done = true
	n := 0
	for n < len(t.entries) && t.entries[n].done {
		n++
	}
	if n == 0 {
		return trackEntry{}, false
	}
	end = t.entries[n-1]
	t.entries = t.entries[n:]
	t.first += int64(n)
	return end, true
}

// inFlight returns the number of records from the first open one.
func (t *track) inFlight() int { return len(t.entries) }

// firstOpen returns the offset of the first record that is not done.
func (t *track) firstOpen() (int64, bool) {
	if len(t.entries) == 0 {
		return 0, false
	}
	return t.entries[0].offset, true
}

// close prevents new calls. idle is closed when the last call has returned.
func (t *track) close() {
	if t.closing {
		return
	}
	t.closing = true
	t.throttled = false
	if t.running == 0 {
		close(t.idle)
	}
}

// callDone counts a call that returned.
func (t *track) callDone() {
	t.running--
	if t.closing && t.running == 0 {
		close(t.idle)
	}
}

// drops reports whether waiting jobs are dropped.
func (t *track) drops() bool { return t.closing }
