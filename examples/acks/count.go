package main

import (
	"context"
	"errors"
	"strconv"
	"sync/atomic"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/consumer"
	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/producer"
	"github.com/stratalog/strata/record"
)

// A count is what became of the records of one producer.
type count struct {
	confirmed     int // the producer was told that they are written
	inLog         int // different ones
	lost, doubled int // confirmed and not in the log; in the log more than once
}

// compare reads the topic to its end.
func compare(ctx context.Context, cluster *strata.Cluster, told map[string]bool) (c count, err error) {
	if err := barrier(ctx, cluster, record.AcksAll); err != nil { // also what nobody waited for is written
		return c, err
	}
	seen := map[string]int{}
	for r, err := range consumer.Read(ctx, cluster, consumer.ReadConfig{Topic: "orders"}) {
		if err != nil {
			return c, err
		}
		seen[string(r.Value)]++
	}
	for i := range total {
		n, written := seen[strconv.Itoa(i)], told[strconv.Itoa(i)]
		if written {
			c.confirmed++
		}
		switch {
		case n == 0 && written:
			c.lost++
		case n > 1:
			c.doubled++
		}
		c.inLog += min(n, 1)
	}
	return c, nil
}

// barrier writes a record that is not counted: when it is acknowledged, what was written before it
// is where it is.
func barrier(ctx context.Context, cluster *strata.Cluster, acks record.Acks) error {
	p, err := producer.New(cluster, producer.Config{Acks: acks})
	if err != nil {
		return err
	}
	_, err = p.Send(ctx, record.String("orders", "", "barrier"))
	return errors.Join(err, p.Close())
}

// badNetwork is a way to the broker that loses one answer.
type badNetwork struct {
	producer.Backend
	lose     int32 // the answer to this batch; 0: none
	requests atomic.Int32
	sent     chan int // how many records each batch has, if there is room
}

// await waits until so many records are on their way to the broker.
func (n *badNetwork) await(records int) {
	for records > 0 {
		records -= <-n.sent
	}
}

// errLost can be tried again: the producer cannot know what became of its request.
type errLost struct{}

func (errLost) Error() string   { return "lost" }
func (errLost) Retriable() bool { return true }

func (n *badNetwork) Produce(req *partition.ProduceRequest) {
	if n.requests.Add(1) == n.lose && req.Acks != record.AcksNone {
		done := req.Done
		req.Done = func(partition.ProduceResult) { done(partition.ProduceResult{Err: errLost{}}) }
	}
	records := 0
	if b, err := record.ParseUnverified(req.Batch); err == nil {
		records = int(b.RecordCount)
	}
	n.Backend.Produce(req) // takes the batch
	select {
	case n.sent <- records:
	default:
	}
}
