package topic

import (
	"math"
	"time"

	"github.com/stratalog/strata/log"
	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/record"
)

// Partition returns base with the topic's settings filled in. base holds the settings of the
// broker: file system, directory, logger, hooks.
//
// A zero field of base means the default. Where Kafka's 0 means zero, the smallest value with the
// same effect is filled in.
func (s Settings) Partition(base partition.Config) partition.Config {
	c := base
	c.Log.IndexBytes = int(s.num("segment.index.bytes"))
	c.Log.IndexIntervalBytes = int(max(s.num("index.interval.bytes"), 1))
	c.Log.SegmentBytes = s.segmentBytes()
	c.Log.SegmentAge = s.duration("segment.ms")
	c.Log.SegmentJitter = s.duration("segment.jitter.ms")
	c.Log.RetentionBytes = atLeastOne(s.num("retention.bytes"))
	c.Log.RetentionAge = positive(s.num("retention.ms"))
	c.Log.Cleanup = s.cleanup()
	c.Log.MinDirtyRatio = s.parsed("min.cleanable.dirty.ratio").f
	if c.Log.MinDirtyRatio == 0 {
		c.Log.MinDirtyRatio = math.SmallestNonzeroFloat64
	}
	c.Log.MinCompactionLag = s.duration("min.compaction.lag.ms")
	c.Log.MaxCompactionLag = s.duration("max.compaction.lag.ms")
	c.Log.DeleteRetention = max(s.duration("delete.retention.ms"), time.Nanosecond)
	c.Log.DeleteDelay = s.duration("file.delete.delay.ms")
	c.Log.MaxBatchBytes = int(max(s.num("max.message.bytes"), 1))
	c.Log.Sync = s.SyncPolicy()
	c.MinInSync = int(s.num("min.insync.replicas"))
	c.TimestampType = record.CreateTime
	if s.parsed("message.timestamp.type").s == "LogAppendTime" {
		c.TimestampType = record.LogAppendTime
	}
	c.TimestampBeforeMax = positive(s.num("message.timestamp.before.max.ms"))
	c.TimestampAfterMax = positive(s.num("message.timestamp.after.max.ms"))
	c.Compression = compressions[s.parsed("compression.type").s]
	return c
}

var compressions = map[string]partition.Compression{
	"producer":     partition.KeepCompression,
	"uncompressed": partition.CompressWith(record.None),
	"gzip":         partition.CompressWith(record.Gzip),
	"snappy":       partition.CompressWith(record.Snappy),
	"lz4":          partition.CompressWith(record.LZ4),
	"zstd":         partition.CompressWith(record.Zstd),
}

// SyncPolicy returns the policy that results from flush.messages and flush.ms: SyncOnAck if neither
// is set, else Kafka's meaning of both. A flush.messages below Kafka's default becomes SyncOnAck,
// which is at least as strict.
func (s Settings) SyncPolicy() log.SyncPolicy {
	ms := s.num("flush.ms")
	switch {
	case s.num("flush.messages") != math.MaxInt64 || ms == 0:
		return log.SyncOnAck
	case ms == math.MaxInt64:
		return log.SyncNever
	}
	return log.SyncInterval(millis(ms))
}

func (s Settings) cleanup() log.CleanupPolicy {
	var p log.CleanupPolicy
	if s.Compacted() {
		p |= log.CleanupCompact
	}
	if s.Deleted() {
		p |= log.CleanupDelete
	}
	if p == 0 {
		return log.CleanupNone
	}
	return p
}

// positive is a number of milliseconds as a duration where 0 would mean the default: 0 becomes a
// nanosecond, negative log.Unlimited.
func positive(ms int64) time.Duration {
	switch {
	case ms < 0 || ms == math.MaxInt64:
		return log.Unlimited
	case ms == 0:
		return time.Nanosecond
	}
	return millis(ms)
}

// atLeastOne is a number of bytes where 0 would mean the default.
func atLeastOne(n int64) int64 {
	if n < 0 {
		return log.Unlimited
	}
	return max(n, 1)
}
