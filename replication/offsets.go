package replication

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/record"
)

// ListOffsets finds offsets by kind or by time, at the leaders. Each partition has its own error:
// ErrUnknownTopic, ErrNotLeader, and those of partition.ListOffset. Offsets by time, and those of
// MaxTimestamp, are read from the disk: if no disk returns one for 500 ms, the missing ones are
// partition.ErrTimeout. The call itself returns only the context's error and ErrClosed.
func (c *Cluster) ListOffsets(ctx context.Context, specs map[record.TopicPartition]partition.OffsetSpec, isolation partition.Isolation) (map[record.TopicPartition]partition.OffsetResult, error) {
	return c.listOffsets(ctx, offsetSpecs{specs, isolation}, anyBroker)
}

// offsetSpecs are the arguments of ListOffsets.
type offsetSpecs struct {
	at        map[record.TopicPartition]partition.OffsetSpec
	isolation partition.Isolation
}

func (c *Cluster) listOffsets(ctx context.Context, specs offsetSpecs, asked int32) (map[record.TopicPartition]partition.OffsetResult, error) {
	results := make(map[record.TopicPartition]partition.OffsetResult, len(specs.at))
	onDisk := map[*node][]offsetLookup{}
	for tp, spec := range specs.at {
		if err := c.live(ctx); err != nil {
			return nil, err
		}
		r, p, err := c.leading(tp, asked)
		switch {
		case err != nil:
			results[tp] = listed(partition.OffsetResult{}, err)
		case p == nil:
			results[tp] = listed(c.unwrittenOffset(tp, spec))
		case asked == anyBroker && spec != partition.Earliest && spec != partition.Latest:
			results[tp] = listed(partition.OffsetResult{}, fmt.Errorf("list offsets of %s-%d: no answer from the disk: %w", tp.Topic, tp.Partition, partition.ErrTimeout))
			find := func() (partition.OffsetResult, error) { return p.ListOffset(spec, specs.isolation) }
			onDisk[r.node] = append(onDisk[r.node], offsetLookup{tp, find})
		default:
			results[tp] = listed(p.ListOffset(spec, specs.isolation))
		}
	}
	return results, c.lookUp(ctx, results, onDisk)
}

// lookUp stores the offsets that have to be read from disks in results, where each has ErrTimeout
// until then.
func (c *Cluster) lookUp(ctx context.Context, results map[record.TopicPartition]partition.OffsetResult, onDisk map[*node][]offsetLookup) error {
	lookups := 0
	for _, ls := range onDisk {
		lookups += len(ls)
	}
	if lookups == 0 {
		return nil
	}
	found := make(chan foundOffset, lookups) // has room for all: no broker waits
	wait, cancel := context.WithCancel(ctx)
	defer cancel()
	for n, ls := range onDisk {
		if !n.run(func() { n.findOffsets(wait, ls, found) }) {
			for _, l := range ls {
				found <- foundOffset{l.tp, listed(partition.OffsetResult{}, n.ended())}
			}
		}
	}
	return c.collectOffsets(ctx, results, found, lookups)
}

// leading returns the leader's replica of a partition, with its log; nil: it was never written.
func (c *Cluster) leading(tp record.TopicPartition, asked int32) (*replica, *partition.Partition, error) {
	r, err := c.leaderReplica(tp, asked)
	if err != nil {
		return nil, nil, err
	}
	p, err := r.state()
	return r, p, err
}

// listed returns the result of one partition.
func listed(res partition.OffsetResult, err error) partition.OffsetResult {
	if err != nil {
		res = partition.OffsetResult{Offset: -1, TimestampMs: -1, LeaderEpoch: -1, Err: err}
	}
	return res
}

// unwrittenOffset is the result of a partition without files.
func (c *Cluster) unwrittenOffset(tp record.TopicPartition, spec partition.OffsetSpec) (partition.OffsetResult, error) {
	_, meta, err := c.find(tp)
	res := partition.OffsetResult{Offset: -1, TimestampMs: -1, LeaderEpoch: -1}
	if spec == partition.Earliest || spec == partition.Latest {
		res.Offset, res.LeaderEpoch = 0, meta.LeaderEpoch
	}
	return res, err
}

// An offsetLookup is an offset that has to be read from the leader's disk.
type offsetLookup struct {
	tp   record.TopicPartition
	find func() (partition.OffsetResult, error)
}

// A foundOffset is the result of an offsetLookup.
type foundOffset struct {
	tp  record.TopicPartition
	res partition.OffsetResult
}

const (
	// maxOffsetLookups is how many calls of ListOffsets read a broker's disk at once. It bounds the
	// goroutines that wait for a hung one.
	maxOffsetLookups = 16
	// offsetSilence is the time without a result after which ListOffsets returns without the rest.
	// A slow disk that keeps responding is waited for.
	offsetSilence = 500 * time.Millisecond
)

// findOffsets looks offsets up on the broker's disk, until ctx is done.
func (n *node) findOffsets(ctx context.Context, ls []offsetLookup, found chan<- foundOffset) {
	select {
	case n.lookups <- struct{}{}:
		defer func() { <-n.lookups }()
	case <-ctx.Done():
		return
	}
	for _, l := range ls {
		if ctx.Err() != nil {
			return
		}
		found <- foundOffset{l.tp, listed(l.find())}
	}
}

// collectOffsets stores n found offsets in results, fewer if none is found for offsetSilence.
func (c *Cluster) collectOffsets(ctx context.Context, results map[record.TopicPartition]partition.OffsetResult, found <-chan foundOffset, n int) error {
	silence := time.NewTimer(offsetSilence)
	defer silence.Stop()
	for ; n > 0; n-- {
		select {
		case f := <-found:
			results[f.tp] = f.res
			silence.Reset(offsetSilence)
		case <-silence.C:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		case <-c.closing:
			return ErrClosed
		}
	}
	return nil
}

// DeleteRecords moves the log start offsets of partitions forward to the given offsets, where -1
// means the high watermark, and returns the new ones. A start beyond the given offset stays. When
// DeleteRecords returns, the starts are on stable storage at the leader and at every follower whose
// broker serves. So the next leader among them does not return the deleted records either. Each
// returned start is the smallest of these replicas.
//
// A follower whose broker does not serve meanwhile still has the records, and returns them if it is
// elected later because no other replica can lead. DeleteRecords does not wait for fenced brokers.
// If ctx ends first, the leader's start keeps its value at that time. Kafka: DeleteRecords.
//
// The error joins the errors of the failed partitions (partition.ErrOffsetOutOfRange,
// ErrPolicyViolation, ErrUnknownTopic, ErrNotLeader); the result has the others.
func (c *Cluster) DeleteRecords(ctx context.Context, before map[record.TopicPartition]int64) (map[record.TopicPartition]int64, error) {
	return c.deleteBefore(ctx, before, anyBroker)
}

func (c *Cluster) deleteBefore(ctx context.Context, before map[record.TopicPartition]int64, asked int32) (map[record.TopicPartition]int64, error) {
	all := make(map[record.TopicPartition]*prefix, len(before))
	var errs []error
	for tp, offset := range before {
		d := &prefix{before: offset}
		err := c.await(ctx, func() error { return c.deleteRecords(tp, d, asked) })
		if cause := ctx.Err(); cause != nil || errors.Is(err, ErrClosed) { // d may still be written to
			return nil, errors.Join(append(errs, err)...)
		}
		if err != nil {
			errs = append(errs, deletionError(tp, err))
			continue
		}
		all[tp] = d
	}
	starts := make(map[record.TopicPartition]int64, len(all))
	for tp, d := range all {
		var err error
		if starts[tp], err = c.awaitDeletion(ctx, d); err != nil {
			delete(starts, tp)
			errs = append(errs, deletionError(tp, err))
		}
	}
	return starts, errors.Join(errs...)
}

func deletionError(tp record.TopicPartition, err error) error {
	return fmt.Errorf("delete records of %s-%d: %w", tp.Topic, tp.Partition, err)
}

// A prefix is the part of a partition that a DeleteRecords deletes.
type prefix struct {
	before int64
	r      *replica
	p      *partition.Partition // that leads; nil: it was never written
}

// awaitDeletion waits until all live replicas have followed, and returns where they begin.
func (c *Cluster) awaitDeletion(ctx context.Context, d *prefix) (int64, error) {
	if d.p == nil {
		return 0, nil
	}
	// A follower whose disk hangs is found out by a change of the metadata only.
	suspicion := time.AfterFunc(c.cfg.SessionTimeout, c.probe)
	defer suspicion.Stop()
	low, err := d.p.AwaitLowWatermark(ctx, d.before)
	if errors.Is(err, partition.ErrClosed) { // the replica may have the reason
		err = cmp.Or(d.r.reason(), err)
	}
	return low, err
}

// deleteRecords deletes records at the leader.
func (c *Cluster) deleteRecords(tp record.TopicPartition, d *prefix, asked int32) error {
	r, err := c.leaderReplica(tp, asked)
	if err != nil {
		return err
	}
	p, err := r.state()
	switch {
	case err != nil:
		return err
	case p != nil:
		start, err := p.DeleteRecords(d.before)
		if d.r, d.p = r, p; d.before < 0 || d.before > start {
			d.before = start
		}
		return err
	}
	info, err := c.Topic(context.Background(), tp.Topic) // it was never written
	switch s := info.Settings; {
	case err != nil:
		return err
	case s.Compacted() && !s.Deleted():
		return fmt.Errorf("%w: the topic is only compacted", ErrPolicyViolation)
	case d.before > 0 || d.before < -1:
		return partition.ErrOffsetOutOfRange
	}
	return nil
}
