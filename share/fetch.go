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

// A FetchRequest is a request to acquire records that no other member holds.
type FetchRequest struct {
	Group string

	// Member is the holder of the acquired records; acknowledgements and releases use the same
	// name. A caller that acquires records in several places, and releases those of one of them,
	// needs a name for each.
	Member string

	Partitions []TopicPartition // partitions in the order of the search

	MaxRecords int // maximum number of acquired records, at least 1
	MaxBytes   int // bytes read from the log; 0: 1 MiB. One batch may exceed it

	// MaxWait is the time that FetchEach waits for records; 0 means no wait. Fetch waits until its
	// ctx ends.
	MaxWait time.Duration

	// WholeBatches acquires batches of the log as a whole, even if that is more than MaxRecords.
	// Kafka: share.acquire.mode batch_optimized.
	WholeBatches bool

	// BeginLater locks records without counting a delivery: Begin counts it. A record that is
	// released, or whose lock times out, before Begin does not count as delivered.
	BeginLater bool

	// Reset is the starting point of a share-partition that is new to the group. Kafka:
	// share.auto.offset.reset.
	Reset partition.OffsetSpec

	// Isolation selects whether records of open and aborted transactions are handed out. The zero
	// value is partition.ReadCommitted: they are not. All members of a group should have the same,
	// since records skipped by one member are done. Kafka: share.isolation.level, whose default is
	// read_uncommitted.
	Isolation partition.Isolation

	// Existing returns ErrNotInitialized for a share-partition without a state, instead of creating
	// one.
	Existing bool

	// Reserve returns the number of bytes that may be read, instead of MaxBytes, before each
	// attempt of FetchEach. Release is called with the number of them that were not used. Both may
	// be nil. One batch may exceed the number, even if it is 0.
	Reserve func(context.Context) (int, error)
	Release func(int)
}

// A Delivery is a range of acquired offsets; Count is the number of deliveries, including this one.
type Delivery = inflight.Delivery

// Fetched are the records that a member has acquired of one partition. They are locked for the
// member for Config.LockDuration.
type Fetched struct {
	TopicPartition

	// Bytes are whole batches, which may contain more records than were acquired. An offset of a
	// Delivery without a record in Bytes is to be acknowledged as Gap. The caller owns Bytes.
	Bytes      []byte
	Deliveries []Delivery // sorted by offset
}

// defaultMaxBytes is the default of MaxBytes.
const defaultMaxBytes = 1 << 20

// withDefaults returns r with its defaults, or an error for its invalid fields.
func (r FetchRequest) withDefaults() (FetchRequest, error) {
	if r.MaxRecords < 1 {
		return r, fmt.Errorf("%w: %d records of %d partitions", ErrInvalidRequest, r.MaxRecords, len(r.Partitions))
	}
	if r.MaxBytes <= 0 {
		r.MaxBytes = defaultMaxBytes
	}
	return r, nil
}

// Fetch acquires records for the member, from the first partition that has some, and waits for them
// without polling. It searches in the order of Partitions. Partitions with errors do not delay the
// others, and are tried again every few seconds.
//
// It returns the error of a partition only if all partitions have errors: partition.ErrNotLeader,
// replication.ErrUnknownTopic, errors of the coordinator, or permanent errors of Cluster.Fetch.
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

// ended returns the error of a call that ends with err: ErrClosed or ctx's error, if these caused
// it.
func (c *Coordinator) ended(ctx context.Context, err error) error {
	if c.ctx.Err() != nil {
		return ErrClosed
	}
	return errors.Join(ctx.Err(), err)
}

// tryFetch acquires records available now from the first partition that has some.
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

// An attempt is the result of one search for records.
type attempt struct {
	leaders []*leader // of the readable partitions: they notify when there may be records
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

// fetch acquires records from l and registers the channel, which l notifies when more may be
// available. After a read error it does not: the caller has the error already.
func (a *attempt) fetch(ctx context.Context, l *leader, req FetchRequest, told chan struct{}) (got Fetched, err error) {
	l.watch(told)
	if got, err = l.fetch(ctx, req, told); err != nil {
		a.passing = a.passing || passes(err)
		return Fetched{}, err
	}
	a.leaders = append(a.leaders, l)
	return got, nil
}

// passingErrors are errors of a read that end by themselves: the leader has just changed, or the
// state is ahead of the log.
var passingErrors = []error{
	partition.ErrNotLeader, partition.ErrFencedLeaderEpoch, partition.ErrUnknownLeaderEpoch, partition.ErrOffsetNotAvailable,
	partition.ErrOffsetOutOfRange, partition.ErrInconsistentTopicID, replication.ErrUnknownTopic,
}

func passes(err error) bool {
	return slices.ContainsFunc(passingErrors, func(e error) bool { return errors.Is(err, e) })
}

// fetch acquires records for a member, unless another fetch is reading. After an error it
// unregisters the channel, and notifies other waiters, which then fetch themselves.
func (l *leader) fetch(ctx context.Context, req FetchRequest, told chan struct{}) (got Fetched, err error) {
	l.mu.Lock()
	l.lookLocked()
	from, ok := l.p.Next()
	if l.over != nil || l.fetching || !ok {
		if l.over != nil {
			l.tellLocked() // another waiter may read instead
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
		got.Deliveries = l.p.Acquire(time.Now(), req.Member, inflight.Fetched{From: from, Batches: batches}, inflight.Limit{Records: req.MaxRecords, Exact: !req.WholeBatches, BeginLater: req.BeginLater})
	}
	if len(got.Deliveries) > 0 {
		got.Bytes = trimTo(read.Bytes, got.Deliveries[0].First, got.Deliveries[len(got.Deliveries)-1].Last)
	}
	if len(batches) > 0 || l.p.Start() > from {
		l.changedLocked() // other members may acquire the rest
	}
	return got, nil
}

// read reads the log from an offset on. If the offset is below the log start offset, it returns no
// records, with the log start offset.
func (l *leader) read(ctx context.Context, from int64, req FetchRequest) (partition.FetchedPartition, error) {
	resp, err := l.c.cluster.Fetch(ctx, &partition.FetchRequest{
		Partitions: []partition.FetchPartition{{TopicPartition: l.tp, Offset: from, CurrentLeaderEpoch: l.epoch, LastFetchedEpoch: -1, TopicID: l.key.TopicID}},
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

// offsetsOf returns the batches that were read, from an offset on.
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

// trimTo returns the batches with offsets from first to last, of valid batches: a member does not
// receive records that others will acquire. Kafka: ShareFetchUtils.maybeSliceFetchRecords.
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

// A fetch without records waits for longestWait at most before it looks up the leaders again. If a
// partition failed it does so after a pause, which doubles.
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

// forRecords returns when a leader notifies, when the log of a partition with room has grown, or
// after a while. Later notifications are seen by the next attempt.
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
		if from, ok := l.p.Next(); ok && (from == l.p.End() || !l.fetching) { // else l notifies, see changedLocked
			req.Partitions = append(req.Partitions, partition.FetchPartition{TopicPartition: l.tp, Offset: from, MaxBytes: 1, CurrentLeaderEpoch: l.epoch, LastFetchedEpoch: -1, TopicID: l.key.TopicID})
		}
		l.mu.Unlock()
	}
	grown := make(chan struct{})
	if len(req.Partitions) > 0 {
		waiting, stop := context.WithCancel(ctx)
		var reader sync.WaitGroup
		defer func() { stop(); reader.Wait() }()
		reader.Go(func() {
			_, _ = w.c.cluster.Fetch(waiting, &req) // the next attempt reads its records again, and its errors
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
