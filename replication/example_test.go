package replication_test

import (
	"context"
	"fmt"

	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/replication"
	"github.com/stratalog/strata/topic"
)

func Example() {
	ctx := context.Background()
	c, err := replication.Open(replication.Config{}) // Dir "": everything in memory
	if err != nil {
		panic(err)
	}
	defer c.Close()
	err = c.CreateTopic(ctx, "orders", topic.Config{Partitions: 2, Properties: map[string]string{"retention.ms": "60000"}})
	if err != nil {
		panic(err)
	}

	var b record.Builder
	r := record.String("", "user-1", "bought a book")
	b.Append(&r)
	batch, _ := b.Build(record.None)
	tp := record.TopicPartition{Topic: "orders", Partition: 1}
	acked := make(chan partition.ProduceResult)
	go c.Produce(&partition.ProduceRequest{TopicPartition: tp, Batch: batch, Done: func(r partition.ProduceResult) { acked <- r }})
	fmt.Println("offset", (<-acked).BaseOffset)

	resp, _ := c.Fetch(ctx, &partition.FetchRequest{Partitions: []partition.FetchPartition{{TopicPartition: tp, CurrentLeaderEpoch: -1, LastFetchedEpoch: -1}}})
	got, _, _ := record.Parse(resp.Partitions[0].Bytes)
	for r := range got.All() {
		fmt.Printf("%s: %s\n", r.Key, r.Value)
	}
	s := c.Status("orders", 1)
	fmt.Println("leader", s.Leader, "high watermark", s.HighWatermark)
	// Output:
	// offset 0
	// user-1: bought a book
	// leader 1 high watermark 1
}
