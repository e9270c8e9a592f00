package consumer

import (
	"sync/atomic"
	"time"

	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/topic"
)

// A delivery is the progress through one partition from an assignment or a seek to the next one:
//
//	processed <= position
//
// The application holds the records in [processed, position). An assignment and a seek begin a new
// delivery. Code that hands out, finishes or returns records updates the delivery that they came
// from. A store into a replaced delivery is never read, so a late one cannot undo a seek or change
// the next owner's offset.
type delivery struct {
	start int64 // starting offset or a Start constant. Immutable
	// the application sought start. Set before the delivery is shared
	sought bool

	// position while no record was handed out; -1: not located yet. Written by the polling
	// goroutine
	begin atomic.Int64
	// next offset to hand out; -1: not located yet. Written by the polling goroutine
	position atomic.Int64
	// next offset to commit; -1: none yet. Written by the polling goroutine, or by Run's workers
	processed atomic.Int64
	// highest position before an undo; -1: none. Written by the polling goroutine
	reached atomic.Int64
	// leader epoch of the last batch decoded; -1: none. It may be newer than the epoch of the record
	// below an offset that is committed or fetched. Written by the polling goroutine
	epoch     atomic.Int32
	committed atomic.Int64 // last offset that this consumer committed of this delivery; -1: none
}

func newDelivery(start int64) *delivery {
	d := &delivery{start: start}
	d.epoch.Store(-1)
	d.begin.Store(max(start, -1))
	d.position.Store(max(start, -1))
	d.processed.Store(-1)
	d.reached.Store(-1)
	d.committed.Store(-1)
	return d
}

// done marks the records before next as processed.
func (d *delivery) done(next int64) { d.processed.Store(next) }

// inHandNone reports whether the application holds no record below pos, the position: all were
// processed, or none was handed out in this delivery. Invisible records up to pos then count as
// processed, too.
func (d *delivery) inHandNone(pos int64) bool {
	processed := d.processed.Load()
	return processed == pos || processed < 0 && pos == d.begin.Load()
}

// pass moves the position past invisible records, to the next visible record or the end of the
// fetched ones. Called by the polling goroutine.
func (d *delivery) pass(next int64) {
	if d.position.Swap(next) == d.begin.Load() {
		d.begin.Store(next)
	}
}

// open returns the offset at which a seek continues that has not returned a record yet, apart from
// records that were given back.
func (d *delivery) open() (offset int64, ok bool) {
	begin := d.begin.Load()
	if begin < 0 {
		return d.start, d.sought
	}
	return begin, d.sought && d.position.Load() == begin
}

// undo marks the records from offset from on as not processed: they are handed out again. It is
// called by the polling goroutine, which drops the fetched records of this delivery.
func (d *delivery) undo(p *part, from int64) {
	d.reached.Store(d.highest())
	d.position.Store(from)
	if p.chunk.d == d {
		p.chunk = chunk{}
	}
}

// highest returns the highest position that the delivery had.
func (d *delivery) highest() int64 { return max(d.reached.Load(), d.position.Load()) }

// undoUncommitted is undo for the records that the application has not committed.
func (d *delivery) undoUncommitted(p *part, from int64) {
	d.undo(p, max(from, min(d.committed.Load(), d.position.Load())))
}

// A handout is records [first, next) of one delivery that the application holds.
type handout struct {
	p           *part
	d           *delivery
	first, next int64
}

// A part is one partition from its assignment to its end: given up, lost, or its topic deleted.
type part struct {
	tp         record.TopicPartition
	id         topic.ID // of the topic; positions belong to it, not to the name
	membership int64    // in which the partition was assigned, see assignment
	newborn    bool     // the partition was created while the consumer was running

	chunk  chunk // fetched, not handed out. The polling goroutine's
	leader int32 // leader epoch as of the last fetch; -1: not known. The polling goroutine's

	// Guarded by Consumer.mu:
	d       *delivery // the present one
	located bool      // had a position: StartAt and the committed offset are not used again
	// lowest position since the assignment; -1: none. A lower commit belongs to an earlier owner
	lowest  int64
	highest int64 // highest position before the present delivery; -1: none
	end     int64 // high watermark or last stable offset as of the last fetch; -1: not fetched yet
	paused  bool
	failed  error // damage was reported; not fetched again until a seek
	trouble trouble
}

func newPart(tp record.TopicPartition, id topic.ID, membership, start int64) *part {
	p := &part{tp: tp, id: id, membership: membership, leader: -1, lowest: -1, highest: -1, end: -1}
	p.d = newDelivery(start)
	p.noteStart(start)
	return p
}

// ready reports whether there are records to hand out.
func (p *part) ready() bool { return !p.paused && p.chunk.left() }

// restart begins a new delivery at start and drops the fetched records of the old one.
func (p *part) restart(start int64) {
	p.highest = max(p.highest, p.d.highest())
	p.d = newDelivery(start)
	p.noteStart(start)
}

// seek begins a new delivery at an offset or a Start constant chosen by the application.
func (p *part) seek(offset int64) {
	p.restart(offset)
	p.d.sought = true
	if offset >= 0 {
		p.d.done(offset) // committed like a processed offset
	}
	p.located, p.failed, p.trouble = true, nil, trouble{}
}

// noteStart stores the starting offset of the delivery, if it is known.
func (p *part) noteStart(offset int64) {
	if offset >= 0 && (p.lowest < 0 || offset < p.lowest) {
		p.lowest = offset
	}
}

// mayCommit reports whether next is the offset after a record that this member received since the
// partition was assigned, or an offset that it sought.
func (p *part) mayCommit(next int64) bool {
	return p.lowest >= 0 && p.lowest <= next && next <= max(p.highest, p.d.highest())
}

// trouble is the state of a partition that cannot be read at present. Other partitions do not wait
// for it.
type trouble struct {
	since    time.Time // of the first error; zero: none
	until    time.Time // next attempt
	backoff  time.Duration
	reported bool // the application has received the error
}

// Back-off after an error, doubling.
const (
	minBackoff = 10 * time.Millisecond
	maxBackoff = time.Second
)

// reportAfter is the time for which a transient error, such as a missing leader, is not reported.
const reportAfter = 10 * time.Second

// add stores an error and returns whether to report it now. A passing (transient) error is reported
// once it has lasted for reportAfter.
func (t *trouble) add(now time.Time, passing bool) (report bool) {
	if t.since.IsZero() {
		t.since = now
	}
	t.backoff = min(max(2*t.backoff, minBackoff), maxBackoff)
	t.until = now.Add(t.backoff)
	report = !t.reported && (!passing || now.Sub(t.since) >= reportAfter)
	t.reported = t.reported || report
	return report
}
