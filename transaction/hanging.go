package transaction

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/stratalog/strata/internal/coordinator"
	"github.com/stratalog/strata/internal/txnlog"
	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/replication"
)

// ErrNotHanging is returned for a transaction that has ended, or that its coordinator will end.
var ErrNotHanging = errors.New("transaction: it is not a hanging one")

// A HangingTransaction is open in a partition but unknown to every coordinator. It is never ended,
// and ReadCommitted readers of the partition cannot pass it. Kafka before 3.6 could leave such
// transactions.
type HangingTransaction struct {
	Partition   record.TopicPartition
	Producer    Producer
	FirstOffset int64 // first offset of the transaction
}

// Hanging returns the hanging transactions in partitions with a leader, sorted by partition and
// producer id. These had no write for longer than Config.MaxTimeout, counted at the earliest from
// the opening of the partition, and no coordinator has them. It returns an error if a coordinator
// is unavailable. Kafka: kafka-transactions find-hanging.
func (c *Coordinator) Hanging(ctx context.Context) ([]HangingTransaction, error) {
	open, err := c.hanging(ctx)
	if err != nil {
		return nil, err
	}
	found := make([]HangingTransaction, len(open))
	for i, o := range open {
		found[i] = asHanging(o)
	}
	return found, nil
}

func asHanging(o replication.OpenTransaction) HangingTransaction {
	return HangingTransaction{Partition: o.Partition, Producer: Producer{ID: o.ProducerID, Epoch: o.Epoch}, FirstOffset: o.TxnFirstOffset}
}

// hanging reads the open transactions from the partitions, then from the coordinators, then from
// the partitions again: a transaction that ended meanwhile was not hanging.
func (c *Coordinator) hanging(ctx context.Context) ([]replication.OpenTransaction, error) {
	open := c.brokers.OpenTransactions(c.cfg.MaxTimeout)
	if len(open) == 0 {
		return nil, ctx.Err()
	}
	ids, err := c.at(coordinator.AnyBroker).List(ctx)
	if err != nil {
		return nil, err
	}
	still := c.brokers.OpenTransactions(c.cfg.MaxTimeout)
	return slices.DeleteFunc(open, func(o replication.OpenTransaction) bool {
		return !slices.ContainsFunc(still, func(s replication.OpenTransaction) bool { return asHanging(s) == asHanging(o) }) ||
			slices.ContainsFunc(ids, func(d Description) bool { return d.has(o) })
	}), nil
}

// has reports whether d is a transaction under way that o is part of.
func (d *Description) has(o replication.OpenTransaction) bool {
	return d.Producer.ID == o.ProducerID && (d.State == txnlog.Ongoing || d.State.Prepared()) && slices.Contains(d.Partitions, o.Partition)
}

// AbortHanging ends a hanging transaction with an abort marker in its producer's epoch. The marker
// is committed when it returns. If Hanging would no longer return the transaction, AbortHanging
// writes nothing and returns ErrNotHanging. Otherwise its errors are those of Hanging and of
// replication.Cluster.WriteTxnMarkers. Kafka: kafka-transactions abort.
func (c *Coordinator) AbortHanging(ctx context.Context, h HangingTransaction) error {
	open, err := c.hanging(ctx)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(open, func(o replication.OpenTransaction) bool { return asHanging(o) == h })
	if i < 0 {
		return fmt.Errorf("%w: producer %d epoch %d in %v from offset %d", ErrNotHanging, h.Producer.ID, h.Producer.Epoch, h.Partition, h.FirstOffset)
	}
	id, exists := c.brokers.TopicID(h.Partition.Topic)
	if !exists {
		return fmt.Errorf("%w: %q", replication.ErrUnknownTopic, h.Partition.Topic)
	}
	marker := replication.TxnMarker{Partition: h.Partition, TopicID: id, TxnMarker: partition.TxnMarker{
		ProducerID: h.Producer.ID, ProducerEpoch: h.Producer.Epoch, CoordinatorEpoch: max(open[i].CoordinatorEpoch, 0),
	}}
	written := make(chan error, 1)
	at := replication.NetworkPath{From: open[i].Leader, To: open[i].Leader}
	c.brokers.WriteTxnMarkers(at, []replication.TxnMarker{marker}, ctx.Done(), func(_ int, err error) { written <- err })
	select {
	case err := <-written:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}
