package log

import (
	"slices"
	"sync"

	"github.com/stratalog/strata/internal/segment"
	"github.com/stratalog/strata/log/internal/journal"
)

// Bounds of one round.
const (
	roundAppends = 1024
	roundBytes   = 4 << 20 // or one batch
	// Batches up to copyBytes are copied into the round's buffer, larger ones written from where
	// they are.
	copyBytes    = 8 << 10
	patchedBytes = 16 // base offset, length, leader epoch: the fields that are set in a copy
	maxRounds    = 4  // in a row by one goroutine that only wanted to append
)

// A round has the appends that are written, and under SyncOnAck synced, together. It belongs to the
// writer that leads it, which performs these steps in this order, holding the token all the time:
//
//  1. takeQueued: waiting appends move into all
//  2. write: admits, assigns offsets, writes, publishes the new end. Failed appends are in refused,
//     the others are in written
//  3. completeWritten: completes appends that do not wait for stable storage; the others stay in
//     written
//  4. sync, only if step 3 reports that it is needed. Another goroutine may do it for the rounds of
//     many logs at once, as long as everything below end is on stable storage afterwards
//  5. complete: records that, and completes the waiting appends
type round struct {
	cfg     *Config // the log's configuration; cannot change while the token is held
	all     []*Append
	in      []*Append // admitted, not written yet
	refused []*Append
	written []*Append
	end     int64 // of the log behind the round's last write

	bufs   [][]byte // of the write in progress
	writer *writer  // whose round it is, of a shared round
	// frame receives the written data of a shared round; nil means that the round has its own sync.
	frame  *journal.Frame
	shared int    // bytes of the round in frame
	tag    uint64 // of its first entry there
	// pieces is bufs as it was before the write, which changes it; set if there is a frame.
	pieces [][]byte
	infos  []segment.BatchInfo
	buf    []byte // memory for bufs
}

var rounds = sync.Pool{New: func() any { return new(round) }}

// reset makes r ready for another round.
func (r *round) reset() {
	r.cfg, r.writer, r.frame, r.shared = nil, nil, nil, 0
	r.all, r.in, r.refused, r.written, r.bufs = r.all[:0], r.in[:0], r.refused[:0], r.written[:0], r.bufs[:0]
}

// put drops all references and returns r to the pool: it must not keep the appends it had alive.
func (r *round) put() {
	clear(r.all)
	clear(r.in)
	clear(r.refused)
	clear(r.written)
	clear(r.bufs)
	clear(r.pieces)
	r.reset()
	if cap(r.buf) <= maxPooledBytes {
		rounds.Put(r)
	}
}

// blocking reports whether any caller waits for one of the appends.
func (r *round) blocking() bool {
	return slices.ContainsFunc(r.all, func(a *Append) bool { return a.call != nil })
}

// leadInline leads rounds on the goroutine of an appender that found no round in progress and may
// lead one; the first is for a. It releases the token. Under SyncOnAck the goroutine has entered
// the syncer. It syncs without a hand-over, and later appends are left to the syncer's workers.
func (w *writer) leadInline(a *Append) {
	entered := w.log.cfg.Load().Sync == SyncOnAck
	// A round of its own: its results belong to the same call.
	if a.call != nil {
		a.call.inline = true
		r := &a.call.round
		r.all = append(r.all, a)
		w.run(r)
		r.reset()
	} else {
		r := rounds.Get().(*round)
		r.all = append(r.all, a)
		w.run(r)
		r.put()
	}
	if entered {
		w.log.dir.syncer.leave()
		w.release()
		return
	}
	w.leadNext(1)
}

// leadNext gives the token up after n rounds, or leads the next ones, up to a bound: then a worker
// does, to let the caller go.
func (w *writer) leadNext(n int) {
	for ; w.log.token.offer(); n++ {
		if n >= maxRounds {
			w.leadOnWorkerNext()
			return
		}
		r := rounds.Get().(*round)
		w.takeQueued(r)
		w.run(r)
		r.put()
	}
}

// takeQueued moves the front of the queue into the round.
func (w *writer) takeQueued(r *round) {
	t := &w.log.token
	t.mu.Lock()
	defer t.mu.Unlock()
	for bytes := 0; len(r.all) < roundAppends; {
		a := t.appends.head
		if a == nil || len(r.all) > 0 && bytes+len(a.Batch) > roundBytes {
			return
		}
		bytes += len(a.Batch)
		r.all = append(r.all, t.appends.pop())
	}
}

// run takes r, whose appends are in all, through all steps.
func (w *writer) run(r *round) {
	w.write(r)
	if w.completeWritten(r) {
		w.complete(r, w.sync(r))
	}
}
