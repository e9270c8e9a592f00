package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/consumer"
	"github.com/stratalog/strata/producer"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/topic"
)

// Sizes of the workloads about many members of one group.
const (
	crowdMembers    = 1000 // W16; also the number of partitions
	shareMembers    = 64   // W17
	sharePartitions = 6
)

func init() {
	register(entry{name: "strata-848", crowd: opJoin, note: "KIP-848 in process, in memory, members start at once; ms: until the last has its partition; p50, p99: until a member has"})
	register(entry{name: "strata-share", crowd: opShare, note: "share group in process, in memory, each polls up to 500 records and accepts them; a record counts when its acknowledgement is answered"})
	workloads["W16"] = func(c *config, sel []entry) {
		c.measure("W16", fmt.Sprintf("%d members join", crowdMembers), family(sel, func(e entry) bool { return e.name == "strata-848" }), func(e entry, dir string) Result {
			return spawn(Job{Op: "crowd", Subject: e.name})
		})
	}
	workloads["W17"] = func(c *config, sel []entry) {
		c.measure("W17", fmt.Sprintf("share group %dp %dm 100B", sharePartitions, shareMembers), family(sel, func(e entry) bool { return e.name == "strata-share" }), func(e entry, dir string) Result {
			return spawn(Job{Op: "crowd", Subject: e.name, Size: 100, Bytes: min(c.bytes, 64<<20)})
		})
	}
	ops["crowd"] = func(j Job) (Result, error) { return lookup(j.Subject).crowd(j) }
}

// opJoin starts all members of one group at once.
func opJoin(Job) (Result, error) {
	c, err := strata.Open(strata.Config{})
	if err != nil {
		return Result{}, err
	}
	if err := c.CreateTopic(bg, benchTopic, topic.Config{Partitions: crowdMembers}); err != nil {
		return Result{}, err
	}
	ctx, cancel := context.WithTimeout(bg, time.Minute)
	defer cancel()
	began := time.Now()
	took := make([]time.Duration, crowdMembers)
	errs := make([]error, crowdMembers)
	var owned, members sync.WaitGroup
	for i := range crowdMembers {
		owned.Add(1)
		first := sync.OnceFunc(func() { took[i] = time.Since(began); owned.Done() })
		members.Go(func() {
			m, err := consumer.New(c, consumer.Config{Group: "bench", Topics: []string{benchTopic}, Protocol: consumer.ProtocolConsumer,
				OnAssigned: func(_ context.Context, tps []record.TopicPartition) {
					if len(tps) > 0 {
						first()
					}
				}})
			if err == nil {
				_, err = m.Poll(ctx)
			}
			if err != nil && !errors.Is(err, context.Canceled) {
				errs[i] = err
				first()
			}
		})
	}
	owned.Wait()
	r := Result{Records: crowdMembers, MS: float64(time.Since(began).Microseconds()) / 1000}
	cancel()
	members.Wait()
	slices.Sort(took)
	r.P50, r.P99 = float64(took[crowdMembers/2].Microseconds()), float64(took[crowdMembers*99/100].Microseconds())
	return r, errors.Join(errs...)
}

// opShare runs members of a share group until they have accepted all records of the topic.
func opShare(j Job) (Result, error) {
	c, err := strata.Open(strata.Config{})
	if err != nil {
		return Result{}, err
	}
	if err := c.CreateTopic(bg, benchTopic, topic.Config{Partitions: sharePartitions}); err != nil {
		return Result{}, err
	}
	p, err := producer.New(c, producer.Config{})
	if err != nil {
		return Result{}, err
	}
	n := j.Bytes / int64(j.Size)
	next := payloads(j.Size, 1)
	for range n {
		p.SendAsync(bg, record.Record{Topic: benchTopic, Value: next()[0]}, func(record.Record, error) {})
	}
	if err := p.Flush(bg); err != nil {
		return Result{}, err
	}
	ctx, cancel := context.WithTimeout(bg, time.Minute)
	defer cancel()
	var accepted atomic.Int64
	var members sync.WaitGroup
	errs := make([]error, shareMembers)
	m := startMeter()
	for i := range shareMembers {
		members.Go(func() {
			s, err := consumer.NewShare(c, consumer.ShareConfig{Group: "bench", Topics: []string{benchTopic}, MaxRecords: 500, Explicit: true})
			for err == nil && accepted.Load() < n {
				var rs []consumer.ShareRecord
				if rs, err = s.Poll(ctx); err == nil {
					if err = s.Accept(ctx, rs...); err == nil && accepted.Add(int64(len(rs))) >= n {
						cancel()
					}
				}
			}
			if err != nil && !errors.Is(err, context.Canceled) {
				errs[i] = err
			}
		})
	}
	members.Wait()
	return m.stop(accepted.Load(), accepted.Load()*int64(j.Size)), errors.Join(errs...)
}
