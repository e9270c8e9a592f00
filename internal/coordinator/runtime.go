package coordinator

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stratalog/strata/internal/machine"
)

// A Kind says how machines are made, stored and told about the runtime's own events.
type Kind[M machine.Machine[E, R], E, R any] struct {
	New func(id string) M
	ID  func(R) string // of the machine that a record belongs to

	// Encode returns a record's key and value; a nil value is a tombstone. They are the runtime's.
	Encode func(R) (key, value []byte)

	// Decode is its reverse. known is false for a record of another kind, which is not an
	// error. The result does not alias key or value.
	Decode func(key, value []byte) (r R, known bool, err error)

	// Overwrites returns a comparable key if a plain record r wins over records of that key in a
	// transaction that began before it and is committed after it. nil: none does.
	Overwrites func(r R) (key any, ok bool)

	Tick, Expire, Loaded E // time has passed; look for what is too old; recovery is through
	Cancel               func(machine.Ticket) E
}

// Config describes a Runtime. All fields must be set but Notify.
type Config struct {
	Topic          string        // for log lines
	ExpiryInterval time.Duration // between Expire events
	MaxBatchBytes  int
	Logger         *slog.Logger

	// Notify is given the Notices of accepted steps, without locks. It must not block. nil: nobody
	// is.
	Notify func(notice any)
}

// A Store is the internal topic. Its methods are called concurrently.
type Store interface {
	// Partitions returns how many partitions the topic has. If it does not exist it is made if
	// create is set; otherwise the answer is 0.
	Partitions(ctx context.Context, create bool) (int32, error)

	// Log returns the leader replica of a partition.
	Log(partition int32) (Log, error)
}

// A Log is one partition of the topic. A Runtime is its only writer.
type Log interface {
	// Append writes one batch, which it may keep but not change. done is called exactly once,
	// without locks: with nil when the batch is committed, otherwise with an error when that is not
	// known to be so. Batches are written in the order of the calls. Append may block for as long
	// as a write to the disk does, but not until the batch is committed.
	Append(batch []byte, done func(error))

	// Read appends whole batches to dst, from the one that holds offset from, about max bytes but
	// at least one batch. At the end it returns dst.
	Read(dst []byte, from int64, max int) ([]byte, error)

	// Bounds returns the first offset and the one the next record will get.
	Bounds() (start, end int64, err error)
}

// A Runtime owns all machines of an internal topic. It is safe for concurrent use.
type Runtime[M machine.Machine[E, R], E, R any] struct {
	kind   Kind[M, E, R]
	cfg    Config
	store  Store
	ctx    context.Context // done when closing
	cancel context.CancelFunc
	wg     sync.WaitGroup // writers, loaders

	opening chan struct{}                     // holds a token: its holder may look the topic up
	shards  atomic.Pointer[[]*Shard[M, E, R]] // nil: the topic is not known to exist

	counters  counters
	closeOnce sync.Once
}

// counters are what Stats counts as it goes.
type counters struct{ appends, failures, loads atomic.Int64 }

// Stats are the counters of a Runtime.
type Stats struct{ Appends, AppendFailures, Loads int64 }

// New returns a Runtime over store, which must outlive it. Partitions are loaded when first asked
// for.
func New[M machine.Machine[E, R], E, R any](kind Kind[M, E, R], store Store, cfg Config) *Runtime[M, E, R] {
	r := &Runtime[M, E, R]{kind: kind, cfg: cfg, store: store, opening: make(chan struct{}, 1)}
	r.ctx, r.cancel = context.WithCancel(context.Background())
	r.opening <- struct{}{}
	return r
}

// Close ends every waiting call with ErrClosed and returns when the last goroutine and timer have
// ended. What was under way may or may not be stored. It is idempotent; the Store is not closed.
func (r *Runtime[M, E, R]) Close() {
	r.closeOnce.Do(func() {
		r.cancel()
		<-r.opening // nobody makes shards after this
		if shards := r.shards.Load(); shards != nil {
			for _, s := range *shards {
				s.close()
			}
		}
	})
	if shards := r.shards.Load(); shards != nil {
		for _, s := range *shards {
			s.alarm.Wait() // before the others: a tick may start a writer
		}
	}
	r.wg.Wait()
}

// Stats returns the present counters.
func (r *Runtime[M, E, R]) Stats() Stats {
	return Stats{Appends: r.counters.appends.Load(), AppendFailures: r.counters.failures.Load(), Loads: r.counters.loads.Load()}
}

// Shards returns one Shard per partition, nil if there is no topic. If create is set it is made.
func (r *Runtime[M, E, R]) Shards(ctx context.Context, create bool) ([]*Shard[M, E, R], error) {
	if shards := r.shards.Load(); shards != nil {
		return *shards, nil
	}
	select {
	case <-r.opening:
		defer func() { r.opening <- struct{}{} }()
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-r.ctx.Done():
		return nil, machine.ErrClosed
	}
	if shards := r.shards.Load(); shards != nil {
		return *shards, nil
	}
	if r.ctx.Err() != nil {
		return nil, machine.ErrClosed
	}
	ctx, done := r.joined(ctx)
	defer done()
	n, err := r.store.Partitions(ctx, create)
	if err != nil {
		if r.ctx.Err() != nil {
			return nil, machine.ErrClosed
		}
		return nil, fmt.Errorf("%w: %w", machine.ErrNotAvailable, err)
	}
	if n <= 0 {
		return nil, nil
	}
	shards := make([]*Shard[M, E, R], n)
	for p := range shards {
		shards[p] = newShard(r, int32(p))
	}
	r.shards.Store(&shards)
	return shards, nil
}

// Known returns the shards without asking the store; nil if the topic is not known to exist.
func (r *Runtime[M, E, R]) Known() []*Shard[M, E, R] {
	if shards := r.shards.Load(); shards != nil {
		return *shards
	}
	return nil
}

// joined returns a context that is done when ctx is or the runtime closes.
func (r *Runtime[M, E, R]) joined(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(r.ctx, func() { cancel(machine.ErrClosed) })
	return ctx, func() { stop(); cancel(nil) }
}

func (r *Runtime[M, E, R]) notify(notices []any) {
	if r.cfg.Notify != nil {
		for _, n := range notices {
			r.cfg.Notify(n)
		}
	}
}
