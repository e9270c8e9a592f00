package coordinator

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/stratalog/strata/internal/machine"
)

// A Runtime owns all machines of an internal topic: for each partition in one Shard per
// leader epoch. It is safe for concurrent use.
type Runtime[M machine.Machine[E, R], E, R any] struct {
	kind   Kind[M, E, R]
	cfg    Config
	store  Store
	ctx    context.Context // done when closing
	cancel context.CancelFunc
	wg     sync.WaitGroup // writers, loaders, alarms of ended Shards

	opening chan struct{}                                    // holds a token, which is taken to look the topic up
	shards  atomic.Pointer[[]atomic.Pointer[Shard[M, E, R]]] // by partition; nil while the topic is not known to exist

	mu     sync.Mutex // held to replace or remove a Shard; guards closed
	closed bool

	counters  counters
	closeOnce sync.Once
}

// counters are updated without mu.
type counters struct{ appends, failures, loads atomic.Int64 }

// Stats are the counters of a Runtime.
type Stats struct{ Appends, AppendFailures, Loads int64 }

// New returns a Runtime over store, which must outlive it. Partitions are loaded at their first
// request, or by Follow.
func New[M machine.Machine[E, R], E, R any](kind Kind[M, E, R], store Store, cfg Config) *Runtime[M, E, R] {
	r := &Runtime[M, E, R]{kind: kind, cfg: cfg, store: store, opening: make(chan struct{}, 1)}
	r.ctx, r.cancel = context.WithCancel(context.Background())
	r.opening <- struct{}{}
	return r
}

// Close ends every waiting call with ErrClosed and returns when the last goroutine and timer have
// ended. Pending records may or may not be stored. It is idempotent; the Store is not closed.
func (r *Runtime[M, E, R]) Close() {
	r.closeOnce.Do(func() {
		r.cancel()
		r.mu.Lock()
		r.closed = true // no Shard is made after this
		r.mu.Unlock()
		for _, s := range r.Known() {
			s.end(machine.ErrClosed)
		}
	})
	for _, s := range r.Known() {
		s.awaitAlarms() // before the others: a tick may start a writer
	}
	r.wg.Wait()
}

// Stats returns the present counters.
func (r *Runtime[M, E, R]) Stats() Stats {
	return Stats{Appends: r.counters.appends.Load(), AppendFailures: r.counters.failures.Load(), Loads: r.counters.loads.Load()}
}

// Partitions returns the number of partitions of the topic, 0 if it does not exist. If create is
// set it is created.
func (r *Runtime[M, E, R]) Partitions(ctx context.Context, create bool) (int32, error) {
	if n := r.partitions(); n > 0 {
		return n, nil
	}
	select {
	case <-r.opening:
		defer func() { r.opening <- struct{}{} }()
	case <-ctx.Done():
		return 0, ctx.Err()
	case <-r.ctx.Done():
		return 0, machine.ErrClosed
	}
	if n := r.partitions(); n > 0 {
		return n, nil
	}
	ctx, done := r.joined(ctx)
	defer done()
	n, err := r.store.Partitions(ctx, create)
	if err != nil || r.ctx.Err() != nil {
		return 0, r.unavailable(err)
	}
	if n > 0 {
		shards := make([]atomic.Pointer[Shard[M, E, R]], n)
		r.shards.Store(&shards)
	}
	return n, nil
}

func (r *Runtime[M, E, R]) partitions() int32 {
	if shards := r.shards.Load(); shards != nil {
		return int32(len(*shards))
	}
	return 0
}

// Known returns the present Shards: those of partitions that had a request and a leader.
func (r *Runtime[M, E, R]) Known() (known []*Shard[M, E, R]) {
	if shards := r.shards.Load(); shards != nil {
		for i := range *shards {
			if s := (*shards)[i].Load(); s != nil {
				known = append(known, s)
			}
		}
	}
	return known
}

// joined returns a context that is done when ctx is or the runtime closes.
func (r *Runtime[M, E, R]) joined(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(r.ctx, func() { cancel(machine.ErrClosed) })
	return ctx, func() { stop(); cancel(nil) }
}

func (s *Shard[M, E, R]) notify(notices []any) {
	if s.r.cfg.Notify != nil {
		for _, n := range notices {
			s.r.cfg.Notify(s.ID(), n)
		}
	}
}
