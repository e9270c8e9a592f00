package log

import (
	"sync"
	"sync/atomic"

	"github.com/stratalog/strata/internal/alarm"
	"github.com/stratalog/strata/internal/chanlock"
	"github.com/stratalog/strata/internal/watermark"
	"github.com/stratalog/strata/log/internal/manifest"
)

// A Log is an ordered list of segments, the last of which receives the appends. All methods are
// safe for concurrent use.
//
// Its state has three parts, each with its own guard: token (the writer and the writer's state),
// durability (the range on stable storage) and segments (the readable range).
type Log struct {
	location
	moment manifest.Mark // of the state that a read-only log shows, see vouch
	// of its state: from Config, or from the existing state
	identity uint64
	recovery *RecoveryReport
	epochs   *EpochCache
	cfg      atomic.Pointer[Config] // replaced by a writer, see Reconfigure

	// unentered means that the Directory was not synced since the log's own directory was created
	// in it. Set by open; cleared by the writer with the first state.
	unentered atomic.Bool
	closing   atomic.Bool            // set once, by the first Close; nothing new begins from then on
	ending    atomic.Pointer[ending] // of the first Close or Remove; nil until then

	token      writeToken
	durability durability
	segments   segments

	// snapshots are the owner's snapshot files as Open found them, for the first call of
	// SnapshotFiles. nil: it was made, or a snapshot was written or removed since.
	snapshots atomic.Pointer[[]int64]

	aborts aborts
	purged atomic.Pointer[Purged] // stored by Open, then by the writer; nil if nothing was purged

	purgeGuessed bool // purged was not known to Open

	tail      tail          // recently written bytes in memory; changed by the writer
	followers followers     // readers that wait for the readable end to grow
	cleaning  chanlock.Lock // one Clean, Retain or Backup at a time; taken before the token

	alarms
	wg sync.WaitGroup // syncs of closed segments in the background
}

// location is the directory of a log and how the log uses it. It is constant once the log is open.
type location struct {
	path      string
	name      string // of the directory, the last element of path
	dir       *Directory
	claim     claim // of a log that may write
	ownsDir   bool
	readOnly  bool
	journaled bool // the directory's journal may be used for it
}

// alarms are the timers of a log, by the method that they call.
type alarms struct {
	intervalAlarm alarm.Alarm // syncDue, of SyncInterval
	idleAlarm     alarm.Alarm // trimIdle
	expiryAlarm   alarm.Alarm // expire
}

// ending is how a log ends: by the first Close or Remove, for which all others wait.
type ending struct {
	done    chan struct{} // closed when the end is complete; the other fields are read after it
	err     error
	removed bool // it was Remove
}

// followers are readers that wait for the readable end to pass an offset.
type followers struct {
	mu    sync.Mutex // guards queue
	queue watermark.Queue[chan struct{}]
	count atomic.Int32 // len of queue, written under mu: a writer that finds 0 wakes no reader
}

// Stats counts the operations of a log since it was opened.
type Stats struct {
	Batches, Records, Bytes int64 // appended
	Rounds                  int64 // writes of the appends
	Syncs                   int64
	Rolls                   int64
}

// Stats returns the counters.
func (l *Log) Stats() Stats {
	c := l.token.counts()
	return Stats{c.appends, c.records, c.bytes, c.rounds, l.durability.syncs.Load(), l.segments.rolls.Load()}
}

// Path returns the log's directory.
func (l *Log) Path() string { return l.path }

// StartOffset returns the first offset in the log; it is the end offset if the log is empty.
func (l *Log) StartOffset() int64 { return l.segments.start.Load() }

// EndOffset returns the offset that the next record gets.
func (l *Log) EndOffset() int64 { return l.segments.end.Load() }

// DurableOffset returns the offset below which everything is on stable storage.
func (l *Log) DurableOffset() int64 { return l.durability.offset.Load() }

// Stated reports whether the log's strata.state is on stable storage. It may be there, although the
// result is false, until the first append after Open. See Known.Stated.
func (l *Log) Stated() bool { return l.durability.stated.Load() }

// Epochs returns the leader epochs of the log.
func (l *Log) Epochs() *EpochCache { return l.epochs }

// Recovery returns the report of the problems that Open found and repaired.
func (l *Log) Recovery() RecoveryReport { return *l.recovery }

// SetHighWatermark limits retention: Clean removes nothing at or above offset. Until the first call
// there is no limit.
func (l *Log) SetHighWatermark(offset int64) { l.segments.highWatermark.Store(offset) }

// Busy reports whether a write of the log is in progress: an append, a roll or a truncation. It
// does not block.
func (l *Log) Busy() bool {
	t := &l.token
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.held
}

// Err returns the sticky error that made the log read-only, or nil.
func (l *Log) Err() error { return l.durability.failed() }
