package strata

import (
	"context"
	"time"

	"github.com/stratalog/strata/group"
	"github.com/stratalog/strata/producer"
	"github.com/stratalog/strata/transaction"
)

// TransactionCoordinator returns the coordinator of transactions, for transactional producers and
// for servers. Its method On returns the coordinator of one broker. The caller must not close it.
func (b Backend) TransactionCoordinator() *transaction.Coordinator { return b.transactions }

// TransactionCoordinator returns the coordinator of transactions, for transactional producers.
func (c *Cluster) TransactionCoordinator() *transaction.Coordinator { return c.transactions }

// txnCoordinator combines both coordinators for producers.
type txnCoordinator struct {
	*transaction.Coordinator
	groups
}

type groups struct{ *group.Coordinator }

// InitProducerID implements producer.TxnCoordinator.
func (t txnCoordinator) InitProducerID(ctx context.Context, id string, timeout time.Duration, before transaction.Producer) (transaction.Producer, int16, error) {
	p, err := t.Coordinator.InitProducerID(ctx, id, timeout, before)
	return p, t.Version(), err
}

// TxnCoordinator implements producer.TxnBackend.
func (b Backend) TxnCoordinator() producer.TxnCoordinator {
	return txnCoordinator{b.transactions, groups{b.Coordinator}}
}

// Transactions describes all transactional ids, sorted by id. After an error it still returns the
// ids of reachable coordinators.
func (c *Cluster) Transactions(ctx context.Context) ([]transaction.Description, error) {
	return c.transactions.List(ctx)
}

// Transaction describes a transactional id. It returns transaction.ErrNotFound for an unknown id.
func (c *Cluster) Transaction(ctx context.Context, id string) (transaction.Description, error) {
	return c.transactions.Describe(ctx, id)
}

// HangingTransactions returns transactions that will not be ended: they are open in a partition,
// had no write for longer than Config.Transactions.MaxTimeout, and no coordinator has them.
func (c *Cluster) HangingTransactions(ctx context.Context) ([]transaction.HangingTransaction, error) {
	return c.transactions.Hanging(ctx)
}

// AbortHangingTransaction aborts one of HangingTransactions, so that readers of its partition
// continue. For any other transaction it returns transaction.ErrNotHanging and changes nothing.
func (c *Cluster) AbortHangingTransaction(ctx context.Context, h transaction.HangingTransaction) error {
	return c.transactions.AbortHanging(ctx, h)
}
