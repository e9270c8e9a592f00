package strata

import (
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
