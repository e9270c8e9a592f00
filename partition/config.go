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
	// Log holds the settings of the layer below. Its Owner is set by the partition; its
	// MaxBatchBytes, SegmentBytes and Cleanup also decide which batches are taken.
	Log log.Config

	// Topic and Partition name the partition in errors and log lines.
	Topic     string
	Partition int32

	// TopicID is kept in the file partition.metadata; Open refuses a directory of another topic.
	// Zero: no such file.
	TopicID [16]byte

	// TimestampType says whether the records keep the time of their producer or get that of the
	// append. Kafka: message.timestamp.type.
	TimestampType record.TimestampType

	// TimestampBeforeMax and TimestampAfterMax bound how far the time of a record may lie behind
	// and ahead of the leader's clock. 0 means Kafka's defaults: any age, and 1 hour ahead.
	// log.Unlimited means any distance. Not used with LogAppendTime. Kafka:
	// message.timestamp.before.max.ms, message.timestamp.after.max.ms.
	TimestampBeforeMax, TimestampAfterMax time.Duration

	// Compression is what batches are stored with. Kafka: compression.type.
	Compression Compression

	// ProducerIDExpiration is how long the state of an idempotent producer is kept after its last
	// batch; one with an open transaction is kept on. A producer that returns later may begin with
	// any sequence, and is not protected from duplicates of what it wrote before. 0 means 24 hours.
	// Kafka: producer.id.expiration.ms.
	ProducerIDExpiration time.Duration

	// MinInSync is how many replicas must be in sync for an append that wants all acknowledgements,
	// and for the high watermark to move; of a partition of fewer replicas all of them. 0 means 1.
	// Kafka: min.insync.replicas.
	MinInSync int

	// MaxLag is how long a follower may lack what its leader had before it is out of sync. 0 means
	// 30 seconds. Kafka: replica.lag.time.max.ms.
	MaxLag time.Duration

	// HighWatermark is what it was known to be when the replica was closed, or some time before: a
	// lower bound. Open takes it as far as the log goes. 0: unknown.
	HighWatermark int64

	// Verify asks the coordinator of a transaction whether the partition is in it, before the first
	// write of the transaction is appended: else that could come behind the transaction's marker,
	// and stay open for ever. It is called without locks held and must not block. nil: who produces
	// is trusted. Kafka: transaction.partition.verification.enable.
	Verify func(TxnQuestion)

	// Logger: nil discards.
	Logger *slog.Logger
}

// Compression says how batches are stored: as the producer sent them, or with a codec of the
// topic's own.
type Compression uint8

// KeepCompression stores batches with the codec the producer chose, byte for byte. It is the
// default. Kafka: producer.
const KeepCompression Compression = 0

// CompressWith stores every batch with codec c; those that come with another are encoded anew.
// record.None stores them uncompressed.
func CompressWith(c record.Codec) Compression { return Compression(c) + 1 }

// codec returns what CompressWith was given.
func (c Compression) codec() (record.Codec, bool) { return record.Codec(c - 1), c != KeepCompression }

const (
	defaultTimestampAfterMax    = time.Hour
	defaultProducerIDExpiration = 24 * time.Hour
	defaultMaxLag               = 30 * time.Second
)

// withDefaults fills in what is zero.
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
