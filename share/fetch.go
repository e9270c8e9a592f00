package share

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/replication"
	"github.com/stratalog/strata/share/internal/inflight"
)

// A FetchRequest asks for records that nobody else has.
type FetchRequest struct {
	Group string

	// Member is who holds what is acquired: who acknowledges it and gives it back says the same
	// name. Whoever takes records in several places, and gives back what it has in one of them,
	// has a name for each.
	Member string

	Partitions []TopicPartition // to be looked at in this order, until one has something

	MaxRecords int // at least 1: no more are acquired
	MaxBytes   int // are read of the log; 0: 1 MiB. One batch is read in any case

	// MaxWait is how long FetchEach waits for records; 0: not at all. Fetch waits until its ctx
	// ends.
	MaxWait time.Duration

	// WholeBatches says that a batch of the log is acquired as a whole, though that may be more
	// than MaxRecords. Kafka: share.acquire.mode batch_optimized.
	WholeBatches bool

	// Reset is where a share-partition begins that is new to the group. Kafka:
	// share.auto.offset.reset.
	Reset partition.OffsetSpec

	// Isolation says whether records of open and of aborted transactions are handed out. The zero
	// value is partition.ReadCommitted: they are not. The members of a group are to agree: what one
	// passes over is done with. Kafka: share.isolation.level, whose default is read_uncommitted.
	Isolation partition.Isolation

	// Existing says that a share-partition that has no state is not begun: ErrNotInitialized.
	Existing bool

	// Reserve returns how many bytes may be read, in the place of MaxBytes, before each attempt of
	// FetchEach; Release is told how many of them were not. They may be nil. One batch may be more,
	// also if they are none.
	Reserve func(context.Context) (int, error)
	Release func(int)
}

// A Delivery is a range of offsets that was acquired; Count is how often, this time included.
type Delivery = inflight.Delivery

// Fetched is what a member has acquired of one partition: it is locked for the member for
// Config.LockDuration.
type Fetched struct {
	TopicPartition

	// Bytes are whole batches, which have more records than those acquired. An offset in a Delivery
	// that has none in Bytes is to be acknowledged as Gap. They belong to the caller.
	Bytes      []byte
	Deliveries []Delivery // by offset
}

// defaultMaxBytes is the MaxBytes that 0 means.
const defaultMaxBytes = 1 << 20

// withDefaults returns r with its defaults, or what is wrong with it.
func (r FetchRequest) withDefaults() (FetchRequest, error) {
	if r.MaxRecords < 1 {
		return r, fmt.Errorf("%w: %d records of %d partitions", ErrInvalidRequest, r.MaxRecords, len(r.Partitions))
	}
	if r.MaxBytes <= 0 {
		r.MaxBytes = defaultMaxBytes
	}
	return r, nil
}

// Fetch acquires records of the first of the partitions that has some for the member, and waits for
// them without polling. It begins with the partition that Partitions begin with. A partition that
// cannot be fetched from does not hold up the others, and is looked at again every few seconds.
//
// It returns the error of a partition only if none of them can be fetched from:
// partition.ErrNotLeader, replication.ErrUnknownTopic, those of the coordinator, or those of
// Cluster.Fetch that do not pass by themselves.
func (c *Coordinator) Fetch(ctx context.Context, req FetchRequest) (Fetched, error) {
	req, err := req.withDefaults()
	if err != nil {
		return Fetched{}, err
	}
	if len(req.Partitions) == 0 {
		return Fetched{}, fmt.Errorf("%w: %d records of no partition", ErrInvalidRequest, req.MaxRecords)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	w := wait{c: c, isolation: req.Isolation, told: make(chan struct{}, 1)}
	for {
		got, a := c.tryFetch(ctx, req, w.told)
		if len(got.Deliveries) > 0 || ctx.Err() != nil || c.ctx.Err() != nil || a.hopeless() {
			a.unwatch(w.told)
			if len(got.Deliveries) > 0 {
				return got, nil
			}
			return Fetched{}, c.ended(ctx, errors.Join(a.errs...))
		}
		err := w.forRecords(ctx, a)
		a.unwatch(w.told)
		if err != nil {
			return Fetched{}, c.ended(ctx, err)
		}
	}
}

// ended is why a call ends that err has come of.
func (c *Coordinator) ended(ctx context.Context, err error) error {
	if c.ctx.Err() != nil {
		return ErrClosed
	}
	return errors.Join(ctx.Err(), err)
}

// tryFetch acquires what there is of the first partition that has something.
func (c *Coordinator) tryFetch(ctx context.Context, req FetchRequest, told chan struct{}) (got Fetched, a attempt) {
	for _, tp := range req.Partitions {
		l, err := c.leader(ctx, req.Group, tp, beginning{req.Reset, req.Existing})
		if err == nil {
			got, err = a.fetch(ctx, l, req, told)
		}
		if len(got.Deliveries) > 0 {
			got.TopicPartition = tp
			return got, a
		}
		if err != nil {
			a.errs = append(a.errs, err)
		}
	}
	return Fetched{}, a
}

// An attempt is what became of looking at partitions.
type attempt struct {
	leaders []*leader // of those that could be read: they tell when there may be something
	errs    []error   // of the others
	passing bool      // some of errs pass by themselves
}

// hopeless reports whether there is nothing to wait for.
func (a *attempt) hopeless() bool { return len(a.leaders) == 0 && !a.passing }

func (a *attempt) unwatch(told chan struct{}) {
	for _, l := range a.leaders {
		l.unwatch(told)
	}
}

// fetch acquires what l has. From then on l tells told when there may be something, unless it
// cannot be read: what it says of that is no news to who has found it out.
func (a *attempt) fetch(ctx context.Context, l *leader, req FetchRequest, told chan struct{}) (got Fetched, err error) {
	l.watch(told)
	if got, err = l.fetch(ctx, req, told); err != nil {
		a.passing = a.passing || passes(err)
		return Fetched{}, err
	}
	a.leaders = append(a.leaders, l)
	return got, nil
}

// passingErrors are those of a read that pass by themselves: the leader has just changed, or the
// log does not reach as far as the state says.
var passingErrors = []error{
	partition.ErrNotLeader, partition.ErrFencedLeaderEpoch, partition.ErrUnknownLeaderEpoch, partition.ErrOffsetNotAvailable,
	partition.ErrOffsetOutOfRange, partition.ErrInconsistentTopicID, replication.ErrUnknownTopic,
}

func passes(err error) bool {
	return slices.ContainsFunc(passingErrors, func(e error) bool { return errors.Is(err, e) })
}

// fetch acquires what there is for a member, unless another one is just about to. With an error
// told is no waiter any more, and the others look themselves.
func (l *leader) fetch(ctx context.Context, req FetchRequest, told chan struct{}) (got Fetched, err error) {
	l.mu.Lock()
	l.lookLocked()
	from, ok := l.p.Next()
	if l.over != nil || l.fetching || !ok {
		if l.over != nil {
			l.tellLocked() // there is another one
		}
		l.mu.Unlock()
		return Fetched{}, nil
	}
	l.fetching = true
	l.mu.Unlock()
	read, err := l.read(ctx, from, req)
	var batches []inflight.Offsets
	if err == nil {
		batches, err = offsetsOf(from, read)
	}

	l.mu.Lock()
	defer l.mu.Unlock()
	l.fetching = false
	switch {
	case l.over != nil:
		l.tellLocked()
		return Fetched{}, nil
	case err != nil:
		delete(l.waiters, told)
		l.tellLocked()
		return Fetched{}, err
	}
	l.p.LogStart(read.LogStartOffset)
	if len(batches) > 0 {
		got.Deliveries = l.p.Acquire(time.Now(), req.Member, inflight.Fetched{From: from, Batches: batches}, inflight.Limit{Records: req.MaxRecords, Exact: !req.WholeBatches})
	}
	if len(got.Deliveries) > 0 {
		got.Bytes = trimTo(read.Bytes, got.Deliveries[0].First, got.Deliveries[len(got.Deliveries)-1].Last)
	}
	if len(batches) > 0 || l.p.Start() > from {
		l.changedLocked() // others may acquire what is left
	}
	return got, nil
}

// read reads the log from an offset on. An offset that is not in the log any more is read as its
// start.
func (l *leader) read(ctx context.Context, from int64, req FetchRequest) (partition.FetchedPartition, error) {
	resp, err := l.c.cluster.Fetch(ctx, &partition.FetchRequest{
		Partitions: []partition.FetchPartition{{TopicPartition: l.tp, Offset: from, CurrentLeaderEpoch: l.epoch, TopicID: l.key.TopicID}},
		MaxBytes:   req.MaxBytes, Isolation: req.Isolation,
	})
	if err != nil {
		return partition.FetchedPartition{}, err
	}
	p := resp.Partitions[0]
	if errors.Is(p.Err, partition.ErrOffsetOutOfRange) {
		start, err := l.c.startOffset(ctx, l.tp, partition.Earliest)
		if err != nil || start <= from {
			return p, errors.Join(p.Err, err)
		}
		return partition.FetchedPartition{TopicPartition: l.tp, LogStartOffset: start}, nil
	}
	return p, p.Err
}

// offsetsOf returns the batches of what was read from an offset on.
func offsetsOf(from int64, read partition.FetchedPartition) (all []inflight.Offsets, err error) {
	hidden := partition.NewAbortedFilter(read.Aborted)
	for p := read.Bytes; len(p) > 0; {
		b, n, err := record.Parse(p)
		if err != nil {
			return nil, err
		}
		p = p[n:]
		if b.LastOffset() >= from {
			all = append(all, inflight.Offsets{First: b.BaseOffset, Last: b.LastOffset(), Skip: hidden.Hides(b)})
		}
	}
	return all, nil
}

// trimTo returns the batches that have offsets from first to last, of batches that are valid: a
// member is not sent what others will acquire. Kafka: ShareFetchUtils.maybeSliceFetchRecords.
func trimTo(batches []byte, first, last int64) []byte {
	from, to := 0, 0
	for to < len(batches) {
		b, n, err := record.Parse(batches[to:])
		if err != nil || b.BaseOffset > last {
			break
		}
		to += n
		if b.LastOffset() < first {
			from = to
		}
	}
	return batches[from:to:to]
}

func (l *leader) watch(told chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waiters[told] = struct{}{}
}

func (l *leader) unwatch(told chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.waiters, told)
}

// While there is nothing a fetch waits for longestWait at most before it looks again who leads the
// partitions. If one of them could not be fetched from it looks again after a pause, which doubles.
const (
	longestWait = 5 * time.Second
	firstPause  = 10 * time.Millisecond
)

// A wait is the waiting of one call, from one attempt to the next.
type wait struct {
	c         *Coordinator
	isolation partition.Isolation
	told      chan struct{} // by a leader
	pause     time.Duration // the last one; 0: the last attempt had no error
}

// forRecords returns when a leader has told, when the log of one has grown that may hand out what
// is new, or after a while. What a leader tells from here on is looked at by the next attempt.
func (w *wait) forRecords(ctx context.Context, a attempt) error {
	longest := longestWait
	if len(a.errs) == 0 {
		w.pause = 0
	} else {
		w.pause = min(max(2*w.pause, firstPause), longestWait)
		longest = w.pause
	}
	ctx, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	req := partition.FetchRequest{MaxBytes: 1, MinBytes: 1, MaxWait: longestWait, Isolation: w.isolation}
	for _, l := range a.leaders {
		l.mu.Lock()
		if from, ok := l.p.Next(); ok && (from == l.p.End() || !l.fetching) { // else it tells, see changedLocked
			req.Partitions = append(req.Partitions, partition.FetchPartition{TopicPartition: l.tp, Offset: from, MaxBytes: 1, CurrentLeaderEpoch: l.epoch, TopicID: l.key.TopicID})
		}
		l.mu.Unlock()
	}
	grown := make(chan struct{})
	if len(req.Partitions) > 0 {
		waiting, stop := context.WithCancel(ctx)
		var reader sync.WaitGroup
		defer func() { stop(); reader.Wait() }()
		reader.Go(func() {
			_, _ = w.c.cluster.Fetch(waiting, &req) // what it finds is read again, and its errors
			close(grown)
		})
	}
	select {
	case <-w.told:
	case <-grown:
	case <-ctx.Done():
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			return nil
		}
		return ctx.Err()
	case <-w.c.ctx.Done():
		return ErrClosed
	}
	return nil
}
