package kfake_test

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata/kafkatest/kfake"
)

// A test of kfake as it is, with another import path: the first produce request is told that the
// leader is elsewhere, and the client comes again.
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
