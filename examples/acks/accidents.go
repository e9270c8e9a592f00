package main

import (
	"context"
	"errors"
	"strconv"
	"sync"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/producer"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/replication"
)

const total = 20

// orders is the partition of the example.
var orders = record.TopicPartition{Topic: "orders"}

// A sender writes the records 0 to 19 while an accident happens. It returns the records that were
// acknowledged.
type sender func(context.Context, *strata.Cluster, producer.Config) (told map[string]bool, err error)

// loseAnswer drops the response to the 5th record, which was written.
func loseAnswer(ctx context.Context, cluster *strata.Cluster, cfg producer.Config) (map[string]bool, error) {
	p, err := producer.New(&badNetwork{Backend: cluster, lose: 5}, cfg)
	if err != nil {
		return nil, err
	}
	told := map[string]bool{}
	for i := range total {
		_, err := p.Send(ctx, record.String("orders", "", strconv.Itoa(i)))
		told[strconv.Itoa(i)] = err == nil
	}
	return told, p.Close()
}

// killLeader cuts the leader's power when the followers lack the last five records.
func killLeader(ctx context.Context, cluster *strata.Cluster, cfg producer.Config) (map[string]bool, error) {
	link := &badNetwork{Backend: cluster, sent: make(chan int, 100)}
	p, err := producer.New(link, cfg)
	if err != nil {
		return nil, err
	}
	told := &outcomes{written: map[string]bool{}}
	send := func(from, to int) {
		var rs []record.Record
		for i := from; i < to; i++ {
			rs = append(rs, record.String("orders", "", strconv.Itoa(i)))
		}
		p.SendAllAsync(ctx, rs, told.note)
	}
	send(0, total-5)
	if err := errors.Join(p.Flush(ctx), barrier(ctx, cluster, record.AcksAll)); err != nil {
		return nil, err
	}
	link.await(total - 5)
	cutFollowers(cluster) // from here on they get no records
	send(total-5, total)
	link.await(5)                                                    // they are on their way to the leader
	if err := barrier(ctx, cluster, record.AcksLeader); err != nil { // the leader has all earlier records
		return nil, err
	}
	if err := cluster.KillBroker(1); err != nil {
		return nil, err
	}
	mendFollowers(cluster)
	err = errors.Join(p.Flush(ctx), p.Close(), cluster.StartBroker(ctx, 1), cluster.WaitISR(ctx, orders))
	return told.written, err // no goroutine writes to it any more
}

func cutFollowers(cluster *strata.Cluster) {
	for _, follower := range []int32{2, 3} {
		cluster.Network().Cut(replication.NetworkPath{From: follower, To: 1})
	}
}

func mendFollowers(cluster *strata.Cluster) {
	for _, follower := range []int32{2, 3} {
		cluster.Network().Mend(replication.NetworkPath{From: follower, To: 1})
	}
}

// outcomes collects the acknowledgements of a producer's records.
type outcomes struct {
	mu      sync.Mutex // callbacks run on goroutines of the cluster
	written map[string]bool
}

func (o *outcomes) note(r record.Record, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.written[string(r.Value)] = err == nil
}
