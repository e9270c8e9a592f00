package kafka_test

import (
	"context"
	"fmt"
	"net"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/kafka"
)

func Example() {
	cluster, err := strata.Open(strata.Config{}) // in memory; set Dir for files
	if err != nil {
		panic(err)
	}
	defer cluster.Close()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	server := kafka.NewServer(cluster, kafka.Config{})
	defer server.Close()
	go server.Serve(cluster.Controller(), ln)

	client, err := kgo.NewClient(kgo.SeedBrokers(ln.Addr().String()), kgo.ConsumeTopics("orders"), kgo.AllowAutoTopicCreation())
	if err != nil {
		panic(err)
	}
	defer client.Close()
	ctx := context.Background()
	if err := client.ProduceSync(ctx, &kgo.Record{Topic: "orders", Value: []byte("hello")}).FirstErr(); err != nil {
		panic(err)
	}
	for _, r := range client.PollFetches(ctx).Records() {
		fmt.Printf("%s %d %s\n", r.Topic, r.Offset, r.Value)
	}
	// Output: orders 0 hello
}
