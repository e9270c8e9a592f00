package partition

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/stratalog/strata/log"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/vfs"
)

// Config describes a partition. The zero Config is valid.
type Config struct {
	// Log has the settings of the log. Its Owner is set by the partition. Its MaxBatchBytes,
	// SegmentBytes and Cleanup also determine which batches are accepted.
	Log log.Config

	// Topic and Partition name the partition in errors and log lines.
	Topic     string
	Partition int32

	// TopicID is stored in the file partition.metadata; Open rejects a directory of another topic.
	// Zero means that there is no such file.
	TopicID [16]byte

	// TimestampType selects the producer's time or the time of the append as the records'
	// timestamp. Kafka: message.timestamp.type.
	TimestampType record.TimestampType

	// TimestampBeforeMax and TimestampAfterMax limit how far a record's timestamp may be behind and
	// ahead of the leader's clock. 0 means Kafka's defaults: any age, and 1 hour ahead.
	// log.Unlimited means no limit. They are not used with LogAppendTime. Kafka:
	// message.timestamp.before.max.ms, message.timestamp.after.max.ms.
	TimestampBeforeMax, TimestampAfterMax time.Duration

	// Compression selects the codec of stored batches. Kafka: compression.type.
	Compression Compression

	// ProducerIDExpiration is the time for which the state of an idempotent producer is kept after
	// its last batch. A producer with an open transaction does not expire. A producer that returns
	// after it has expired may begin with any sequence, and is not protected from duplicates of its
	// earlier batches. 0 means 24 hours. Kafka: producer.id.expiration.ms.
	ProducerIDExpiration time.Duration

	// MinInSync is the number of replicas that must be in sync for an append with AcksAll, and for
	// the high watermark to advance. If the partition has fewer replicas, all of them must be in
	// sync. 0 means 1. Kafka: min.insync.replicas.
	MinInSync int

	// MaxLag is the time after which a follower is out of sync if it still lacks a record that its
	// leader had then. 0 means 30 seconds. Kafka: replica.lag.time.max.ms.
	MaxLag time.Duration

	// HighWatermark is a lower bound of the high watermark, saved before the replica was closed.
	// Open uses it up to the log end offset. 0 means unknown.
	HighWatermark int64

	// Verify requests from the transaction coordinator whether the partition is in a transaction,
	// before the first write of the transaction is appended. Without that check, the write could be
	// appended after the transaction's marker, and its transaction would stay open for ever. Verify
	// is called without locks and must not block. nil means that producers are trusted. Kafka:
	// transaction.partition.verification.enable.
	Verify func(TxnQuestion)

	// Durable is called when bytes of the log have reached stable storage. It is called without
	// locks, on any goroutine, and must not block. nil means no call.
	Durable func()

	// Damaged is called with the error of a read, an append or another operation that has met
	// damaged bytes of the log. The error has a *log.CorruptError. It is called without locks, on any
	// goroutine, and must not block. nil means no call.
	Damaged func(error)

	// Logger receives log messages; nil discards them.
	Logger *slog.Logger
}

// A Compression determines the codec of stored batches: the producer's or the topic's.
type Compression uint8

// KeepCompression stores batches with the codec that the producer used, byte for byte. It is the
// default. Kafka: producer.
const KeepCompression Compression = 0

// CompressWith stores every batch with codec c; batches with another codec are encoded again.
// record.None stores them uncompressed.
func CompressWith(c record.Codec) Compression { return Compression(c) + 1 }

// codec returns the codec that was passed to CompressWith.
func (c Compression) codec() (record.Codec, bool) { return record.Codec(c - 1), c != KeepCompression }

const (
	defaultTimestampAfterMax    = time.Hour
	defaultProducerIDExpiration = 24 * time.Hour
	defaultMaxLag               = 30 * time.Second
)

// withDefaults sets zero fields to their defaults.
func (c Config) withDefaults() (Config, error) {
	var errs []error
	if c.TimestampBeforeMax < log.Unlimited || c.TimestampAfterMax < log.Unlimited || c.ProducerIDExpiration < 0 || c.MaxLag < 0 {
		errs = append(errs, errors.New("partition: negative duration"))
	}
	if codec, ok := c.Compression.codec(); ok && codec > record.Zstd {
		errs = append(errs, fmt.Errorf("partition: unknown codec %d", codec))
	}
	if c.TimestampType > record.LogAppendTime {
		errs = append(errs, fmt.Errorf("partition: unknown timestamp type %d", c.TimestampType))
	}
	c.TimestampBeforeMax = cmp.Or(c.TimestampBeforeMax, log.Unlimited)
	c.TimestampAfterMax = cmp.Or(c.TimestampAfterMax, defaultTimestampAfterMax)
	if c.MinInSync < 0 {
		errs = append(errs, errors.New("partition: negative number of in-sync replicas"))
	}
	c.MinInSync, c.MaxLag = cmp.Or(c.MinInSync, 1), cmp.Or(c.MaxLag, defaultMaxLag)
	c.ProducerIDExpiration = cmp.Or(c.ProducerIDExpiration, defaultProducerIDExpiration)
	c.Log.MaxBatchBytes = cmp.Or(c.Log.MaxBatchBytes, log.DefaultMaxBatchBytes)
	c.Log.SegmentBytes = cmp.Or(c.Log.SegmentBytes, log.DefaultSegmentBytes)
	if c.Log.FS == nil {
		c.Log.FS = vfs.OS()
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Log.Logger == nil {
		c.Log.Logger = c.Logger
	}
	return c, errors.Join(errs...)
}
