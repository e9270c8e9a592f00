package share

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/share/internal/inflight"
)

// A FetchRequest asks for records that nobody else has.
type FetchRequest struct {
	Group, Member string
	Partitions    []TopicPartition // to be looked at in this order, until one has something

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
	// FetchEach; Release is told how many of them were not. They may be nil. One batch may be more.
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

// Fetch acquires records of the first of the partitions that has some for the member, and waits for
// them without polling. It begins with the partition that Partitions begin with.
//
// It returns the error of a partition only if none of them can be fetched from:
// partition.ErrNotLeader, replication.ErrUnknownTopic, or those of the coordinator.
func (c *Coordinator) Fetch(ctx context.Context, req FetchRequest) (Fetched, error) {
	if req.MaxRecords < 1 || len(req.Partitions) == 0 {
		return Fetched{}, fmt.Errorf("%w: %d records of %d partitions", ErrInvalidRequest, req.MaxRecords, len(req.Partitions))
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	told := make(chan struct{}, 1)
	for {
		got, leaders, err := c.tryFetch(ctx, req, told)
		if len(got.Deliveries) > 0 || ctx.Err() != nil || c.ctx.Err() != nil || leaders == nil {
			for _, l := range leaders {
				l.unwatch(told)
			}
			if len(got.Deliveries) == 0 {
				err = c.ended(ctx, err)
			}
			return got, err
		}
		err = c.awaitRecords(ctx, leaders, req.Isolation, told)
		for _, l := range leaders {
			l.unwatch(told)
		}
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

// tryFetch acquires what there is. Otherwise it returns the leaders of the partitions that can be
// fetched from, which tell told when there may be something, and why the others cannot.
func (c *Coordinator) tryFetch(ctx context.Context, req FetchRequest, told chan struct{}) (got Fetched, leaders []*leader, err error) {
	var errs []error
	for _, tp := range req.Partitions {
		l, err := c.leader(ctx, req.Group, tp, beginning{req.Reset, req.Existing})
		if err == nil {
			l.watch(told)
			leaders = append(leaders, l)
			got, err = l.fetch(ctx, req)
		}
		if len(got.Deliveries) > 0 {
			got.TopicPartition = tp
			return got, leaders, nil
		}
		if err != nil {
			errs = append(errs, err)
		}
	}
	return Fetched{}, leaders, errors.Join(errs...)
}

// fetch acquires what there is for a member, unless another one is just about to.
func (l *leader) fetch(ctx context.Context, req FetchRequest) (got Fetched, err error) {
	l.mu.Lock()
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

	l.mu.Lock()
	defer l.mu.Unlock()
	l.fetching = false
	switch {
	case l.over != nil:
		l.tellLocked()
		return Fetched{}, nil
	case err != nil:
		l.tellLocked()
		return Fetched{}, err
	}
	l.p.LogStart(read.LogStartOffset)
	var batches []inflight.Offsets
	if batches, err = offsetsOf(from, read); err == nil && len(batches) > 0 {
		got.Deliveries = l.p.Acquire(time.Now(), req.Member, inflight.Fetched{From: from, Batches: batches}, inflight.Limit{Records: req.MaxRecords, Exact: !req.WholeBatches})
	}
	if len(got.Deliveries) > 0 {
		got.Bytes = trimTo(read.Bytes, got.Deliveries[0].First, got.Deliveries[len(got.Deliveries)-1].Last)
	}
	if err != nil || len(batches) > 0 || l.p.Start() > from {
		l.changedLocked() // others may acquire what is left
	}
	return got, err
}

// read reads the log from an offset on. An offset that is not in the log any more is read as its
// start.
func (l *leader) read(ctx context.Context, from int64, req FetchRequest) (partition.FetchedPartition, error) {
	maxBytes := req.MaxBytes
	if maxBytes <= 0 {
		maxBytes = 1 << 20
	}
	resp, err := l.c.cluster.Fetch(ctx, &partition.FetchRequest{
		Partitions: []partition.FetchPartition{{TopicPartition: l.tp, Offset: from, CurrentLeaderEpoch: l.epoch, TopicID: l.key.TopicID}},
		MaxBytes:   maxBytes, Isolation: req.Isolation,
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

// longestWait is how long a fetch waits before it looks again who leads the partitions.
const longestWait = 5 * time.Second

// awaitRecords returns when a leader has told, when the log of one has grown that may hand out what
// is new, or after a while.
func (c *Coordinator) awaitRecords(ctx context.Context, leaders []*leader, isolation partition.Isolation, told chan struct{}) error {
	ctx, cancel := context.WithTimeout(ctx, longestWait)
	defer cancel()
	req := partition.FetchRequest{MaxBytes: 1, MinBytes: 1, MaxWait: longestWait, Isolation: isolation}
	for _, l := range leaders {
		l.mu.Lock()
		if from, ok := l.p.Next(); ok && from == l.p.End() {
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
			_, _ = c.cluster.Fetch(waiting, &req) // what it finds is read again, and its errors
			close(grown)
		})
	}
	select {
	case <-told:
	case <-grown:
	case <-ctx.Done():
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			return nil
		}
		return ctx.Err()
	case <-c.ctx.Done():
		return ErrClosed
	}
	return nil
}
