package share_test

import (
	"context"
	"fmt"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/producer"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/share"
	"github.com/stratalog/strata/topic"
)

func Example() {
	ctx := context.Background()
	cluster, err := strata.Open(strata.Config{}) // in memory
	if err != nil {
		panic(err)
	}
	defer cluster.Close()
	if err := cluster.CreateTopic(ctx, "jobs", topic.Config{Partitions: 1}); err != nil {
		panic(err)
	}
	p, err := producer.New(cluster, producer.Config{})
	if err != nil {
		panic(err)
	}
	defer p.Close()
	if _, err := p.Send(ctx, record.String("jobs", "", "resize a picture")); err != nil {
		panic(err)
	}

	c, err := cluster.Backend().Shares()
	if err != nil {
		panic(err)
	}
	info, err := cluster.Topic(ctx, "jobs")
	if err != nil {
		panic(err)
	}
	jobs := share.TopicPartition{TopicPartition: record.TopicPartition{Topic: "jobs"}, TopicID: info.ID}
	got, err := c.Fetch(ctx, share.FetchRequest{
		Group: "resizers", Member: "worker-1", Partitions: []share.TopicPartition{jobs}, MaxRecords: 10, Reset: partition.Earliest,
	})
	fmt.Println(got.Deliveries, err)
	err = c.Acknowledge(ctx, "resizers", "worker-1", jobs, []share.Ack{{First: 0, Last: 0, Types: []share.AckType{share.Accept}}})
	fmt.Println(err)
	// Output:
	// [{0 0 1}] <nil>
	// <nil>
}
