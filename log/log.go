package log

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stratalog/strata/internal/alarm"
	"github.com/stratalog/strata/internal/watermark"
	"github.com/stratalog/strata/segment"
)

// A Log is an ordered list of segments, the last of which takes the appends. All methods are safe for concurrent use.
type Log struct {
	path     string
	dir      *Directory
	ownsDir  bool
	readOnly bool
	recovery RecoveryReport
	epochs   *EpochCache
	cleaning turn         // one Clean at a time
	syncing  turn         // one Sync at a time
	cuts     atomic.Int64 // counts truncations: what a compaction saw before one is no more

	cfg      atomic.Pointer[Config]
	segments atomic.Pointer[[]*segment.Segment] // ascending, at least one; replaced, never changed, with the turn
	start    atomic.Int64                       // first offset held; moved with the turn
	end      atomic.Int64                       // next offset; moved with the turn
	durable  atomic.Int64                       // below: on stable storage; moved under mu
	high     atomic.Int64                       // retention stays below; -1: no bound
	closing  atomic.Bool
	tail     tail
	waiters  atomic.Int32 // how many are in waiting
	syncs    atomic.Int64
	rolls    atomic.Int64

	mu      sync.Mutex                     // guards the fields below; never held while waiting or doing I/O
	busy    bool                           // somebody has the turn: is the only writer, leads a round of appends or changes the list of segments
	ended   bool                           // nobody will have it again
	turns   []chan struct{}                // who wait for the turn
	queue   appendQueue                    // appends that wait for a round
	waiting watermark.Queue[chan struct{}] // for the readable end to grow
	broken  error                          // sticky
	dirty   []*segment.Segment             // closed and not synced yet
	counted counts

	expiring []expiring // files of removed segments

	intervalAlarm alarm.Alarm // syncDue, of SyncInterval
	idleAlarm     alarm.Alarm // rest
	expiryAlarm   alarm.Alarm // expire

	// Of whoever has the turn.
	appended     counts // not counted yet
	restedAt     int64  // rounds when the log was last seen to be idle or not
	marked       bool   // state says that the log is open
	unlisted     bool   // the directory was not synced since the first segment was made
	jitter       int64  // ms, of the active segment
	incarnation  uint64 // of strata.state: drawn when the log is created, and anew by TruncateFully
	journalFloor uint64 // of strata.state: journal entries up to this sequence number are void
	created      int64  // when the active segment was made, ms
	epoch        int32  // stamped on appends that bring none
	epochKnown   bool   // it is the newest in epochs
	roundSize    int    // appends of the last round that a worker led

	wg     sync.WaitGroup
	closed chan struct{}
	err    error // of Close
}

// counts is what was appended.
type counts struct{ appends, records, bytes, rounds int64 }

// add adds d and empties it.
func (c *counts) add(d *counts) {
	c.appends += d.appends
	c.records += d.records
	c.bytes += d.bytes
	c.rounds += d.rounds
	*d = counts{}
}

// Stats counts what a log did since it was opened.
type Stats struct {
	Batches, Records, Bytes int64 // appended
	Rounds                  int64 // writes that took
	Syncs                   int64
	Rolls                   int64
}

// Stats returns the counters.
func (l *Log) Stats() Stats {
	l.mu.Lock()
	c := l.counted
	l.mu.Unlock()
	return Stats{c.appends, c.records, c.bytes, c.rounds, l.syncs.Load(), l.rolls.Load()}
}

// Path returns the log's directory.
func (l *Log) Path() string { return l.path }

// StartOffset returns the first offset held; the end offset if the log is empty.
func (l *Log) StartOffset() int64 { return l.start.Load() }

// EndOffset returns the offset that the next record gets.
func (l *Log) EndOffset() int64 { return l.end.Load() }

// DurableOffset returns the offset below which everything is on stable storage.
func (l *Log) DurableOffset() int64 { return l.durable.Load() }

// Epochs returns the leader epochs of the log.
func (l *Log) Epochs() *EpochCache { return l.epochs }

// Recovery tells what Open had to repair.
func (l *Log) Recovery() RecoveryReport { return l.recovery }

// SetHighWatermark bounds retention: Clean removes nothing at or above it. Without a call there is no bound.
func (l *Log) SetHighWatermark(offset int64) { l.high.Store(offset) }

// Err returns the sticky error that made the log read-only, or nil.
func (l *Log) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.broken
}

func (l *Log) list() []*segment.Segment { return *l.segments.Load() }

func (l *Log) active() *segment.Segment {
	list := l.list()
	return list[len(list)-1]
}

// SegmentInfo describes a segment.
type SegmentInfo struct {
	BaseOffset   int64
	NextOffset   int64
	Size         int64     // bytes of its batches
	MaxTimestamp time.Time // zero if there is none
	Active       bool
}

// Segments lists the segments, oldest first; the last one is active.
func (l *Log) Segments() []SegmentInfo {
	list := l.list()
	infos := make([]SegmentInfo, len(list))
	for i, s := range list {
		infos[i] = infoOf(s)
		infos[i].Active = i == len(list)-1
	}
	return infos
}

func infoOf(s *segment.Segment) SegmentInfo {
	info := SegmentInfo{BaseOffset: s.Base(), NextOffset: s.NextOffset(), Size: s.Size()}
	if ts, _ := s.MaxTimestamp(); ts >= 0 {
		info.MaxTimestamp = time.UnixMilli(ts)
	}
	return info
}

// Reconfigure changes the settings of an open log. Dir, Owner and FS stay as they are; the sizes in Segment hold for segments that are begun
// from then on. It waits for the round under way.
func (l *Log) Reconfigure(cfg Config) error {
	old := l.cfg.Load()
	cfg.Dir, cfg.Owner, cfg.FS = old.Dir, old.Owner, old.FS
	cfg, err := cfg.withDefaults()
	if err != nil {
		return err
	}
	err = l.exclusively(func() error {
		if cfg.Sync != old.Sync && cfg.Sync != SyncNever { // what was appended under the weaker policy
			if err := l.syncNow(); err != nil {
				return err
			}
		}
		if cfg.Sync != SyncOnAck && old.Sync == SyncOnAck { // recovery must not trust in the strict one any more
			l.marked = false
		}
		l.cfg.Store(&cfg)
		l.drawJitter()
		return nil
	})
	if err != nil {
		return fmt.Errorf("reconfigure: %w", err)
	}
	l.wake()
	return nil
}

// drawJitter chooses how much earlier than SegmentAge the active segment rolls.
func (l *Log) drawJitter() {
	cfg := l.cfg.Load()
	if j := min(cfg.SegmentJitter, cfg.SegmentAge).Milliseconds(); j > 0 {
		l.jitter = rand.Int64N(j)
	} else {
		l.jitter = 0
	}
}

// exclusively runs fn as the only writer.
func (l *Log) exclusively(fn func() error) error {
	if l.readOnly {
		return ErrReadOnly
	}
	if err := l.takeTurn(); err != nil {
		return err
	}
	defer l.giveTurn()
	if l.closing.Load() {
		return ErrClosed
	}
	return fn()
}

// replaceSegments publishes a new list: old, which are neighbours, become new.
func (l *Log) replaceSegments(old []*segment.Segment, now ...*segment.Segment) {
	list := slices.Clone(l.list())
	i := slices.Index(list, old[0])
	list = slices.Replace(list, i, i+len(old), now...)
	l.segments.Store(&list)
}

// A turn is the right to write, handed from one holder to the next. Taking it waits on a channel, not on a mutex.
type turn struct {
	held atomic.Bool

	mu      sync.Mutex // guards waiting
	waiting []chan struct{}
	some    atomic.Bool // waiting is not empty
}

// try takes the turn if nobody has it.
func (t *turn) try() bool { return t.held.CompareAndSwap(false, true) }

// take waits for the turn.
func (t *turn) take() {
	for !t.try() {
		ch := make(chan struct{})
		t.mu.Lock()
		t.waiting = append(t.waiting, ch)
		t.some.Store(true)
		t.mu.Unlock()
		if t.try() { // it was given back meanwhile: somebody may have woken nobody
			t.forget(ch)
			return
		}
		<-ch
	}
}

func (t *turn) forget(ch chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.waiting = slices.DeleteFunc(t.waiting, func(c chan struct{}) bool { return c == ch })
	t.some.Store(len(t.waiting) > 0)
}

// give ends the turn and wakes the one who waits longest.
func (t *turn) give() {
	t.held.Store(false)
	if !t.some.Load() {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.waiting) > 0 {
		close(t.waiting[0])
		t.waiting = t.waiting[1:]
		t.some.Store(len(t.waiting) > 0)
	}
}
