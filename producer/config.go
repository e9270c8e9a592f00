package producer

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"time"

	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/topic"
)

// NoRetries as Config.Retries sends every batch only once.
const NoRetries = -1

// NoWait as Config.MaxBlock makes calls fail immediately instead of waiting.
const NoWait time.Duration = -1

const (
	defaultBatchBytes      = 64 << 10
	defaultDeliveryTimeout = 2 * time.Minute
	defaultRequestTimeout  = 30 * time.Second
	defaultMaxBlock        = time.Minute
	defaultRetryBackoff    = 100 * time.Millisecond
	defaultRetryBackoffMax = time.Second
	defaultMaxBuffered     = 32 << 20
	defaultMaxRequest      = 1 << 20
	defaultMaxInFlight     = 5
	defaultTxnTimeout      = time.Minute
)

// maxExtended bounds a batch that grows while it waits. A topic with the default max.message.bytes
// accepts it.
const maxExtended = 1 << 20

// Config describes a producer. The zero Config is the safest: records are acknowledged by all
// in-sync replicas, idempotent, and retried.
type Config struct {
	// ClientID names the producer in its log lines, and in the quotas, metrics and logs of brokers
	// that are reached over a network (see Opener). Brokers in this process do not get it. Empty
	// means none. Kafka: client.id.
	ClientID string

	// Acks selects when a record counts as written. Any value except AcksAll disables idempotence.
	// Waiting for an acknowledgement adds latency: Stats.RequestLatency measures it,
	// examples/confirm shows it. AcksNone does not wait for any sync. Kafka: acks.
	Acks record.Acks

	// NoIdempotence disables producer id and sequence numbers: if an acknowledgement is lost and
	// the batch is sent again, it is in the log twice. Kafka: enable.idempotence=false.
	NoIdempotence bool

	// TransactionalID makes the producer transactional: it sends only in transactions, see Transact
	// and Begin. Only the producer that started last with this id can work; older ones are fenced.
	// The id must be stable across restarts of the process, and 1 to 32767 bytes long. It cannot be
	// combined with weaker Acks, NoIdempotence or NoRetries. Kafka: transactional.id.
	TransactionalID string

	// TransactionTimeout bounds a transaction's duration from its first write; then the coordinator
	// aborts it. Readers of committed records wait that long for a producer that crashed. 0 means 1
	// minute. It must be at least 1 ms and at most the cluster's limit (15 minutes by default).
	// Kafka: transaction.timeout.ms.
	TransactionTimeout time.Duration

	// Compression is the codec of batches. They are compressed on the goroutine that sends them.
	// Kafka: compression.type.
	Compression record.Codec

	// BatchBytes is the size before compression at which a batch is sent; a larger record gets its
	// own batch. 0 means 64 KiB, 1 means that every record has its own batch. Kafka's default is 16
	// KiB; larger batches here cost memory and time only if the load fills them.
	//
	// If even the fastest response of a leader took 2 ms, or the first one has not come after 2 ms,
	// a batch that waits for MaxInFlight others grows further, so that MaxInFlight does not limit
	// the throughput: up to 1 MiB, MaxRequestBytes, or the share of one batch in MaxBufferedBytes
	// if MaxInFlight others are as large. If the leader rejects a batch because of the topic's
	// max.message.bytes, the batch is split, and later ones of the partition stay smaller. Kafka:
	// batch.size.
	BatchBytes int

	// Linger is the time that an open batch waits for more records. 0 means no wait, see the
	// package comment. Kafka: linger.ms, whose default is 5.
	Linger time.Duration

	// DeliveryTimeout bounds the time from the acceptance of a record to its outcome, including
	// retries. 0 means 2 minutes. Kafka: delivery.timeout.ms.
	DeliveryTimeout time.Duration

	// RequestTimeout bounds one attempt. 0 means 30 seconds, or DeliveryTimeout minus Linger if
	// that is less. Kafka: request.timeout.ms.
	RequestTimeout time.Duration

	// MaxBlock bounds each wait of a call for metadata, a producer id or memory. 0 means 1 minute;
	// NoWait disables waiting. Kafka: max.block.ms.
	MaxBlock time.Duration

	// AllowUnknownTopics permits topics and partitions that do not exist yet. Calls wait for them,
	// up to MaxBlock. Records that were accepted for a topic that is then deleted wait for its
	// re-creation, up to DeliveryTimeout. Without it both fail immediately with ErrUnknownTopic.
	AllowUnknownTopics bool

	// NegativeTimestamps permits timestamps before 1970, for copies of other logs: -1 ms is Kafka's
	// mark of a record without one. Without it such records fail with ErrInvalidTimestamp, as in
	// Kafka's producer.
	NegativeTimestamps bool

	// Retries bounds the retries of one batch. 0 means as many as DeliveryTimeout permits.
	// NoRetries disables retries, and with them idempotence. Kafka: retries, where 0 means none and
	// 2147483647 unbounded.
	Retries int

	// RetryBackoff is the pause before the first retry. It doubles up to RetryBackoffMax, with a
	// random deviation of up to a fifth. A change of leader ends the pause. 0 means 100 ms and 1 s.
	// Kafka: retry.backoff.ms, retry.backoff.max.ms.
	RetryBackoff, RetryBackoffMax time.Duration

	// MaxInFlight bounds the batches in flight per partition. 0 means 5, the maximum with
	// idempotence, or 1 if the producer retries without idempotence: with more, a retried batch may
	// be written after its successors. Kafka: max.in.flight.requests.per.connection.
	MaxInFlight int

	// MaxRequestBytes bounds the size of a record before compression, and of batches that grow, see
	// BatchBytes. 0 means 1 MiB. Kafka: max.request.size.
	MaxRequestBytes int

	// MaxBufferedBytes bounds the records that are accepted and have no outcome yet. Send and
	// SendAsync wait for free memory. 0 means 32 MiB. Kafka: buffer.memory.
	MaxBufferedBytes int

	// Properties are settings by their Kafka names. New returns an error for an unknown name, and
	// for a setting that is also set as a field to another value.
	Properties map[string]string

	// Components. nil means the default.
	Partitioner topic.Partitioner // topic.Default(): hash of the key; without a key, round robin
	Logger      *slog.Logger      // discards everything
}

// settings is a Config with defaults filled in.
type settings struct {
	Config
	idempotent bool
	extendTo   int              // size up to which a batch that waits for MaxInFlight others grows
	aware      topic.BatchAware // the partitioner, if it is BatchAware
	byKey      topic.ByKey      // the partitioner, if it is ByKey
	plain      bool             // the default partitioner: not called for topics with one partition
}

// resolve checks c, fills in a copy and joins all errors.
func (c Config) resolve() (settings, error) {
	explicit, err := c.readProperties()
	errs := []error{err}
	bad := func(key string, value any, reason string) {
		errs = append(errs, &ConfigError{Key: key, Value: fmt.Sprint(value), Reason: reason})
	}
	if c.Acks < record.AcksAll || c.Acks > record.AcksNone {
		bad("Acks", int8(c.Acks), "must be AcksAll, AcksLeader or AcksNone")
	}
	if c.Compression > record.Zstd {
		bad("Compression", c.Compression, "no such codec")
	}
	s := settings{idempotent: !c.NoIdempotence && c.Acks == record.AcksAll && c.Retries >= 0}
	if explicit && !s.idempotent {
		bad("enable.idempotence", true, "needs acks=all and retries")
	}
	for _, n := range []struct {
		name  string
		value int64
		least int64
	}{
		{"BatchBytes", int64(c.BatchBytes), 0}, {"Linger", int64(c.Linger), 0}, {"DeliveryTimeout", int64(c.DeliveryTimeout), 0},
		{"RequestTimeout", int64(c.RequestTimeout), 0}, {"MaxBlock", int64(c.MaxBlock), int64(NoWait)}, {"Retries", int64(c.Retries), NoRetries},
		{"RetryBackoff", int64(c.RetryBackoff), 0}, {"RetryBackoffMax", int64(c.RetryBackoffMax), 0}, {"MaxInFlight", int64(c.MaxInFlight), 0},
		{"MaxRequestBytes", int64(c.MaxRequestBytes), 0}, {"MaxBufferedBytes", int64(c.MaxBufferedBytes), 0},
	} {
		if n.value < n.least {
			bad(n.name, n.value, "must not be negative")
		}
	}
	if c.TransactionalID != "" && !s.idempotent {
		bad("TransactionalID", c.TransactionalID, "needs AcksAll, idempotence and retries")
	}
	for _, id := range [][2]string{{"ClientID", c.ClientID}, {"TransactionalID", c.TransactionalID}} {
		if len(id[1]) > math.MaxInt16 {
			bad(id[0], id[1][:20]+"...", "is longer than 32767 bytes")
		}
	}
	switch {
	case c.TransactionTimeout != 0 && c.TransactionalID == "":
		bad("TransactionTimeout", c.TransactionTimeout, "needs a TransactionalID")
	case c.TransactionTimeout != 0 && c.TransactionTimeout < time.Millisecond, c.TransactionTimeout > math.MaxInt32*time.Millisecond:
		bad("TransactionTimeout", c.TransactionTimeout, "must be from 1 ms to 2147483647 ms")
	}
	if s.idempotent && c.MaxInFlight > defaultMaxInFlight {
		bad("MaxInFlight", c.MaxInFlight, "must be at most 5 with idempotence")
	}
	if c.RequestTimeout > 0 && c.DeliveryTimeout > 0 && c.DeliveryTimeout < c.Linger+c.RequestTimeout {
		bad("DeliveryTimeout", c.DeliveryTimeout, "must be at least Linger + RequestTimeout")
	}
	if c.DeliveryTimeout > 0 && c.DeliveryTimeout <= c.Linger {
		bad("DeliveryTimeout", c.DeliveryTimeout, "must be more than Linger")
	}
	if err := errors.Join(errs...); err != nil {
		return settings{}, err
	}
	c.fillIn(s.idempotent)
	s.aware, _ = c.Partitioner.(topic.BatchAware)
	if c.Partitioner == nil {
		c.Partitioner, s.plain = topic.Default(), true
	}
	s.byKey, _ = c.Partitioner.(topic.ByKey)
	if c.BatchBytes > 1 { // else each record has its own batch
		s.extendTo = min(c.MaxRequestBytes, c.MaxBufferedBytes/(c.MaxInFlight+1), maxExtended)
	}
	s.Config = c
	return s, nil
}

// fillIn replaces zeroes with defaults.
func (c *Config) fillIn(idempotent bool) {
	orDefault(&c.BatchBytes, defaultBatchBytes)
	orDefault(&c.MaxBlock, defaultMaxBlock)
	orDefault(&c.TransactionTimeout, defaultTxnTimeout)
	orDefault(&c.RetryBackoff, defaultRetryBackoff)
	orDefault(&c.RetryBackoffMax, max(defaultRetryBackoffMax, c.RetryBackoff))
	orDefault(&c.MaxRequestBytes, defaultMaxRequest)
	orDefault(&c.MaxBufferedBytes, defaultMaxBuffered)
	if !idempotent && c.Retries != NoRetries && c.Acks != record.AcksNone {
		orDefault(&c.MaxInFlight, 1)
	}
	orDefault(&c.MaxInFlight, defaultMaxInFlight)
	if c.DeliveryTimeout > 0 {
		orDefault(&c.RequestTimeout, min(defaultRequestTimeout, c.DeliveryTimeout-c.Linger))
	}
	orDefault(&c.RequestTimeout, defaultRequestTimeout)
	orDefault(&c.DeliveryTimeout, max(defaultDeliveryTimeout, c.Linger+c.RequestTimeout))
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.ClientID != "" {
		c.Logger = c.Logger.With(slog.String("client_id", c.ClientID))
	}
}

func orDefault[T comparable](field *T, def T) {
	var zero T
	if *field == zero {
		*field = def
	}
}
