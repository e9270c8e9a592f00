package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/producer"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/topic"
)

// settling is the time until partitions are idle. Their files are trimmed once, 10 to 20 s after
// the last write.
const settling = 25 * time.Second

// Sizes of the workloads about replicas.
const (
	killedLeaders  = 100  // W12
	idlePartitions = 1000 // W13, with three replicas each
)

func init() {
	register(entry{name: "strata-failover", replicas: &replicated, note: "from KillBroker of the leader to the next record that is acknowledged by producer.Send, three replicas, acks=all, SyncOnAck, files"})
	register(entry{name: "strata-failover-memory", replicas: &shape{brokers: 3, replicas: 3, memory: true}, note: "the same in memory"})
	workloads["W12"] = func(c *config, sel []entry) {
		c.measure("W12", fmt.Sprintf("%d leaders killed", killedLeaders), family(sel, func(e entry) bool { return e.replicas != nil }), func(e entry, dir string) Result {
			return spawn(Job{Op: "failover", Subject: e.name, Dir: dir, Size: 100})
		})
	}
	workloads["W13"] = func(c *config, sel []entry) {
		c.measure("W13", fmt.Sprintf("%d partitions x 3 idle", idlePartitions), family(sel, func(e entry) bool { return e.replicas != nil }), func(e entry, dir string) Result {
			return spawn(Job{Op: "idle", Subject: e.name, Dir: dir, Size: 100, MaxTime: 5 * c.maxTime})
		})
	}
	ops["failover"], ops["idle"] = opFailover, opIdle
}

// opFailover kills the leader again and again. P50 and P99 are the times a producer waits, MS is
// the longest.
func opFailover(j Job) (Result, error) {
	c, err := openCluster(j.Dir, true, *lookup(j.Subject).replicas)
	if err != nil {
		return Result{}, err
	}
	defer c.Close()
	p, err := producer.New(c, producer.Config{})
	if err != nil {
		return Result{}, err
	}
	defer p.Close()
	value := payloads(j.Size, 1)()[0]
	var took []time.Duration
	for range killedLeaders {
		if _, err := p.Send(bg, record.Record{Topic: benchTopic, Value: value}); err != nil {
			return Result{}, err
		}
		d, err := failOver(c, p, value)
		if err != nil {
			return Result{}, err
		}
		took = append(took, d)
	}
	slices.Sort(took)
	at := func(q float64) float64 { return float64(took[int(q*float64(len(took)-1))].Microseconds()) }
	return Result{Records: killedLeaders, P50: at(.5), P99: at(.99), MS: at(1) / 1000}, nil
}

// failOver returns the time from the kill of a leader to the first record that the next leader
// acknowledges. Then it waits until all replicas are in sync again.
func failOver(c *strata.Cluster, p *producer.Producer, value []byte) (time.Duration, error) {
	backend, tp := c.Backend(), record.TopicPartition{Topic: benchTopic}
	ctx, cancel := context.WithTimeout(bg, time.Minute)
	defer cancel()
	gone := backend.Leader(benchTopic, 0)
	killed := make(chan error, 1)
	begin := time.Now()
	go func() { killed <- c.KillBroker(gone) }()
	var err error
	for backend.Leader(benchTopic, 0) == gone && err == nil { // the old leader may acknowledge
		_, err = p.Send(ctx, record.Record{Topic: benchTopic, Value: value})
	}
	if err == nil {
		_, err = p.Send(ctx, record.Record{Topic: benchTopic, Value: value})
	}
	d := time.Since(begin)
	err = errors.Join(err, <-killed)
	if err == nil {
		err = c.StartBroker(ctx, gone)
	}
	if err == nil {
		err = backend.WaitISR(ctx, tp)
	}
	return d, err
}

// opIdle measures the CPU time of idle partitions. P50 is the share of one processor, in
// millionths.
func opIdle(j Job) (Result, error) {
	c, err := openCluster(j.Dir, false, *lookup(j.Subject).replicas)
	if err != nil {
		return Result{}, err
	}
	defer c.Close()
	if err := c.CreateTopic(bg, "idle", topic.Config{Partitions: idlePartitions, ReplicationFactor: 3}); err != nil {
		return Result{}, err
	}
	p, err := producer.New(c, producer.Config{Partitioner: topic.Manual()})
	if err != nil {
		return Result{}, err
	}
	defer p.Close()
	for i := range int32(idlePartitions) { // so that each has files and followers
		p.SendAsync(bg, record.Record{Topic: "idle", Partition: i, Value: []byte("x")}, nil)
	}
	if err := p.Flush(bg); err != nil {
		return Result{}, err
	}
	time.Sleep(settling)
	begin, cpu := time.Now(), cpuTime()
	time.Sleep(max(j.MaxTime, 5*time.Second))
	share := float64(cpuTime()-cpu) / float64(time.Since(begin))
	return Result{Records: idlePartitions, P50: share * 1e6}, nil
}
