package partition_test

import (
	"context"
	"fmt"

	"github.com/stratalog/strata/log"
	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/vfs"
)

// A retry of a batch that was written already gets the original offset; it is not written again.
func Example() {
	p, err := partition.Open("orders-0", partition.Config{Topic: "orders", Log: log.Config{FS: vfs.Mem()}})
	if err != nil {
		panic(err)
	}
	defer p.Close()
	if err := p.BecomeLeader(0); err != nil {
		panic(err)
	}

	var b record.Builder
	b.SetProducer(1000, 0, 0) // id, epoch, sequence of the first record
	b.Append(&record.Record{Key: []byte("user-1"), Value: []byte("ordered")})
	b.Append(&record.Record{Key: []byte("user-1"), Value: []byte("paid")})
	batch, err := b.Build(record.None)
	if err != nil {
		panic(err)
	}
	for range 2 {
		res, err := p.AppendSync(context.Background(), batch, record.AcksAll)
		fmt.Println(res.BaseOffset, res.Duplicate, err)
	}
	fmt.Println(p.LogStartOffset(), p.LastStableOffset(), p.HighWatermark(), p.LogEndOffset())
	// Output:
	// 0 false <nil>
	// 0 true <nil>
	// 0 2 2 2
}

// A waiter watches any number of partitions and wakes when there are records to read.
func ExampleWaiter() {
	p, err := partition.Open("orders-0", partition.Config{Log: log.Config{FS: vfs.Mem()}})
	if err != nil {
		panic(err)
	}
	defer p.Close()
	if err := p.BecomeLeader(0); err != nil {
		panic(err)
	}

	woken := make(chan struct{})
	w := partition.NewWaiter(1, partition.ReadCommitted, func() { close(woken) })
	p.Watch(0, w)

	var b record.Builder
	b.Append(&record.Record{Value: []byte("hello")})
	batch, err := b.Build(record.None)
	if err != nil {
		panic(err)
	}
	if _, err := p.AppendSync(context.Background(), batch, record.AcksAll); err != nil {
		panic(err)
	}
	<-woken
	w.Cancel()
	res, err := p.Read(partition.ReadRequest{Offset: 0, CurrentLeaderEpoch: -1})
	fmt.Println(res.HighWatermark, len(res.Bytes) == len(batch), err)
	// Output: 1 true <nil>
}
