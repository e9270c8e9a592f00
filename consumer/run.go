package consumer

import (
	"context"
	"errors"
	"runtime"
	"time"

	"github.com/stratalog/strata/record"
)

// A Handler processes one record. A nil error means processed. An error, or a panic, which becomes
// a *HandlerPanicError, makes Run try again as RunConfig says; Permanent errors are not tried
// again.
//
// ctx has the values of Run's context and, for Attempt, the number of the call. It is not cancelled
// with Run's context, so that a handler at work may finish. It is cancelled with cause
//   - ErrRebalanced, when the record's partition has gone to another member (with ErrPollTimeout
//     too if a handler took longer than MaxPollInterval);
//   - ErrAttemptTimeout, when AttemptTimeout is over;
//   - ErrDrainTimeout, when Run has ended and DrainTimeout is nearly over.
//
// The record aliases fetched memory that is garbage collected: it may be kept, read-only.
type Handler func(ctx context.Context, r record.Record) error

// A BatchHandler processes records of one partition (ByKey: of one key), in offset order: at least
// one, at most RunConfig.BatchSize. A nil error means that all of them are processed, a *BatchError
// that a prefix is. After any other error, Permanent ones and panics too, none of them is; since
// nobody knows then which record is to blame, each is handed out alone, at once. That is no retry:
// RunConfig.Retries, RetryTopics and DeadLetter are for what has failed alone, or was named by a
// *BatchError. rs belongs to the handler. Context as for Handler.
type BatchHandler func(ctx context.Context, rs []record.Record) error

// RunOrder says which records are processed one after the other.
type RunOrder uint8

const (
	ByPartition RunOrder = iota // the records of a partition, in offset order
	// ByKey keeps the offset order of the records of a key in a partition; those without a key
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
	// MaxInFlight bounds the records of a partition that workers have and that are not done;
	// fetching it pauses there. 0: 1000
	MaxInFlight int
	BatchSize   int // of RunBatches, at most MaxInFlight come to be. 0: 500

	// AttemptTimeout bounds one call of the handler: then its context ends. 0: no bound but
	// MaxPollInterval, after which a call costs the member its partitions.
	AttemptTimeout time.Duration
	// Retries is how many times a handler that failed is called again for the record, after
	// MinBackoff (0: 100 ms) doubling up to MaxBackoff (0: 10 s), with jitter. 0: not again.
	// Records behind it in its order wait meanwhile; no worker does.
	Retries                int
	MinBackoff, MaxBackoff time.Duration
	// RetryTopics is where a record waits that failed 1+Retries times, while those behind it go on.
	// nil: it has failed for good.
	RetryTopics *RetryTopics
	// DeadLetter gets a record that failed for good; nil from it counts as processed. An error, or
	// no DeadLetter, ends Run with the handler's error. A panic in it is an error, as in a handler,
	// and so is runtime.Goexit. It runs on a goroutine of its own. DeadLetterTopic makes one. Its
	// context is that of the handler without AttemptTimeout.
	DeadLetter func(ctx context.Context, r record.Record, err error) error

	// DrainTimeout bounds the wait for handlers at work when a partition is revoked, and when Run
	// ends. In its last tenth (at most one second) their contexts are cancelled. 0: 30 s.
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

// Run processes records with a pool of workers until ctx is done, Wakeup or Close (nil), or a
// record fails for good (its *PartitionError), or the group refuses the member.
//
// Records may be done in any order; the offset that counts as processed is the end of the
// contiguous prefix of done ones, so nothing is skipped: with CommitProcessed that is what is
// committed. Within Order, a record is handed out when the one before is done, in a retry topic or
// dead-lettered. Seek makes records in hand obsolete: their outcome counts for nothing; those at
// the new position wait until the handlers of the old one have returned.
//
// When a partition is revoked, or Run ends, records that wait, also for another attempt, are
// dropped without waiting, and handlers at work get DrainTimeout. Run returns within DrainTimeout
// of its end. If a handler ignores its context even then, Run returns without it: the error is
// ErrDrainTimeout and names the records. What was not done is handed out again by the next poll or
// member.
//
// A single call of the handler that takes longer than MaxPollInterval costs a group member its
// partitions: the member leaves, so that others go on, and joins again when that handler has
// returned.
//
// Close during Run waits for Run to end as above, commits what is done and leaves the group;
// Shutdown cuts the wait short when its context ends. In a handler they return at once, and the
// consumer is closed when Run has ended.
func (c *Consumer) Run(ctx context.Context, h Handler, cfg RunConfig) error {
	cfg.BatchSize = 1
	return c.run(ctx, &runner{handle: h, cfg: cfg})
}

// RunBatches is Run for a handler that takes all records that wait in its order, up to BatchSize.
// Attempt tells the number of the call for the first of them.
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
