package transaction

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/replication"
)

// A Verifier is what the leaders of a cluster ask before they take the first write of a
// transaction: replication.Config.Transactions. The cluster is opened with it, and the Coordinator
// made over the cluster is named to it; until then such writes are refused, to be sent again. The
// zero Verifier is ready to be used, from any goroutine.
type Verifier struct {
	c atomic.Pointer[Coordinator] // nil: none yet
}

// endWait bounds how long a write waits for the transaction before to be ended: a client of version
// 2 may send its first batch when that is decided, and is marked a moment later. Kafka:
// add.partitions.to.txn.retry.backoff.max.ms.
const endWait = 100 * time.Millisecond

var _ replication.TxnVerifier = (*Verifier)(nil)

// Use has v ask c from now on.
func (v *Verifier) Use(c *Coordinator) { v.c.Store(c) }

// Add implements replication.TxnVerifier.
func (v *Verifier) Add(ctx context.Context, w partition.TxnWrite, partitions []record.TopicPartition) error {
	c := v.c.Load()
	if c == nil {
		return ErrCoordinatorNotAvailable
	}
	return toLeader(c.addBy(ctx, addRequest(w, partitions), time.Now().Add(endWait)))
}

// Verify implements replication.TxnVerifier.
func (v *Verifier) Verify(ctx context.Context, w partition.TxnWrite, partitions []record.TopicPartition) ([]error, error) {
	c := v.c.Load()
	if c == nil {
		return nil, ErrCoordinatorNotAvailable
	}
	found, err := c.VerifyPartitions(ctx, addRequest(w, partitions))
	errs := make([]error, len(found)) // those of the machine are not ours to change
	for i, err := range found {
		errs[i] = toLeader(err)
	}
	return errs, toLeader(err)
}

func addRequest(w partition.TxnWrite, partitions []record.TopicPartition) AddRequest {
	return AddRequest{ID: w.TransactionalID, Producer: Producer{ID: w.ProducerID, Epoch: w.ProducerEpoch}, Partitions: partitions, Version: w.Version}
}

// toLeader returns an error of the coordinator as leaders know it. Those that are not told are of a
// coordinator that cannot be asked just now.
func toLeader(err error) error {
	for _, e := range []struct{ coordinator, leader error }{
		{ErrProducerFenced, partition.ErrInvalidProducerEpoch},
		{ErrInvalidProducerMapping, partition.ErrProducerIDMapping},
		{ErrInvalidID, partition.ErrProducerIDMapping},
		{ErrConcurrent, partition.ErrConcurrentTransactions},
		{ErrInvalidState, partition.ErrInvalidTxnState},
		{ErrAbortable, partition.ErrTxnAbortable},
		{ErrTooLarge, partition.ErrTxnAbortable}, // it can take no more partitions
	} {
		if errors.Is(err, e.coordinator) {
			return fmt.Errorf("%w: %w", e.leader, err)
		}
	}
	return err
}
