package consumer_test

import (
	"bytes"
	"context"
	"fmt"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/consumer"
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
	if err := cluster.CreateTopic(ctx, "orders", topic.Config{Partitions: 1}); err != nil {
		panic(err)
	}
	p, err := producer.New(cluster, producer.Config{})
	if err != nil {
		panic(err)
	}
	defer p.Close()
	if _, err := p.Send(ctx, record.String("orders", "ann", "tea"), record.String("orders", "bob", "coffee")); err != nil {
		panic(err)
	}

	c, err := consumer.New(cluster, consumer.Config{Group: "kitchen", Topics: []string{"orders"}, Commit: consumer.CommitManual})
	if err != nil {
		panic(err)
	}
	defer c.Close()
	for r, err := range c.Records(ctx) {
		if err != nil {
			panic(err)
		}
		fmt.Printf("%d %s %s\n", r.Offset, r.Key, r.Value)
		if err := c.Commit(ctx, r); err != nil {
			panic(err)
		}
		if r.Offset == 1 {
			break
		}
	}
	// Output:
	// 0 ann tea
	// 1 bob coffee
}

func ExampleRead() {
	ctx := context.Background()
	cluster, err := strata.Open(strata.Config{})
	if err != nil {
		panic(err)
	}
	defer cluster.Close()
	if err := cluster.CreateTopic(ctx, "orders", topic.Config{Partitions: 3}); err != nil {
		panic(err)
	}
	p, err := producer.New(cluster, producer.Config{})
	if err != nil {
		panic(err)
	}
	defer p.Close()
	for _, user := range []string{"ann", "bob", "cid"} {
		if _, err := p.Send(ctx, record.String("orders", user, "a shirt")); err != nil {
			panic(err)
		}
	}
	for r, err := range consumer.Read(ctx, cluster, consumer.ReadConfig{Topic: "orders", ByTime: true}) {
		if err != nil {
			panic(err)
		}
		fmt.Println(string(r.Key), string(r.Value))
	}
	// Unordered output:
	// ann a shirt
	// bob a shirt
	// cid a shirt
}

func ExampleTransform() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	cluster, err := strata.Open(strata.Config{})
	if err != nil {
		panic(err)
	}
	defer cluster.Close()
	for _, name := range []string{"in", "out"} {
		if err := cluster.CreateTopic(ctx, name, topic.Config{Partitions: 1}); err != nil {
			panic(err)
		}
	}
	out, err := producer.New(cluster, producer.Config{TransactionalID: "upper-0"})
	if err != nil {
		panic(err)
	}
	defer out.Close()
	err = out.Transact(ctx, func(tx *producer.Txn) error {
		return tx.Send(ctx, record.String("in", "", "one"), record.String("in", "", "two"))
	})
	if err != nil {
		panic(err)
	}
	in, err := consumer.New(cluster, consumer.Config{Group: "upper", Topics: []string{"in"}})
	if err != nil {
		panic(err)
	}
	defer in.Close()
	err = consumer.Transform(ctx, in, out, func(r record.Record, emit func(record.Record)) error {
		emit(record.Record{Topic: "out", Value: bytes.ToUpper(r.Value)})
		if string(r.Value) == "two" {
			cancel() // the batch is finished first
		}
		return nil
	})
	if err != nil {
		panic(err)
	}
	what := consumer.ReadConfig{Topic: "out"} // followed: the end of a transaction is seen a moment after Commit
	for r, err := range consumer.Follow(context.Background(), cluster, what) {
		fmt.Println(string(r.Value), err)
		if string(r.Value) == "TWO" {
			break
		}
	}
	// Output:
	// ONE <nil>
	// TWO <nil>
}
