package group_test

import (
	"context"
	"fmt"

	"github.com/stratalog/strata/group"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/replication"
	"github.com/stratalog/strata/topic"
)

func Example() {
	brokers, err := replication.Open(replication.Config{}) // in memory
	if err != nil {
		panic(err)
	}
	defer brokers.Close()
	c, err := group.NewCoordinator(group.ClusterStore(brokers), group.Config{})
	if err != nil {
		panic(err)
	}
	defer c.Close()

	ctx := context.Background()
	if err := brokers.CreateTopic(ctx, "orders", topic.Config{Partitions: 1}); err != nil {
		panic(err)
	}
	orders := record.TopicPartition{Topic: "orders"}
	next := map[record.TopicPartition]record.Committed{orders: {Offset: 42}}
	if _, err := c.CommitOffsets(ctx, group.CommitRequest{Group: "billing", Generation: -1, Offsets: next}); err != nil {
		panic(err)
	}
	info, err := c.Group(ctx, "billing")
	if err != nil {
		panic(err)
	}
	fmt.Println(info.State, info.Offsets[orders].Offset)
	// Output: Empty 42
}
