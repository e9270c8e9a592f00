package consumer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/stratalog/strata/group"
	"github.com/stratalog/strata/internal/retriable"
	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/producer"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/topic"
	"github.com/stratalog/strata/transaction"
)

// Transform reads records, calls fn to turn each into output records, and commits both the output
// and the input offsets in one transaction. Readers of committed records see the output of each
// input record exactly once, even if processes crash, are replaced or lose a partition. fn sends
// with emit, which borrows the record until it returns. Side effects of fn outside the transaction
// may be repeated.
//
// A transaction has at most MaxPollRecords records. With the default of that setting it has more if
// they are fetched already: it is committed after 100 ms (Kafka Streams: commit.interval.ms).
//
// TransformBatches documents requirements and errors.
func Transform(ctx context.Context, c *Consumer, p *producer.Producer, fn func(r record.Record, emit func(record.Record)) error) error {
	t := transformer{c: c, p: p, several: c.cfg.MaxPollRecords == DefaultMaxPollRecords}
	t.fn = func(ctx context.Context, b *Batch, tx *producer.Txn) error {
		var failed error
		emit := func(out record.Record) {
			if failed == nil {
				failed = tx.Send(ctx, out)
			}
		}
		for r := range b.All() {
			err := fn(r, emit)
			if err == nil {
				err = failed
			}
			if err != nil {
				return err
			}
		}
		return nil
	}
	return t.run(ctx)
}

// TransformBatches is Transform for a function that takes a batch and sends in the transaction
// itself. Each transaction has the records of one Poll. fn must not end the transaction and must
// not poll c. It may commit offsets of other groups in it.
//
// c is a member of a group with ReadCommitted, and with any Commit except CommitBeforeDelivery. The
// offsets of its input are committed only in these transactions. Offsets of control batches and
// aborted transactions after the last batch are committed when Transform has returned. The
// application must not commit offsets of c meanwhile, since they could overwrite the
// transaction's.
//
// p needs a TransactionalID that no other producer uses at the same time. A restarted process uses
// the same one as its predecessor, so that it need not wait for a transaction left open. Transform
// closes neither c nor p.
//
// c and p belong to the same cluster. If their backends have different cluster ids, Transform
// returns a *topic.ConfigError immediately.
//
// It returns nil when ctx is done, after Wakeup and when c is being closed. It first finishes the
// current batch, for at most 30 seconds (DefaultDrainTimeout), after which the context of fn ends,
// too. Otherwise it returns
//
//   - the error of fn;
//   - an error of the transaction that a retry cannot resolve: see producer.ErrFatal, ErrAbortable;
//   - an error of Poll: a permanent error of a partition (*PartitionError), one of the group,
//     or ErrClosed for a consumer that was already closed.
//
// In all cases the transaction was aborted and the positions equal the group's committed offsets,
// so that Transform may be called again. After producer.ErrOutcomeUnknown, which can follow when
// ctx ends and the 30 seconds pass, this holds once the outcome is known. If the group assigns a
// partition to another member, or rejects this one, the transaction is also aborted, and Transform
// continues with the remaining partitions.
func TransformBatches(ctx context.Context, c *Consumer, p *producer.Producer, fn func(ctx context.Context, b *Batch, tx *producer.Txn) error) error {
	t := transformer{c: c, p: p, fn: fn}
	return t.run(ctx)
}

func (t *transformer) run(ctx context.Context) error {
	c, p := t.c, t.p
	switch {
	case c.groups == nil:
		return ErrNoGroup
	case c.cfg.Commit == CommitBeforeDelivery:
		return &ConfigError{"Commit", "with CommitBeforeDelivery offsets are not part of the transaction"}
	case c.cfg.Isolation != ReadCommitted:
		return &ConfigError{"Isolation", "with ReadUncommitted what is transformed may be aborted"}
	}
	if err := c.checkCluster(p); err != nil {
		return err
	}
	if err := p.InitTransactions(ctx); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return fmt.Errorf("consumer: transform: %w", err)
	}
	if err := c.startPolling(true); err != nil {
		return err
	}
	defer c.stopPolling()
	if !c.commitOnlyInTransactions(ctx) {
		return nil
	}
	defer c.commits.transforming.Store(false)
	defer c.batchUndone() // left by a panic: the transaction is aborted
	for {
		b, err := c.poll(ctx)
		if err == nil {
			err = t.transform(ctx, b)
		}
		switch {
		case err == nil:
			c.progress.Add(1)
		case c.quiet(ctx, err) && !t.failed:
			return nil
		case !t.failed && passesLater(err):
			c.cfg.Logger.Warn("a partition cannot be read, trying again", "err", err)
		default:
			return err
		}
	}
}

// checkCluster returns a *topic.ConfigError if p writes to another cluster than c reads. The
// coordinator there has no member of c's group, so every transaction would be aborted.
func (c *Consumer) checkCluster(p *producer.Producer) error {
	b, ok := c.logs.(interface{ ClusterID() string })
	if !ok {
		return nil
	}
	in, out := b.ClusterID(), p.ClusterID()
	if in == "" || out == "" || in == out {
		return nil
	}
	reason := fmt.Sprintf("is the cluster of the producer, and the consumer reads cluster %q: one transaction cannot span two clusters", in)
	return fmt.Errorf("consumer: transform: %w", &topic.ConfigError{Key: "ClusterID", Value: out, Reason: reason})
}

// commitOnlyInTransactions stops the commits of processed offsets until transforming is false
// again, and waits for an active one: if it came later, it would overwrite a transaction's commit.
// It returns false if ctx ends first; then nothing has changed.
func (c *Consumer) commitOnlyInTransactions(ctx context.Context) bool {
	c.commits.transforming.Store(true)
	select {
	case c.commits.turn <- struct{}{}:
		<-c.commits.turn
		return true
	case <-ctx.Done():
		c.commits.transforming.Store(false)
		return false
	}
}

// passesLater reports whether err, or each of several joined errors, is of one partition and usually
// transient.
func passesLater(err error) bool {
	if all, ok := err.(interface{ Unwrap() []error }); ok {
		return !slices.ContainsFunc(all.Unwrap(), func(err error) bool { return !passesLater(err) })
	}
	var p *PartitionError
	return errors.As(err, &p) && passes(p.Err)
}

// transformer is one active Transform or TransformBatches.
type transformer struct {
	c       *Consumer
	p       *producer.Producer
	fn      func(ctx context.Context, b *Batch, tx *producer.Txn) error
	several bool // a transaction may have several batches
	failed  bool // the error comes from transform
}

// transactionFor is the time for which a transaction takes further records. Over a network its end
// takes several round trips.
const transactionFor = 100 * time.Millisecond

// transform processes a batch in one transaction, or several that are fetched already. If a later
// poll has to repeat them, there is no error.
func (t *transformer) transform(ctx context.Context, b *Batch) error {
	work, cancel := withGrace(ctx, DefaultDrainTimeout)
	defer cancel()
	mine := false    // the error is fn's
	var unread error // of a partition, behind the records of the transaction
	err := t.p.Transact(work, func(tx *producer.Txn) error {
		for began := time.Now(); b.Len() > 0; {
			if err := t.fn(work, b, tx); err != nil {
				mine = !errors.Is(err, producer.ErrAbortable)
				return err
			}
			if !t.several || time.Since(began) >= transactionFor {
				break
			}
			if b, unread = t.c.pollFetched(ctx); unread != nil {
				break
			}
		}
		return t.c.commitInTransaction(work, tx)
	})
	switch {
	case err == nil:
		t.c.batchCommitted()
		return unread
	case errors.Is(err, producer.ErrOutcomeUnknown):
		t.c.batchUnknown()
	default:
		t.c.batchUndone()
	}
	again := !mine && !errors.Is(err, producer.ErrFatal) && !retriable.Final(err)
	if again && movedOn(err) {
		t.c.cfg.Logger.Info("transaction was aborted, as the partitions have moved", "group", t.c.cfg.Group, "err", err)
		t.c.awaitMove(ctx)
		return unread
	}
	if again && idExpired(err) {
		t.c.cfg.Logger.Info("transaction was aborted, as the transactional id had expired", "group", t.c.cfg.Group, "err", err)
		return unread // the next transaction has a new producer id, unless another producer has the transactional id
	}
	t.failed = true
	if mine {
		return err
	}
	return fmt.Errorf("consumer: transform: %w", err)
}

// idExpired reports whether the producer id is no longer known to the coordinator.
func idExpired(err error) bool {
	return errors.Is(err, transaction.ErrInvalidProducerMapping) || errors.Is(err, partition.ErrProducerIDMapping)
}

// withGrace returns a context that ends a while after ctx.
func withGrace(ctx context.Context, grace time.Duration) (context.Context, context.CancelFunc) {
	work, cancel := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan struct{})
	unhook := context.AfterFunc(ctx, func() {
		late := time.NewTimer(grace)
		defer late.Stop()
		select {
		case <-late.C:
			cancel()
		case <-ended:
		}
	})
	return work, func() {
		unhook()
		close(ended)
		cancel()
	}
}

// movedOn reports whether err only means that the group has continued without this member, or with
// other partitions for it: the next poll gets the present ones.
func movedOn(err error) bool {
	for _, e := range []error{ErrRebalanced, errOverturned, group.ErrUnknownMember, group.ErrRebalanceInProgress, group.ErrUnknownTopicOrPartition} {
		if errors.Is(err, e) {
			return true
		}
	}
	return isOldGeneration(err)
}

// moveWait bounds awaitMove, since a seek does not change the membership.
const moveWait = 100 * time.Millisecond

// awaitMove waits briefly until the member has the group's present state.
func (c *Consumer) awaitMove(ctx context.Context) {
	c.kickMember()
	c.mu.Lock()
	changed := c.member.changed
	c.mu.Unlock()
	timeout := time.NewTimer(moveWait)
	defer timeout.Stop()
	select {
	case <-changed:
	case <-timeout.C:
	case <-ctx.Done():
	}
}

// errOverturned is returned when a seek came for records in progress.
var errOverturned = errors.New("consumer: sought elsewhere")

// commitInTransaction adds the ends of the current records to a transaction, for the member that
// owns their partitions now.
func (c *Consumer) commitInTransaction(ctx context.Context, tx *producer.Txn) error {
	offsets := make(record.Offsets, len(c.poller.handed))
	ids := make(map[string][16]byte, 1)
	c.mu.Lock()
	g := group.Metadata{Group: c.cfg.Group, MemberID: c.member.id, InstanceID: c.cfg.InstanceID, Generation: c.member.generation, TopicIDs: ids}
	for _, h := range c.poller.handed {
		var err error
		switch {
		case !c.ownsLocked(h.p):
			err = ErrRebalanced
		case h.p.d != h.d:
			err = errOverturned
		}
		if err != nil {
			c.mu.Unlock()
			return fmt.Errorf("%s-%d: %w", h.p.tp.Topic, h.p.tp.Partition, err)
		}
		offsets[h.p.tp] = h.next
		if h.p.id != (topic.ID{}) {
			ids[h.p.tp.Topic] = h.p.id
		}
	}
	c.mu.Unlock()
	return tx.CommitOffsets(ctx, g, offsets)
}

// batchCommitted records that the current records were committed in a transaction.
func (c *Consumer) batchCommitted() {
	for _, h := range c.poller.handed {
		h.d.committed.Store(h.next) // before done, so that it is not committed again
		h.d.done(h.next)
	}
	c.poller.handed = c.poller.handed[:0]
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stats.Commits++
}

// batchUnknown makes a new iteration fetch the committed offsets of the current records' partitions
// from the group: their transaction may have been committed.
func (c *Consumer) batchUnknown() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, h := range c.poller.handed {
		if h.p.d == h.d {
			h.p.restart(StartReset)
			h.p.located = false
		}
	}
	c.poller.handed = c.poller.handed[:0]
}
