package producer

import (
	"context"
	"time"

	"github.com/stratalog/strata/group"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/transaction"
)

// A TxnBackend is a Backend with transactions: a producer with a Config.TransactionalID needs one.
// strata.Cluster is one.
type TxnBackend interface {
	Backend
	TxnCoordinator() TxnCoordinator
}

// A TxnCoordinator decides what becomes of transactions: the methods of transaction.Coordinator,
// and one of group.Coordinator.
//
// An error that has a method Retriable() bool decides by it whether the call is worth repeating;
// otherwise the errors of packages transaction and group are known, and any other is final.
type TxnCoordinator interface {
	// Version is the level of the feature transaction.version. From 2 on the first write adds a
	// partition to the transaction, and each transaction has an epoch of its own (KIP-890); before,
	// the producer adds partitions.
	Version() int16
	InitProducerID(ctx context.Context, id string, timeout time.Duration, before transaction.Producer) (transaction.Producer, error)
	AddPartitions(ctx context.Context, r transaction.AddRequest) error
	AddOffsets(ctx context.Context, r transaction.AddRequest, group string) error
	End(ctx context.Context, r transaction.EndRequest) (transaction.Producer, error)
	CommitTxnOffsets(ctx context.Context, r group.TxnCommitRequest) (map[record.TopicPartition]error, error)
}
