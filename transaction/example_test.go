package transaction_test

import (
	"context"
	"fmt"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/producer"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/topic"
)

func Example() {
	ctx := context.Background()
	cluster, err := strata.Open(strata.Config{}) // in memory
	if err != nil {
		panic(err)
	}
	defer cluster.Close()
	if err := cluster.CreateTopic(ctx, "transfers", topic.Config{Partitions: 1}); err != nil {
		panic(err)
	}
	p, err := producer.New(cluster, producer.Config{TransactionalID: "bank"})
	if err != nil {
		panic(err)
	}
	defer p.Close()
	err = p.Transact(ctx, func(tx *producer.Txn) error {
		return tx.Send(ctx, record.String("transfers", "ann", "-10"), record.String("transfers", "bob", "+10"))
	})
	if err != nil {
		panic(err)
	}

	c := cluster.TransactionCoordinator()
	if err := c.WaitEnded(ctx, "bank"); err != nil { // all markers are written
		panic(err)
	}
	d, err := c.Describe(ctx, "bank")
	fmt.Println(d.State, err)
	// Output:
	// CompleteCommit <nil>
}
