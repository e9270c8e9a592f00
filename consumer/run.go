package consumer

import (
	"context"
	"errors"
	"runtime"
	"time"

	"github.com/stratalog/strata/record"
)

// A Handler processes one record. A nil error marks it as processed. After an error, Run calls it
// again as RunConfig specifies, except for Permanent errors. A panic becomes a *HandlerPanicError.
//
// ctx has the values of Run's context and the number of the call (Attempt). It is not cancelled
// with Run's context, so that an active handler may finish. It is cancelled with one of these
// causes:
//
//   - ErrRebalanced: the record's partition belongs to another member. If a handler took longer
//     than MaxPollInterval, the cause also matches ErrPollTimeout.
//   - ErrAttemptTimeout: AttemptTimeout has passed.
//   - ErrDrainTimeout: Run has ended and DrainTimeout has nearly passed.
//
// The record aliases fetched memory that is garbage collected: it may be kept, read-only.
type Handler func(ctx context.Context, r record.Record) error

// A BatchHandler processes records of one partition (ByKey: of one key) in offset order: at least
// one, at most RunConfig.BatchSize. It owns rs. A nil error marks all of them as processed, a
// *BatchError a prefix.
//
// After any other error, Permanent errors and panics included, none counts as processed. The failed
// record is then unknown, so each record is immediately handed out alone. That is not a retry:
// RunConfig.Retries, RetryTopics and DeadLetter apply to records that failed alone or were named by
// a *BatchError. The context is as for Handler.
type BatchHandler func(ctx context.Context, rs []record.Record) error

// RunOrder selects which records are processed one after the other.
type RunOrder uint8

const (
	ByPartition RunOrder = iota // the records of a partition, in offset order
	// ByKey processes the records of a key in a partition in offset order. Records without a key
	// are ordered by partition.
	ByKey
)

// Defaults of RunConfig.
const (
	DefaultMaxInFlight  = 1000
	DefaultMinBackoff   = 100 * time.Millisecond
	DefaultMaxBackoff   = 10 * time.Second
	DefaultDrainTimeout = 30 * time.Second
	DefaultBatchSize    = 500
)

// RunConfig describes a Run. The zero RunConfig is valid.
type RunConfig struct {
	Workers int      // goroutines that run the handler. 0: GOMAXPROCS
	Order   RunOrder // ByPartition
	// MaxInFlight bounds the records of a partition that are handed to workers and not done. At the
	// bound, the partition is not fetched. 0: 1000
	MaxInFlight int
	BatchSize   int // most records of a RunBatches call; capped at MaxInFlight. 0: 500

	// AttemptTimeout bounds one call of the handler; then its context is cancelled. 0 means no
	// bound except MaxPollInterval, after which the member loses its partitions.
	AttemptTimeout time.Duration
	// Retries is the number of further calls for a record whose handler failed. The delay starts at
	// MinBackoff (0: 100 ms) and doubles up to MaxBackoff (0: 10 s), with jitter. 0 means no retry.
	// Later records in its order wait; workers do not.
	Retries                int
	MinBackoff, MaxBackoff time.Duration
	// RetryTopics receive a record that failed 1+Retries times, so that later records continue.
	// nil: the record has failed for good.
	RetryTopics *RetryTopics
	// DeadLetter is called for a record that failed for good. If it returns nil, the record counts
	// as processed. If it returns an error, or is nil, Run ends with the handler's error. A panic
	// or runtime.Goexit in it is treated as an error, as in a handler. It runs on its own
	// goroutine. Its context is the handler's, without AttemptTimeout. DeadLetterTopic returns such
	// a function.
	DeadLetter func(ctx context.Context, r record.Record, err error) error

	// DrainTimeout bounds the wait for active handlers when a partition is revoked and when Run
	// ends. In its last tenth (at most one second) their contexts are cancelled. 0 means 30 s.
	DrainTimeout time.Duration
}

func (c RunConfig) withDefaults() (RunConfig, error) {
	if c.Workers < 0 || c.MaxInFlight < 0 || c.BatchSize < 0 || c.AttemptTimeout < 0 || c.Retries < 0 ||
		c.MinBackoff < 0 || c.MaxBackoff < 0 || c.DrainTimeout < 0 || c.Order > ByKey {
		return c, &ConfigError{"RunConfig", "a number is negative, or the order is unknown"}
	}
	if err := c.RetryTopics.check(); err != nil {
		return c, err
	}
	setDefault(&c.Workers, runtime.GOMAXPROCS(0))
	setDefault(&c.MaxInFlight, DefaultMaxInFlight)
	setDefault(&c.BatchSize, DefaultBatchSize)
	setDefault(&c.MinBackoff, DefaultMinBackoff)
	setDefault(&c.MaxBackoff, max(DefaultMaxBackoff, c.MinBackoff))
	setDefault(&c.DrainTimeout, DefaultDrainTimeout)
	return c, nil
}

// Run processes records with a pool of workers. It ends when ctx is done or after Wakeup or Close
// (nil), when a record fails for good (its *PartitionError), or when the group rejects the member.
//
// Records may complete in any order. A partition's processed offset is the end of the contiguous
// prefix of completed records, so no record is skipped. CommitProcessed commits that offset. Within
// Order, a record is handed out when the one before it is done, sent to a retry topic, or
// dead-lettered. After Seek, the outcomes of active handlers of that partition are ignored. Records
// at the new position wait until these handlers have returned.
//
// When a partition is revoked or Run ends, queued records and those waiting for another attempt are
// dropped immediately. Active handlers get DrainTimeout to finish, and Run returns within it. If a
// handler ignores its cancelled context, Run returns without waiting for it: the error is
// ErrDrainTimeout and names the records. Records that were not completed are handed out again by
// the next poll or to the next member.
//
// If a single handler call takes longer than MaxPollInterval, a group member loses its partitions:
// it leaves, so that other members continue, and joins again when that handler has returned. The
// record of the late call is not committed, a Commit in it returns ErrRebalanced, and the next
// owner of the partition reads the record again.
//
// Close during Run waits for Run to end as above, commits completed records and leaves the group.
// Shutdown shortens the wait when its context ends. Called from a handler, both return immediately,
// and the consumer is closed when Run has ended.
func (c *Consumer) Run(ctx context.Context, h Handler, cfg RunConfig) error {
	cfg.BatchSize = 1
	return c.run(ctx, &runner{handle: h, cfg: cfg})
}

// RunBatches is Run for a handler that takes all waiting records of its order, up to BatchSize.
// Attempt returns the number of the call for the first of them.
func (c *Consumer) RunBatches(ctx context.Context, h BatchHandler, cfg RunConfig) error {
	return c.run(ctx, &runner{handleBatch: h, cfg: cfg})
}

func (c *Consumer) run(ctx context.Context, r *runner) (err error) {
	if r.cfg, err = r.cfg.withDefaults(); err != nil {
		return err
	}
	if c.cfg.Commit == CommitBeforeDelivery {
		return &ConfigError{"Commit", "CommitBeforeDelivery loses what workers have in hand in any order: use Records or Poll"}
	}
	if err := c.startPolling(true); err != nil {
		return err
	}
	defer c.stopPolling()
	r.start(ctx, c)
	defer context.AfterFunc(ctx, r.end)()
	defer context.AfterFunc(ctx, c.lookUp)()
	c.setRunner(r)
	defer func() { // also if a callback panics or calls runtime.Goexit: no worker stays behind
		if stuck := r.stop(); stuck != nil {
			err = errors.Join(err, stuck)
		}
		c.setRunner(nil)
	}()
	err = r.dispatch(ctx)
	if failed := r.err(); failed != nil {
		err = failed
	} else if c.quiet(ctx, err) {
		err = nil
	}
	return err
}

func (c *Consumer) setRunner(r *runner) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.runner = r
}
