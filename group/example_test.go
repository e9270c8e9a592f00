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
	if err := c.ResetOffsets(ctx, "billing", record.Offsets{orders: 42}); err != nil {
		panic(err)
	}
	info, err := c.Group(ctx, "billing")
	if err != nil {
		panic(err)
	}
	fmt.Println(info.State, info.Offsets[orders].Offset)
	// Output: Empty 42
}

func ExampleCooperativeSticky() {
	member := func(id string) group.Member {
		return group.Member{ID: id, Subscription: group.Subscription{Topics: []string{"orders"}, Generation: -1}}
	}
	a := group.CooperativeSticky()
	shares, _ := a.Assign([]group.Member{member("a"), member("b")}, map[string]int32{"orders": 5})
	fmt.Println("a:", shares["a"])
	fmt.Println("b:", shares["b"])
	// Output:
	// a: [{orders 0} {orders 2} {orders 4}]
	// b: [{orders 1} {orders 3}]
}

func ExamplePartitionFor() {
	fmt.Println(group.PartitionFor("my-group", 50))
	// Output: 12
}
