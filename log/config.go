package log

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"time"

	"github.com/stratalog/strata/internal/segment"
	"github.com/stratalog/strata/vfs"
)

// Unlimited disables a limit whose zero value means a default.
const Unlimited = -1

// A SyncPolicy determines when appended records are on stable storage. The zero value, SyncOnAck,
// is the safest.
type SyncPolicy time.Duration

const (
	// SyncOnAck acknowledges an append when it survives power loss. Many waiting appends share one
	// fsync.
	SyncOnAck SyncPolicy = 0
	// SyncNever leaves syncing to the operating system; an acknowledged append survives a killed
	// process. It is Kafka's default.
	SyncNever SyncPolicy = -1
)

// SyncInterval returns a policy that syncs d after the first append since the last sync: a power
// failure loses at most the records of the last d. A d below 1 ms counts as 1 ms. Kafka: flush.ms.
func SyncInterval(d time.Duration) SyncPolicy { return SyncPolicy(max(d, time.Millisecond)) }

// Interval returns the interval of a SyncInterval policy, and 0 for the other policies.
func (p SyncPolicy) Interval() time.Duration { return max(time.Duration(p), 0) }

// String returns "on ack", "never" or "every 5s".
func (p SyncPolicy) String() string {
	switch {
	case p == SyncOnAck:
		return "on ack"
	case p < 0:
		return "never"
	}
	return "every " + p.Interval().String()
}

// A CleanupPolicy determines how Clean treats old records. Kafka: cleanup.policy.
type CleanupPolicy uint8

const (
	// CleanupDelete removes whole segments by age and size. The zero value means the same.
	CleanupDelete CleanupPolicy = 1 << iota
	// CleanupCompact keeps the last record of each key. It may be combined with CleanupDelete.
	CleanupCompact
	// CleanupNone removes nothing: only DeleteRecords does.
	CleanupNone
)

// Compacts reports whether old records of a key are removed.
func (c CleanupPolicy) Compacts() bool { return c&CleanupCompact != 0 }

// Deletes reports whether segments are removed by age and size.
func (c CleanupPolicy) Deletes() bool { return c == 0 || c&CleanupDelete != 0 }

// Defaults of Config.
const (
	DefaultSegmentBytes    = 1 << 30
	DefaultSegmentAge      = 7 * 24 * time.Hour
	DefaultRetentionAge    = 7 * 24 * time.Hour
	DefaultMaxBatchBytes   = 1<<20 + 12
	DefaultMinDirtyRatio   = 0.5
	DefaultDeleteRetention = 24 * time.Hour

	DefaultCompactionMemory = 128 << 20
)

// Config describes a log. The zero Config is valid.
type Config struct {
	// SegmentBytes is the maximum size of a segment, which is closed before a batch would exceed
	// it. 0 means 1 GiB; the maximum is 2^31 - 1. Kafka: segment.bytes.
	SegmentBytes int64
	// SegmentAge is the maximum age of a segment: it is closed if its first record is that much
	// older than the one to append. Retention removes whole segments, so a record is kept for up to
	// RetentionAge + SegmentAge. 0 means an eighth of RetentionAge if that is set and records are
	// deleted, at least 1 s and at most 7 days; otherwise 7 days. Kafka: segment.ms.
	SegmentAge time.Duration
	// SegmentJitter is the maximum of a random duration by which SegmentAge is reduced, for each
	// segment. Kafka: segment.jitter.ms.
	SegmentJitter time.Duration
	// IndexIntervalBytes is the number of bytes between two entries of a segment's index. 0 means
	// 4096. Kafka: index.interval.bytes.
	IndexIntervalBytes int
	// IndexBytes is the size of an index at which its segment is closed. 0 means 10 MiB. Kafka:
	// segment.index.bytes.
	IndexBytes int
	// RetentionBytes is the size in bytes that retention keeps: a closed segment is removed if the
	// rest of the log has at least this size. 0 means no limit. Kafka: retention.bytes.
	RetentionBytes int64
	// RetentionAge is the time after its newest record for which a closed segment is kept. 0 means
	// 7 days, Unlimited forever. Kafka: retention.ms.
	RetentionAge time.Duration

	Cleanup CleanupPolicy
	// MinDirtyRatio is the ratio of bytes that are not yet compacted above which Clean compacts. 0
	// means 0.5. Kafka: min.cleanable.dirty.ratio.
	MinDirtyRatio float64
	// MinCompactionLag is the minimum age of a record to compact. Kafka: min.compaction.lag.ms.
	MinCompactionLag time.Duration
	// MaxCompactionLag is the age from which on records are compacted regardless of the ratio. 0
	// means no such limit. Kafka: max.compaction.lag.ms.
	MaxCompactionLag time.Duration
	// DeleteRetention is the time for which compaction keeps tombstones and markers. 0 means 24 h.
	// Kafka: delete.retention.ms.
	DeleteRetention time.Duration

	// DeleteDelay is the time for which the .log file of a segment that Clean or a truncation has
	// removed stays on disk, under a name ending in .deleted. 0 means until its last reader has
	// finished. The next open deletes files that a closed log has left. Kafka: file.delete.delay.ms
	DeleteDelay time.Duration

	// CompactionMemory is the maximum size in bytes of a compaction's table of keys. A key takes 24
	// bytes, whatever its length, and the table is at most three quarters full. If not all keys
	// fit, Clean compacts a part of the log, and the next Clean continues after it. The table grows
	// as needed. 0 means 128 MiB, for 4 million keys; the minimum is 24 KiB. Kafka:
	// log.cleaner.dedupe.buffer.size
	CompactionMemory int64

	Sync          SyncPolicy
	MaxBatchBytes int // maximum size of one batch, else ErrRecordTooLarge. 0 means 1048588. Kafka: max.message.bytes

	// Dir is the directory whose syncer, descriptors and lock the log shares. nil means that the
	// log is used alone and locks its own directory.
	Dir *Directory
	// Owner takes part in every append. nil means that the log has no owner.
	Owner Owner
	// Beside makes durable the files that the owner has put into dir, the directory of a new log.
	// The log itself syncs the directory's entries. Beside is called at least once, on any
	// goroutine, when the log waits for the disk for the first time. Nothing counts as durable
	// before it has returned nil; an error breaks the log. It must not use the log. nil means that
	// there are no such files.
	Beside func(dir string) error
	// Identity identifies the log wherever its directory is. It becomes part of the log's state, and
	// Open returns ErrOtherLog if the state has another one. 0 means none.
	Identity uint64
	// IdentityRequired makes Open return ErrOtherLog also for a state of this version without one.
	IdentityRequired bool
	// Known has bounds of the log that the owner keeps outside the log's directory. nil means none.
	Known *Known

	FS     vfs.FS       // nil means the file system of Dir, or the operating system's
	Logger *slog.Logger // nil discards everything
	Hooks  Hooks
}

// Hooks are functions that the log calls on events. They are called without locks and must not
// block.
type Hooks struct {
	OnRolled func(SegmentInfo) // called when a segment was closed and a new one is active
}

var (
	// ErrClosed is returned by every call on a closed log.
	ErrClosed = errors.New("log: closed")
	// ErrOffsetOutOfRange is returned for an offset below the start or above the end of the log,
	// and for an end outside of 0 to 2^63 - 2.
	ErrOffsetOutOfRange = errors.New("log: offset out of range")
	// ErrJournaled is returned if a log can only be opened through its Directory. The directory's
	// journal, which OpenDirectory replays, may have acknowledged records that the log's own files
	// lack.
	ErrJournaled = errors.New("log: the journal of the directory has to be replayed first")
	// ErrLocked is returned if the directory is open already, in this process or another.
	ErrLocked = errors.New("log: directory is in use")
	// ErrReadOnly is returned by changes of a log that OpenReadOnly opened.
	ErrReadOnly = errors.New("log: read-only")
	// ErrRecordTooLarge is returned for a batch that is larger than MaxBatchBytes, or than a
	// segment.
	ErrRecordTooLarge = errors.New("log: batch too large")
	// ErrInvalidBatch is returned if the bytes to append are not exactly one batch with at least
	// one record.
	ErrInvalidBatch = errors.New("log: not exactly one batch")
	// ErrNewerFormat is returned if a newer version wrote the directory's own files.
	ErrNewerFormat = errors.New("log: written by a newer version")
	// ErrOtherLog is returned if the directory has the files of another log: see Config.Identity.
	ErrOtherLog = errors.New("log: the directory has another log")
	// ErrStaleEpoch is returned for a leader epoch below the newest one of the log. Batches of
	// that epoch would count as damage after it.
	ErrStaleEpoch = errors.New("log: leader epoch is below the log's")
	// ErrMissingSegment is returned if a segment file is missing.
	ErrMissingSegment = errors.New("log: segment file is missing")
	// ErrCorrupt is matched by every *CorruptError.
	ErrCorrupt = segment.ErrCorrupt
)

// A CorruptError reports damage in a file. Path is the file, Pos the position in it, Offset the
// offset of the record expected there. It matches ErrCorrupt.
type CorruptError = segment.CorruptError

func (c Config) withDefaults() (Config, error) {
	var errs []error
	check := func(ok bool, name string, v any) {
		if !ok {
			errs = append(errs, fmt.Errorf("log: config %s: %v is out of range", name, v))
		}
	}
	check(c.SegmentBytes >= 0 && c.SegmentBytes <= math.MaxInt32, "SegmentBytes", c.SegmentBytes)
	check(c.SegmentAge >= 0, "SegmentAge", c.SegmentAge)
	check(c.SegmentJitter >= 0, "SegmentJitter", c.SegmentJitter)
	check(c.RetentionBytes >= Unlimited, "RetentionBytes", c.RetentionBytes)
	check(c.RetentionAge >= Unlimited, "RetentionAge", c.RetentionAge)
	check(c.MinDirtyRatio >= 0 && c.MinDirtyRatio <= 1, "MinDirtyRatio", c.MinDirtyRatio)
	check(c.MinCompactionLag >= 0, "MinCompactionLag", c.MinCompactionLag)
	check(c.MaxCompactionLag >= 0, "MaxCompactionLag", c.MaxCompactionLag)
	check(c.DeleteRetention >= 0, "DeleteRetention", c.DeleteRetention)
	check(c.DeleteDelay >= 0, "DeleteDelay", c.DeleteDelay)
	check(c.CompactionMemory >= 0, "CompactionMemory", c.CompactionMemory)
	check(c.MaxBatchBytes >= 0, "MaxBatchBytes", c.MaxBatchBytes)
	check(c.Sync >= SyncNever, "Sync", c.Sync)
	check(c.Cleanup <= CleanupDelete|CleanupCompact|CleanupNone, "Cleanup", c.Cleanup)
	check(c.IndexIntervalBytes >= 0, "IndexIntervalBytes", c.IndexIntervalBytes)
	check(c.IndexBytes >= 0, "IndexBytes", c.IndexBytes)
	if len(errs) > 0 {
		return c, errors.Join(errs...)
	}
	setDefault(&c.SegmentBytes, DefaultSegmentBytes)
	if c.SegmentAge == 0 && c.RetentionAge > 0 && c.Cleanup.Deletes() {
		c.SegmentAge = min(max(c.RetentionAge/8, time.Second), DefaultSegmentAge)
	}
	setDefault(&c.SegmentAge, DefaultSegmentAge)
	setDefault(&c.RetentionBytes, Unlimited)
	setDefault(&c.RetentionAge, DefaultRetentionAge)
	setDefault(&c.MinDirtyRatio, DefaultMinDirtyRatio)
	setDefault(&c.DeleteRetention, DefaultDeleteRetention)
	setDefault(&c.CompactionMemory, DefaultCompactionMemory)
	setDefault(&c.MaxBatchBytes, DefaultMaxBatchBytes)
	if c.FS == nil && c.Dir != nil {
		c.FS = c.Dir.fs
	}
	if c.FS == nil {
		c.FS = vfs.OS()
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c, nil
}

// segmentAge returns the age at which segments close: where records are compacted none may wait
// longer than MaxCompactionLag for that.
func (c *Config) segmentAge() time.Duration {
	if c.Cleanup.Compacts() && c.MaxCompactionLag > 0 {
		return min(c.SegmentAge, c.MaxCompactionLag)
	}
	return c.SegmentAge
}

func setDefault[T comparable](p *T, v T) {
	var zero T
	if *p == zero {
		*p = v
	}
}
