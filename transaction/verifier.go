package transaction

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/stratalog/strata/internal/memory"
	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/replication"
)

// A Verifier checks with the coordinator that a transaction includes a partition, before the
// partition's leader accepts the transaction's first write. Set it as
// replication.Config.Transactions, and call Use with the Coordinator made over the cluster. Until
// then such writes are rejected with a retriable error. The zero Verifier is ready for use, and
// safe for concurrent use.
type Verifier struct {
	c atomic.Pointer[Coordinator] // nil: none yet
}

// endWait bounds the wait of a write for the end of the previous transaction. A client of version 2
// may send its first batch once the outcome of that is decided; the markers follow a moment later.
// Kafka: add.partitions.to.txn.retry.backoff.max.ms.
const endWait = 100 * time.Millisecond

var _ replication.TxnVerifier = (*Verifier)(nil)

// Use sets the coordinator of v.
func (v *Verifier) Use(c *Coordinator) { v.c.Store(c) }

// Add implements replication.TxnVerifier.
func (v *Verifier) Add(ctx context.Context, w partition.TxnWrite, partitions []record.TopicPartition) error {
	c := v.c.Load()
	if c == nil {
		return ErrCoordinatorNotAvailable
	}
	ctx = memory.With(ctx, c.memory.Last()) // the client is not known here
	return toLeader(c.addBy(ctx, addRequest(w, partitions), time.Now().Add(endWait)))
}

// Verify implements replication.TxnVerifier.
func (v *Verifier) Verify(ctx context.Context, w partition.TxnWrite, partitions []record.TopicPartition) ([]error, error) {
	c := v.c.Load()
	if c == nil {
		return nil, ErrCoordinatorNotAvailable
	}
	found, err := c.VerifyPartitions(ctx, addRequest(w, partitions))
	errs := make([]error, len(found)) // the machine's errors must not be changed here
	for i, err := range found {
		errs[i] = toLeader(err)
	}
	return errs, toLeader(err)
}

func addRequest(w partition.TxnWrite, partitions []record.TopicPartition) AddRequest {
	return AddRequest{ID: w.TransactionalID, Producer: Producer{ID: w.ProducerID, Epoch: w.ProducerEpoch}, Partitions: partitions, Version: w.Version}
}

// toLeader converts an error of the coordinator for leaders. An error that is not listed is of a
// coordinator that is unavailable.
func toLeader(err error) error {
	for _, e := range []struct{ coordinator, leader error }{
		{ErrProducerFenced, partition.ErrInvalidProducerEpoch},
		{ErrInvalidProducerMapping, partition.ErrProducerIDMapping},
		{ErrInvalidID, partition.ErrProducerIDMapping},
		{ErrConcurrent, partition.ErrConcurrentTransactions},
		{ErrInvalidState, partition.ErrInvalidTxnState},
		{ErrAbortable, partition.ErrTxnAbortable},
		{ErrTooLarge, partition.ErrTxnAbortable}, // the transaction can take no more partitions
		{ErrFull, partition.ErrTxnAbortable},
	} {
		if errors.Is(err, e.coordinator) {
			return fmt.Errorf("%w: %w", e.leader, err)
		}
	}
	return err
}
