package producer_test

import (
	"context"
	"fmt"

	"github.com/stratalog/strata/producer"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/replication"
	"github.com/stratalog/strata/topic"
)

// openOrders is a cluster in memory with topic "orders" of one partition.
func openOrders() *replication.Cluster {
	c, err := replication.Open(replication.Config{})
	if err != nil {
		panic(err)
	}
	if err := c.CreateTopic(context.Background(), "orders", topic.Config{Partitions: 1}); err != nil {
		panic(err)
	}
	return c
}

func ExampleProducer_Send() {
	ctx := context.Background()
	cluster := openOrders()
	defer cluster.Close()
	p, err := producer.New(cluster, producer.Config{}) // acks=all, idempotent, durable
	if err != nil {
		panic(err)
	}
	defer p.Close()

	acks, err := p.Send(ctx, record.String("orders", "user-1", "a book"), record.String("orders", "user-2", "a lamp"))
	for _, a := range acks {
		fmt.Println(a.Partition, a.Offset, a.Err)
	}
	fmt.Println(err)
	// Output:
	// 0 0 <nil>
	// 0 1 <nil>
	// <nil>
}

func ExampleProducer_SendAsync() {
	ctx := context.Background()
	cluster := openOrders()
	defer cluster.Close()
	p, err := producer.New(cluster, producer.Config{})
	if err != nil {
		panic(err)
	}
	defer p.Close()

	for i := range 3 {
		p.SendAsync(ctx, record.String("orders", "", fmt.Sprint("order ", i)), func(r record.Record, err error) {
			fmt.Println(string(r.Value), "at", r.Offset, err)
		})
	}
	if err := p.Flush(ctx); err != nil { // all callbacks have returned
		panic(err)
	}
	// Output:
	// order 0 at 0 <nil>
	// order 1 at 1 <nil>
	// order 2 at 2 <nil>
}

func ExampleNewTyped() {
	type order struct{ Item string }
	ctx := context.Background()
	cluster := openOrders()
	defer cluster.Close()
	p, err := producer.New(cluster, producer.Config{Properties: map[string]string{"linger.ms": "1", "compression.type": "zstd"}})
	if err != nil {
		panic(err)
	}
	defer p.Close()

	orders := producer.NewTyped(p, record.SerializeString, record.SerializeJSON[order])
	ack, err := orders.Send(ctx, "orders", "user-1", order{Item: "a book"})
	fmt.Println(ack.Offset, err)
	// Output: 0 <nil>
}
