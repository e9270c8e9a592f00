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
// Records in [processed, position) are in the application's hands. An assignment and a seek begin a
// new delivery, and whoever hands out, finishes or gives back records does so on the delivery that
// they came from. A store into a delivery that was replaced is never looked at, so a late one
// cannot undo a seek or touch the next owner's offset.
type delivery struct {
	start int64 // where to begin: an offset or a Start constant. Immutable
	// the application sought start. Set before anybody else sees the delivery
	sought bool

	// position while no record was handed out; -1: not located yet. Written by the polling
	// goroutine
	begin atomic.Int64
	// next offset to hand out; -1: not located yet. Written by the polling goroutine
	position atomic.Int64
	// next offset to commit; -1: none yet. Written by the polling goroutine, or by Run's workers
	processed atomic.Int64
	// highest position before an undo; -1: none. Written by the polling goroutine
	reached   atomic.Int64
	epoch     atomic.Int32 // leader epoch of the last records handed out or processed
	committed atomic.Int64 // last offset that this consumer committed of this delivery; -1: none
}

func newDelivery(start int64) *delivery {
	d := &delivery{start: start}
	d.begin.Store(max(start, -1))
	d.position.Store(max(start, -1))
	d.processed.Store(-1)
	d.reached.Store(-1)
	d.committed.Store(-1)
	return d
}

// done says that everything before next is processed.
func (d *delivery) done(next int64) { d.processed.Store(next) }

// pass moves the position behind what no reader sees, to the next record or behind all that was
// fetched. It is called by the polling goroutine.
func (d *delivery) pass(next int64) {
	if d.position.Swap(next) == d.begin.Load() {
		d.begin.Store(next)
	}
}

// open returns where a seek goes on that no record has answered yet, but for records that were
// given back.
func (d *delivery) open() (offset int64, ok bool) {
	begin := d.begin.Load()
	if begin < 0 {
		return d.start, d.sought
	}
	return begin, d.sought && d.position.Load() == begin
}

// undo says that what was handed out from offset from on is not processed: it is handed out again.
// It is called by the polling goroutine, which drops what it fetched of this delivery.
func (d *delivery) undo(p *part, from int64) {
	d.reached.Store(d.highest())
	d.position.Store(from)
	if p.chunk.d == d {
		p.chunk = chunk{}
	}
}

// highest returns the highest position that the delivery had.
func (d *delivery) highest() int64 { return max(d.reached.Load(), d.position.Load()) }

// undoUncommitted is undo, but for what the application has committed already.
func (d *delivery) undoUncommitted(p *part, from int64) {
	d.undo(p, max(from, min(d.committed.Load(), d.position.Load())))
}

// A handout is records [first, next) of one delivery that the application has in hand.
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
	newborn    bool     // the partition came into being while the consumer was at work

	chunk chunk // fetched, not handed out. The polling goroutine's

	// Guarded by Consumer.mu:
	d       *delivery // the present one
	located bool      // had a position: neither StartAt nor the committed offset is asked again
	// lowest position since the assignment; -1: none. A commit below is of an earlier owner
	lowest  int64
	highest int64 // highest position before the present delivery; -1: none
	end     int64 // high watermark or last stable offset as of the last fetch; -1: not fetched yet
	paused  bool
	failed  error // damage was reported; not fetched again until a seek
	trouble trouble
}

func newPart(tp record.TopicPartition, id topic.ID, membership, start int64) *part {
	p := &part{tp: tp, id: id, membership: membership, lowest: -1, highest: -1, end: -1}
	p.d = newDelivery(start)
	p.noteStart(start)
	return p
}

// ready reports whether there is something to hand out.
func (p *part) ready() bool { return !p.paused && p.chunk.left() }

// restart begins a new delivery at start; what was fetched for the old one is dropped.
func (p *part) restart(start int64) {
	p.highest = max(p.highest, p.d.highest())
	p.d = newDelivery(start)
	p.noteStart(start)
}

// seek begins a new delivery at an offset or a Start constant that the application wants to go on
// at.
func (p *part) seek(offset int64) {
	p.restart(offset)
	p.d.sought = true
	if offset >= 0 {
		p.d.done(offset) // committed like something processed
	}
	p.located, p.failed, p.trouble = true, nil, trouble{}
}

// noteStart notes where handing out begins, if that is known.
func (p *part) noteStart(offset int64) {
	if offset >= 0 && (p.lowest < 0 || offset < p.lowest) {
		p.lowest = offset
	}
}

// mayCommit reports whether next is the offset after a record that this member was given, or sought
// to, since the partition was assigned.
func (p *part) mayCommit(next int64) bool {
	return p.lowest >= 0 && p.lowest <= next && next <= max(p.highest, p.d.highest())
}

// trouble is the state of a partition that cannot be read just now. Other partitions do not wait
// for it.
type trouble struct {
	since   time.Time // of the first error; zero: none
	until   time.Time // next attempt
	backoff time.Duration
	told    bool // the application has had the error
}

// Back-off after an error, doubling.
const (
	minBackoff = 10 * time.Millisecond
	maxBackoff = time.Second
)

// tellAfter is how long an error that often passes by itself, such as a missing leader, goes
// untold.
const tellAfter = 10 * time.Second

// add notes an error and reports whether it is time to tell it. passing errors are told once they
// have lasted.
func (t *trouble) add(now time.Time, passing bool) (tell bool) {
	if t.since.IsZero() {
		t.since = now
	}
	t.backoff = min(max(2*t.backoff, minBackoff), maxBackoff)
	t.until = now.Add(t.backoff)
	tell = !t.told && (!passing || now.Sub(t.since) >= tellAfter)
	t.told = t.told || tell
	return tell
}
