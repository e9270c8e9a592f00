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

// NoRetries as Config.Retries: every batch is tried once.
const NoRetries = -1

// NoWait as Config.MaxBlock: what would have to wait fails at once.
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

// Config describes a producer. The zero Config is the safest: acknowledged by all in-sync replicas,
// idempotent, retried.
type Config struct {
	// Acks says when a record counts as written. Anything but AcksAll switches idempotence off.
	// Kafka: acks. Waiting for an acknowledgement costs latency: Stats.RequestLatency tells how
	// much, examples/confirm shows it. AcksNone does not wait for any sync.
	Acks record.Acks

	// NoIdempotence leaves out producer id and sequence numbers: a batch whose acknowledgement was
	// lost and that is sent again is in the log twice. Kafka: enable.idempotence=false.
	NoIdempotence bool

	// TransactionalID makes the producer transactional: it sends in transactions only, see Transact
	// and Begin. Of all producers with this id one works, the last to begin: the others are fenced.
	// It must name a place in the application that outlives the process, 1 to 32767 bytes long.
	// Weaker Acks, NoIdempotence and NoRetries are errors then. Kafka: transactional.id.
	TransactionalID string

	// TransactionTimeout is how long a transaction may take from its first write on; then the
	// coordinator aborts it. Readers of committed records wait as long for a producer that has
	// died. 0 means 1 minute; at least 1 ms, at most what the cluster allows (15 minutes unless it
	// is configured otherwise). Kafka: transaction.timeout.ms.
	TransactionTimeout time.Duration

	// Compression of batches, on the goroutine that sends them. Kafka: compression.type.
	Compression record.Codec

	// BatchBytes is the size that a batch may grow to before compression; a larger record has a
	// batch of its own. 0 means 64 KiB (Kafka's client: 16 KiB; here larger batches cost neither
	// memory nor time unless the load fills them). Kafka: batch.size.
	BatchBytes int

	// Linger is how long an open batch waits for more records. 0: not at all, see the package
	// comment. Kafka: linger.ms, 5 by default there.
	Linger time.Duration

	// DeliveryTimeout bounds the time from a record being accepted to its outcome, retries
	// included. 0 means 2 minutes. Kafka: delivery.timeout.ms.
	DeliveryTimeout time.Duration

	// RequestTimeout bounds one attempt. 0 means 30 seconds, or what Linger leaves of
	// DeliveryTimeout if that is less. Kafka: request.timeout.ms.
	RequestTimeout time.Duration

	// MaxBlock bounds how long a call waits for metadata, a producer id or memory, each; 0 means 1
	// minute, NoWait not at all. Kafka: max.block.ms.
	MaxBlock time.Duration

	// AllowUnknownTopics says that a topic or partition that does not exist may come later: calls
	// wait for it, up to MaxBlock, and records that were accepted for a topic that is then deleted
	// wait for it to be created again, up to DeliveryTimeout. Otherwise both fail at once with
	// ErrUnknownTopic.
	AllowUnknownTopics bool

	// Retries bounds the repetitions of one batch. 0: as many as DeliveryTimeout allows; NoRetries:
	// none, which switches idempotence off. Kafka: retries, where 0 means none and 2147483647
	// unbounded.
	Retries int

	// RetryBackoff is the pause before the first repetition; it doubles each time up to
	// RetryBackoffMax, give or take a fifth at random. A change of the leader ends the pause. 0
	// means 100 ms and 1 s. Kafka: retry.backoff.ms, retry.backoff.max.ms.
	RetryBackoff, RetryBackoffMax time.Duration

	// MaxInFlight bounds the batches of one partition that are under way at once. 0 means 5, the
	// most with idempotence, or 1 if the producer retries without being idempotent: with more a
	// batch sent again may come after its successors. Kafka: max.in.flight.requests.per.connection.
	MaxInFlight int

	// MaxRequestBytes bounds a record, before compression. 0 means 1 MiB. Kafka: max.request.size.
	MaxRequestBytes int

	// MaxBufferedBytes bounds the records accepted but not settled; Send and SendAsync wait for
	// room. 0 means 32 MiB. Kafka: buffer.memory.
	MaxBufferedBytes int

	// Properties are settings under their Kafka names. One that is also set above, to something
	// else, is an error, and so is an unknown name.
	Properties map[string]string

	// Components. nil means the default.
	Partitioner topic.Partitioner // topic.Default(): hash of the key, else in turn
	Logger      *slog.Logger      // discards everything
}

// settings is a Config with everything filled in.
type settings struct {
	Config
	idempotent bool
	aware      topic.BatchAware // the partitioner, if it goes by batches
	byKey      topic.ByKey      // the partitioner, if it goes by keys
	plain      bool             // the default partitioner: not asked when there is one partition
}

// resolve checks c, fills in a copy and joins every complaint.
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
	if len(c.TransactionalID) > math.MaxInt16 {
		bad("TransactionalID", c.TransactionalID[:20]+"...", "is longer than 32767 bytes")
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
}

func orDefault[T comparable](field *T, def T) {
	var zero T
	if *field == zero {
		*field = def
	}
}
