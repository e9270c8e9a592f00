package log

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"time"

	"github.com/stratalog/strata/segment"
	"github.com/stratalog/strata/vfs"
)

// Unlimited switches a limit off where 0 means a default.
const Unlimited = -1

// A SyncPolicy says when appended records are on stable storage. The zero value is the safest.
type SyncPolicy time.Duration

const (
	// SyncOnAck acknowledges an append when it survives power loss. Many waiting appends share one
	// fsync.
	SyncOnAck SyncPolicy = 0
	// SyncNever leaves it to the operating system; an acknowledged append survives a killed
	// process. Kafka's default.
	SyncNever SyncPolicy = -1
)

// SyncInterval syncs d after the first append that was not synced: a power cut loses at most what
// the last d brought. d below 1 ms counts as 1 ms. Kafka: flush.ms.
func SyncInterval(d time.Duration) SyncPolicy { return SyncPolicy(max(d, time.Millisecond)) }

// Interval returns the d of SyncInterval, 0 for the other policies.
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

// A CleanupPolicy says what Clean does with old records. Kafka: cleanup.policy.
type CleanupPolicy uint8

const (
	// CleanupDelete removes whole segments by age and size; the zero value means this too.
	CleanupDelete CleanupPolicy = 1 << iota
	// CleanupCompact keeps the last record of each key. May be combined with CleanupDelete.
	CleanupCompact
	// CleanupNone: only DeleteRecords removes anything.
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
	Segment segment.Config // FS, Files and ReadOnly of it are set by the log

	// SegmentBytes: a segment that would grow beyond it is closed. 0: 1 GiB; up to 2^31-1. Kafka:
	// segment.bytes.
	SegmentBytes int64
	// SegmentAge: so is one whose first record is that much older than the one to append. 0: 7
	// days. Kafka: segment.ms.
	SegmentAge time.Duration
	// SegmentJitter: up to so much less than SegmentAge, chosen per segment. Kafka:
	// segment.jitter.ms.
	SegmentJitter time.Duration
	// RetentionBytes: closed segments are removed while the log stays at or above this. 0: no
	// limit. Kafka: retention.bytes.
	RetentionBytes int64
	// RetentionAge: closed segments are removed this long after their newest record. 0: 7 days;
	// Unlimited: never. Kafka: retention.ms.
	RetentionAge time.Duration

	Cleanup CleanupPolicy
	// MinDirtyRatio of not yet compacted bytes, above which Clean compacts. 0: 0.5. Kafka:
	// min.cleanable.dirty.ratio.
	MinDirtyRatio float64
	// MinCompactionLag: records younger than this are not compacted. Kafka: min.compaction.lag.ms.
	MinCompactionLag time.Duration
	// MaxCompactionLag: records older than this are compacted whatever the ratio. 0: no such bound.
	// Kafka: max.compaction.lag.ms.
	MaxCompactionLag time.Duration
	// DeleteRetention is how long compaction keeps tombstones and markers. 0: 24 h. Kafka:
	// delete.retention.ms.
	DeleteRetention time.Duration

	// DeleteDelay is how long the .log file of a segment that was removed, by Clean or a
	// truncation, stays on disk under a name ending in .deleted. 0: until its last reader has left.
	// The next open deletes what a closed log has left. Kafka: file.delete.delay.ms
	DeleteDelay time.Duration

	// CompactionMemory bounds the table of keys of a compaction: 24 bytes for each different key,
	// whatever its length, at three quarters full. With more keys than fit, Clean compacts as far
	// as it gets, and the next one goes on there. The table begins small. 0: 128 MiB, which is 4
	// million keys; at least 24 KiB. Kafka: log.cleaner.dedupe.buffer.size
	CompactionMemory int64

	Sync          SyncPolicy
	MaxBatchBytes int // of one batch: ErrRecordTooLarge above. 0: 1048588. Kafka: max.message.bytes

	// Dir is the directory whose syncer, descriptors and lock the log shares. nil: the log is alone
	// and locks its own directory.
	Dir *Directory
	// Owner takes part in every append. nil: nobody.
	Owner Owner
	// Beside makes durable what the owner has put into dir, the directory of a new log, but for the
	// directory's entries, which the log syncs. It is called once or more, by any goroutine, while
	// the log waits for the disk for the first time, and nothing is called durable before it has
	// returned nil; an error breaks the log. It uses no method of the log. nil: there is nothing.
	Beside func(dir string) error

	FS     vfs.FS       // nil: that of Dir, or the operating system's
	Logger *slog.Logger // nil discards everything
	Hooks  Hooks
}

// Hooks tell about events. They are called without locks and must not block.
type Hooks struct {
	OnRolled func(SegmentInfo) // a segment was closed, a new one takes the appends
}

var (
	// ErrClosed is returned by every call on a closed log.
	ErrClosed = errors.New("log: closed")
	// ErrOffsetOutOfRange says that an offset is below the start or above the end of the log, or no
	// end that a log can have: 0 to 2^63 - 2.
	ErrOffsetOutOfRange = errors.New("log: offset out of range")
	// ErrJournaled says that a log can only be opened through its Directory: the directory's
	// journal, which OpenDirectory replays, may hold acknowledged records that the log's own files
	// lack.
	ErrJournaled = errors.New("log: the journal of the directory has to be replayed first")
	// ErrLocked says that somebody else, in this process or another, has the directory open.
	ErrLocked = errors.New("log: directory is in use")
	// ErrReadOnly is returned by changes to a log that OpenReadOnly opened.
	ErrReadOnly = errors.New("log: read-only")
	// ErrRecordTooLarge says that a batch is larger than MaxBatchBytes, or than a segment.
	ErrRecordTooLarge = errors.New("log: batch too large")
	// ErrInvalidBatch says that the bytes to append are not exactly one batch with at least one
	// record.
	ErrInvalidBatch = errors.New("log: not exactly one batch")
	// ErrNewerFormat says that a newer version wrote the directory's own files.
	ErrNewerFormat = errors.New("log: written by a newer version")
	// ErrStaleEpoch says that a leader epoch is below one that the log has recorded: behind that,
	// its batches would be damage.
	ErrStaleEpoch = errors.New("log: leader epoch below that of the log")
	// ErrMissingSegment says that a segment file that was there is gone.
	ErrMissingSegment = errors.New("log: segment file is missing")
	// ErrCorrupt is matched by every *CorruptError.
	ErrCorrupt = segment.ErrCorrupt
)

// CorruptError is segment.CorruptError: what is damaged, and where.
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
	check(c.Segment.IndexIntervalBytes >= 0, "Segment.IndexIntervalBytes", c.Segment.IndexIntervalBytes)
	check(c.Segment.IndexBytes >= 0, "Segment.IndexBytes", c.Segment.IndexBytes)
	if len(errs) > 0 {
		return c, errors.Join(errs...)
	}
	setDefault(&c.SegmentBytes, DefaultSegmentBytes)
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
