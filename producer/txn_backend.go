package producer

import (
	"context"
	"time"

	"github.com/stratalog/strata/group"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/transaction"
)

// A TxnBackend is a Backend with transactions. A producer with a Config.TransactionalID needs one.
// strata.Cluster implements it.
type TxnBackend interface {
	Backend
	TxnCoordinator() TxnCoordinator
}

// A TxnCoordinator decides the outcomes of transactions.
//
// If an error has a method Retriable() bool, its result decides whether the call is retried.
// Otherwise the errors of packages transaction and group are classified by the producer, and any
// other error is final.
type TxnCoordinator interface {
	// InitProducerID returns the producer's identity, and the level of the feature
	// transaction.version. From 2 on the first write adds a partition to the transaction, and each
	// transaction has its own epoch (KIP-890). With lower versions the producer adds partitions
	// explicitly. The level is that of all transactions until the next InitProducerID.
	InitProducerID(ctx context.Context, id string, timeout time.Duration, before transaction.Producer) (p transaction.Producer, version int16, err error)
	AddPartitions(ctx context.Context, r transaction.AddRequest) error
	AddOffsets(ctx context.Context, r transaction.AddRequest, group string) error
	End(ctx context.Context, r transaction.EndRequest) (transaction.Producer, error)
	CommitTxnOffsets(ctx context.Context, r group.TxnCommitRequest) (map[record.TopicPartition]error, error)
}
