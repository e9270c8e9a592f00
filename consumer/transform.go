package consumer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stratalog/strata/group"
	"github.com/stratalog/strata/producer"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/topic"
)

// Transform reads records, has fn make others of them, and writes these and how far it has read in
// one transaction for each batch of a Poll: each record of the input counts exactly once in the
// output that readers of committed records see, whoever dies, is replaced or loses a partition
// meanwhile. fn sends with emit, which borrows the record until it returns. What fn does otherwise,
// outside of the transaction, may be done again.
//
// See TransformBatches for the rest.
func Transform(ctx context.Context, c *Consumer, p *producer.Producer, fn func(r record.Record, emit func(record.Record)) error) error {
	return TransformBatches(ctx, c, p, func(ctx context.Context, b *Batch, tx *producer.Txn) error {
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
	})
}

// TransformBatches is Transform for a function that takes a batch and sends in the transaction by
// itself; it must not end it, and not poll c. Offsets of other groups may be committed in it, too.
//
// c is a member of a group with ReadCommitted, and with any Commit but CommitBeforeDelivery:
// nothing of what Transform reads is committed otherwise, and what no reader sees behind the last
// batch, markers and aborted transactions, only when Transform has returned. The application does
// not commit offsets of c meanwhile: they could come behind those of the transaction. p has a
// TransactionalID of its own, which nobody else uses at the same time; a process that begins again
// uses that of its predecessor, and so need not wait for the end of what that has left open.
// Neither is closed.
//
// It returns nil when ctx is done, after Wakeup and when c is being closed: the batch in hand is
// finished first, for which there are 30 seconds (DefaultDrainTimeout), after which the context of
// fn ends, too. Else it returns
//
//   - the error of fn;
//   - an error of the transaction that cannot be expected to pass: see producer.ErrFatal,
//     ErrAbortable;
//   - what a Poll returns: that of a partition (*PartitionError), if it does not pass by itself,
//     one of the group, ErrClosed for a consumer that was closed before.
//
// In all cases the transaction was aborted and the positions are where the group's offsets are, so
// that it may be called again; with producer.ErrOutcomeUnknown, which ctx's end can bring after the
// 30 seconds, as soon as the outcome is known. If the group has given a partition to somebody else,
// or refuses the member, the transaction is aborted, too, and Transform goes on with what is left.
func TransformBatches(ctx context.Context, c *Consumer, p *producer.Producer, fn func(ctx context.Context, b *Batch, tx *producer.Txn) error) error {
	switch {
	case c.groups == nil:
		return ErrNoGroup
	case c.cfg.Commit == CommitBeforeDelivery:
		return &ConfigError{"Commit", "with CommitBeforeDelivery offsets are not part of the transaction"}
	case c.cfg.Isolation != ReadCommitted:
		return &ConfigError{"Isolation", "with ReadUncommitted what is transformed may be aborted"}
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
	t := transformer{c: c, p: p, fn: fn}
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

// commitOnlyInTransactions ends the commits of what is processed, until transforming is false
// again, and waits for the one that is under way: it would undo what a transaction commits if it
// came later. False: ctx has ended before, and nothing has changed.
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

// passesLater reports whether err is of one partition, and often passes.
func passesLater(err error) bool {
	var p *PartitionError
	return errors.As(err, &p) && passes(p.Err)
}

// transformer is a TransformBatches under way.
type transformer struct {
	c      *Consumer
	p      *producer.Producer
	fn     func(ctx context.Context, b *Batch, tx *producer.Txn) error
	failed bool // the error is one of transform
}

// transform handles one batch. If that is to be done again by a later poll, there is no error.
func (t *transformer) transform(ctx context.Context, b *Batch) error {
	work, cancel := withGrace(ctx, DefaultDrainTimeout)
	defer cancel()
	mine := false // the error is fn's
	err := t.p.Transact(work, func(tx *producer.Txn) error {
		if err := t.fn(work, b, tx); err != nil {
			mine = !errors.Is(err, producer.ErrAbortable)
			return err
		}
		return t.c.commitInTransaction(work, tx)
	})
	switch {
	case err == nil:
		t.c.batchCommitted()
		return nil
	case errors.Is(err, producer.ErrOutcomeUnknown):
		t.c.batchUnknown()
	default:
		t.c.batchUndone()
	}
	if !mine && !errors.Is(err, producer.ErrFatal) && movedOn(err) {
		t.c.cfg.Logger.Info("transaction was aborted, as the partitions have moved", "group", t.c.cfg.Group, "err", err)
		t.c.awaitMove(ctx)
		return nil
	}
	t.failed = true
	if mine {
		return err
	}
	return fmt.Errorf("consumer: transform: %w", err)
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

// movedOn reports whether err only says that the group has gone on without this member, or with
// other partitions for it: who reads on is told what is the member's now.
func movedOn(err error) bool {
	for _, e := range []error{ErrRebalanced, errOverturned, group.ErrUnknownMember, group.ErrRebalanceInProgress, group.ErrUnknownTopicOrPartition} {
		if errors.Is(err, e) {
			return true
		}
	}
	return isOldGeneration(err)
}

// moveWait bounds awaitMove: a seek is no change of the membership.
const moveWait = 100 * time.Millisecond

// awaitMove waits a little until the member knows what the group knows.
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

// errOverturned says that a seek came for records that are in hand.
var errOverturned = errors.New("consumer: sought elsewhere")

// commitInTransaction puts the ends of what is in hand into a transaction, on behalf of the member
// that has the partitions now.
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

// batchCommitted notes that what is in hand was committed in a transaction.
func (c *Consumer) batchCommitted() {
	for _, h := range c.poller.handed {
		h.d.committed.Store(h.next) // before done: nobody commits it again
		h.d.done(h.next)
	}
	c.poller.handed = c.poller.handed[:0]
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stats.Commits++
}

// batchUnknown makes a new iteration ask the group where the partitions stand whose records are in
// hand: their transaction may have been committed.
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
