package strata

import (
	"context"

	"github.com/stratalog/strata/group"
	"github.com/stratalog/strata/producer"
	"github.com/stratalog/strata/transaction"
)

// TransactionCoordinator returns the coordinator of transactions: producers that write in them, and
// servers, whose brokers' coordinators On returns, ask it. It must not be closed.
func (b Backend) TransactionCoordinator() *transaction.Coordinator { return b.transactions }

// TransactionCoordinator is that of Backend, for producers that write in transactions.
func (c *Cluster) TransactionCoordinator() *transaction.Coordinator { return c.transactions }

// txnCoordinator is both coordinators, as producers know them.
type txnCoordinator struct {
	*transaction.Coordinator
	groups
}

type groups struct{ *group.Coordinator }

// TxnCoordinator implements producer.TxnBackend.
func (b Backend) TxnCoordinator() producer.TxnCoordinator {
	return txnCoordinator{b.transactions, groups{b.Coordinator}}
}

// Transactions describes all transactional ids, by id. Those that can be reached are told of also
// with an error.
func (c *Cluster) Transactions(ctx context.Context) ([]transaction.Description, error) {
	return c.transactions.List(ctx)
}

// Transaction describes a transactional id. It returns transaction.ErrNotFound if there is none.
func (c *Cluster) Transaction(ctx context.Context, id string) (transaction.Description, error) {
	return c.transactions.Describe(ctx, id)
}

// HangingTransactions finds transactions that nobody is going to end: what is open in a partition,
// was not written in for longer than Config.Transactions.MaxTimeout, and no coordinator knows.
func (c *Cluster) HangingTransactions(ctx context.Context) ([]transaction.HangingTransaction, error) {
	return c.transactions.Hanging(ctx)
}

// AbortHangingTransaction ends one of HangingTransactions, so that readers of its partition go on.
// It returns transaction.ErrNotHanging, with nothing changed, for any other.
func (c *Cluster) AbortHangingTransaction(ctx context.Context, h transaction.HangingTransaction) error {
	return c.transactions.AbortHanging(ctx, h)
}
