package consumer

import "context"

// A track follows the records of a partition that are with workers: a ring of done flags whose contiguous prefix may be committed.
// Guarded by runner.mu.
type track struct {
	p         *part
	d         *delivery       // of p, that the records are of
	ctx       context.Context // of the handlers; ends when the partition is taken away
	cancel    context.CancelCauseFunc
	idle      chan struct{} // closed when closing and nothing is running any more
	first     int64         // sequence number of entries[0]
	entries   []trackEntry  // in offset order, the first one not done
	running   int
	throttled bool // at MaxInFlight
	closing   bool // waiting jobs are dropped
	cancelled bool
	idled     bool
}

type trackEntry struct {
	offset int64
	epoch  int32
	done   bool
}

// trackOf returns the track of p, a new one after a seek: what was in flight before says nothing about the position after it.
func (r *runner) trackOf(p *part) *track {
	r.mu.Lock()
	defer r.mu.Unlock()
	if t := r.tracks[p]; t != nil && t.d == p.chunk.d {
		return t
	}
	if old := r.tracks[p]; old != nil {
		old.closing = true
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	t := &track{p: p, d: p.chunk.d, ctx: ctx, cancel: cancel, idle: make(chan struct{})}
	r.tracks[p] = t
	return t
}

// add enters a record and returns its sequence number.
func (t *track) add(offset int64, epoch int32) int64 {
	t.entries = append(t.entries, trackEntry{offset: offset, epoch: epoch})
	return t.first + int64(len(t.entries)) - 1
}

// done marks a record and moves the processed offset to the end of the contiguous prefix of done ones.
func (t *track) done(seq int64) {
	t.entries[seq-t.first].done = true
	n := 0
	for n < len(t.entries) && t.entries[n].done {
		n++
	}
	if n == 0 {
		return
	}
	t.d.done(t.entries[n-1].offset + 1)
	t.d.epoch.Store(t.entries[n-1].epoch)
	t.entries = t.entries[n:]
	t.first += int64(n)
}

// inFlight counts the records handed to workers, from the first one that is not done on.
func (t *track) inFlight() int { return len(t.entries) }

// firstOpen returns the offset of the first record that is not done.
func (t *track) firstOpen() (int64, bool) {
	if len(t.entries) == 0 {
		return 0, false
	}
	return t.entries[0].offset, true
}

func (t *track) closeIdle() {
	if !t.idled {
		t.idled = true
		close(t.idle)
	}
}
