package log

import (
	"sync"
	"sync/atomic"

	"github.com/stratalog/strata/internal/alarm"
	"github.com/stratalog/strata/internal/chanlock"
	"github.com/stratalog/strata/internal/watermark"
	"github.com/stratalog/strata/log/internal/manifest"
)

// A Log is an ordered list of segments, the last of which takes the appends. All methods are safe
// for concurrent use. Its state is in three parts, each with its own guard: token (who writes, and
// what only the writer has), durability (what is on stable storage) and segments (what is there to
// be read).
type Log struct {
	path      string
	name      string // of the directory, the last element of path
	dir       *Directory
	claim     claim         // of a log that may write
	moment    manifest.Mark // of the state that a read-only log shows, see vouch
	ownsDir   bool
	readOnly  bool
	journaled bool // the directory's journal may be used for it
	recovery  *RecoveryReport
	epochs    *EpochCache
	cfg       atomic.Pointer[Config] // replaced by a writer, see Reconfigure

	// unentered says that the Directory was not synced since the log's own was made in it. Set by
	// open; cleared by the writer with the first state.
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
	purged atomic.Pointer[Purged] // by who opens the log, then by the writer; nil: nothing

	purgeGuessed bool // purged was not known to Open

	tail      tail          // recently written bytes in memory; changed by the writer
	followers followers     // who wait for the readable end to grow
	cleaning  chanlock.Lock // one Clean, Retain or Backup at a time; taken before the token

	intervalAlarm alarm.Alarm // syncDue, of SyncInterval
	idleAlarm     alarm.Alarm // trimIdle
	expiryAlarm   alarm.Alarm // expire

	wg sync.WaitGroup // syncs of closed segments in the background
}

// ending is how a log ends: by the first Close or Remove, for which all others wait.
type ending struct {
	done    chan struct{} // closed when that is through; the other fields are read after it
	err     error
	removed bool // it was Remove
}

// followers are readers that wait for the readable end to pass an offset.
type followers struct {
	mu    sync.Mutex // guards queue
	queue watermark.Queue[chan struct{}]
	count atomic.Int32 // len of queue, written under mu: a writer that finds 0 has nobody to wake
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
	c := l.token.counts()
	return Stats{c.appends, c.records, c.bytes, c.rounds, l.durability.syncs.Load(), l.segments.rolls.Load()}
}

// Path returns the log's directory.
func (l *Log) Path() string { return l.path }

// StartOffset returns the first offset held; the end offset if the log is empty.
func (l *Log) StartOffset() int64 { return l.segments.start.Load() }

// EndOffset returns the offset that the next record gets.
func (l *Log) EndOffset() int64 { return l.segments.end.Load() }

// DurableOffset returns the offset below which everything is on stable storage.
func (l *Log) DurableOffset() int64 { return l.durability.offset.Load() }

// Epochs returns the leader epochs of the log.
func (l *Log) Epochs() *EpochCache { return l.epochs }

// Recovery tells what Open had to repair.
func (l *Log) Recovery() RecoveryReport { return *l.recovery }

// SetHighWatermark bounds retention: Clean removes nothing at or above it. Without a call there is
// no bound.
func (l *Log) SetHighWatermark(offset int64) { l.segments.highWatermark.Store(offset) }

// Busy reports whether a write of the log is under way: an append, a roll, a truncation. It does
// not block, and may be called concurrently with everything.
func (l *Log) Busy() bool {
	t := &l.token
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.held
}

// Err returns the sticky error that made the log read-only, or nil.
func (l *Log) Err() error { return l.durability.failed() }
