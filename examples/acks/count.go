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

// A count is the result of the records of one producer.
type count struct {
	confirmed     int // acknowledged to the producer
	inLog         int // distinct records
	lost, doubled int // confirmed and not in the log; in the log more than once
	drawing       []byte
}

// compare reads the topic to its end.
func compare(ctx context.Context, cluster *strata.Cluster, told map[string]bool) (c count, err error) {
	if err := barrier(ctx, cluster, record.AcksAll); err != nil { // so that unacknowledged records are written too
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
		sign := byte('#')
		switch {
		case n == 0 && written:
			c.lost++
			sign = 'x'
		case n == 0:
			sign = '.'
		case n > 1:
			c.doubled++
			sign = '2'
		}
		c.inLog += min(n, 1)
		c.drawing = append(c.drawing, sign)
	}
	return c, nil
}

// barrier writes a record that is not counted. When it is acknowledged, all earlier records of the
// partition are written.
func barrier(ctx context.Context, cluster *strata.Cluster, acks record.Acks) error {
	p, err := producer.New(cluster, producer.Config{Acks: acks})
	if err != nil {
		return err
	}
	_, err = p.Send(ctx, record.String("orders", "", "barrier"))
	return errors.Join(err, p.Close())
}

// badNetwork is a connection to the broker that drops one response.
type badNetwork struct {
	producer.Backend
	lose     int32 // number of the batch whose response is dropped; 0: none
	requests atomic.Int32
	sent     chan int // number of records of each batch, if there is room
}

// await waits until n records are on their way to the broker.
func (n *badNetwork) await(records int) {
	for records > 0 {
		records -= <-n.sent
	}
}

// errLost is retriable: the producer cannot know whether its request was applied.
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
