package kfake_test

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata/kafkatest/kfake"
)

// This test of kfake is unchanged except for the import path. The first produce request gets
// NOT_LEADER_OR_FOLLOWER, and the client retries.
func Example() {
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "orders"))
	if err != nil {
		panic(err)
	}
	defer c.Close()
	refused := c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: "orders", Err: kerr.NotLeaderForPartition})

	cl, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...), kgo.DefaultProduceTopic("orders"))
	if err != nil {
		panic(err)
	}
	defer cl.Close()
	err = cl.ProduceSync(context.Background(), kgo.StringRecord("paid")).FirstErr()
	fmt.Println(err, refused.Hits(), c.PartitionInfo("orders", 0).HighWatermark)
	// Output: <nil> 1 1
}
