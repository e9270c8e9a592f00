package group

import (
	"context"
	"errors"
	"fmt"
	"maps"

	"github.com/stratalog/strata/group/internal/classic"
	"github.com/stratalog/strata/group/internal/kinds"
	"github.com/stratalog/strata/internal/coordinator"
	"github.com/stratalog/strata/internal/machine"
	"github.com/stratalog/strata/internal/memory"
	"github.com/stratalog/strata/internal/offsets"
	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/replication"
)

// CommitTxnOffsets stores offsets durably in a producer's transaction. They become the group's
// offsets when the transaction is committed, see EndTransaction. Until then a later call of the
// same producer replaces earlier offsets. Unless the group's partition already belongs to the
// transaction, the transaction coordinator is called first: for a client of version 2 it adds the
// partition; for an older one (r.TxnVersion) the partition must have been added.
//
// The map is as for CommitOffsets. Errors for the whole request: ErrIllegalGeneration, also for a
// member of a group that does not exist, ErrUnknownMember, ErrFencedInstance,
// partition.ErrInvalidProducerEpoch, ErrProducerIDMapping, ErrTxnAbortable or ErrInvalidTxnState of
// package partition, ErrTooLarge, or one to retry, among them partition.ErrConcurrentTransactions.
// With ErrUncertain the offsets may be stored. Kafka: TxnOffsetCommit.
func (c *Coordinator) CommitTxnOffsets(ctx context.Context, r TxnCommitRequest) (map[record.TopicPartition]error, error) {
	if err := checkID(r.Group, false); err != nil {
		return nil, err
	}
	topics, unknown, err := c.committable(ctx, &r.CommitRequest)
	if err != nil || len(r.Offsets) == 0 && len(unknown) > 0 {
		return unknown, err
	}
	// Once: the transaction may end before it is sent again.
	v, err := c.creating(ctx, question{group: r.Group, once: true, txn: &partition.TxnWrite{
		TransactionalID: r.TransactionalID, ProducerID: r.ProducerID, ProducerEpoch: r.ProducerEpoch, Version: r.TxnVersion,
	}}, func(t machine.Ticket) kinds.Event {
		return classic.EventTxnCommit{TxnCommitRequest: &r, TopicIDs: topicIDs(topics, maps.Keys(r.Offsets)), Bound: memory.BoundOf(ctx), To: t}
	})
	return c.committed(v, unknown, fenced(err))
}

// EndTransaction writes the marker of a transaction to a partition of the offsets topic, and
// returns when it is committed. The offsets that the transaction stored for the partition's groups
// then take effect, or are dropped. Offsets stored otherwise at a later position in the log take
// precedence. A producer without an open transaction there gets its marker, too. m.Timeout is
// ignored.
//
// It calls the current leader once: ErrNotCoordinator and ErrCoordinatorNotAvailable are to be
// retried, in any order with other markers. Further errors: ErrUnknownTopicOrPartition,
// partition.ErrInvalidProducerEpoch and partition.ErrCoordinatorFenced, with nothing written. If
// ctx ends first, the marker may be written. Kafka: WriteTxnMarkers.
func (c *Coordinator) EndTransaction(ctx context.Context, p int32, m partition.TxnMarker) error {
	n, err := c.runtime.Partitions(ctx, false)
	if err != nil {
		return err
	}
	if p < 0 || p >= n {
		return fmt.Errorf("%w: %s-%d", ErrUnknownTopicOrPartition, offsets.Topic, p)
	}
	s, err := c.route().ShardOf(p)
	if err != nil {
		return err
	}
	return fenced(s.EndTransaction(ctx, coordinator.Marker{
		ProducerID: m.ProducerID, ProducerEpoch: m.ProducerEpoch, CoordinatorEpoch: m.CoordinatorEpoch, Commit: m.Commit, Version: m.Version,
	}))
}

// writeMarker makes broker write a marker for the transaction coordinator.
func (c *Coordinator) writeMarker(broker int32, m replication.TxnMarker, done func(error)) {
	c.mu.Lock()
	closed := c.ctx.Err() != nil
	if !closed {
		c.wg.Go(func() { done(c.On(broker).EndTransaction(c.ctx, m.Partition.Partition, m.TxnMarker)) })
	}
	c.mu.Unlock()
	if closed {
		done(ErrClosed)
	}
}

// fenced converts an error about an epoch to the one of other partitions.
func fenced(err error) error {
	switch {
	case errors.Is(err, machine.ErrInvalidProducerEpoch):
		return fmt.Errorf("%w: %w", partition.ErrInvalidProducerEpoch, err)
	case errors.Is(err, machine.ErrCoordinatorFenced):
		return fmt.Errorf("%w: %w", partition.ErrCoordinatorFenced, err)
	}
	return err
}

// FetchStableOffsets is FetchOffsets for a consumer whose offsets are committed in transactions.
// Such a consumer must not start at a committed offset while an open transaction holds a newer one,
// or it would repeat work. Each such partition has ErrUnstableOffsetCommit in unstable, and is not
// in committed: call again. If tps is nil all partitions with a committed offset are returned, so a
// partition whose only offset is in an open transaction is in neither map. The caller owns both
// maps. Kafka: require_stable of OffsetFetch.
func (c *Coordinator) FetchStableOffsets(ctx context.Context, group string, tps []record.TopicPartition) (committed map[record.TopicPartition]record.Committed, unstable map[record.TopicPartition]error, err error) {
	type view struct {
		stored   map[record.TopicPartition]offsets.OffsetValue
		unstable map[record.TopicPartition]struct{}
	}
	v, err := c.read(ctx, group, func(g *kinds.Group) any { return view{maps.Clone(g.Offsets()), g.UnstableOffsets()} })
	if err != nil {
		return nil, nil, err
	}
	seen, _ := v.(view)
	if committed, err = c.present(ctx, tps, seen.stored); err != nil {
		return nil, nil, err
	}
	unstable = make(map[record.TopicPartition]error)
	for tp := range seen.unstable {
		if _, asked := committed[tp]; asked {
			unstable[tp] = ErrUnstableOffsetCommit
			delete(committed, tp)
		}
	}
	return committed, unstable, nil
}
