package main

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/stratalog/strata/consumer"
	"github.com/stratalog/strata/producer"
	"github.com/stratalog/strata/record"
)

// strataTail produces at a fixed rate. It measures the latencies of all readers, from SendAsync to
// the body of the reader's loop. The reported rate is the writer's.
func strataTail(j Job) (Result, error) {
	c, err := openCluster(j.Dir, false, shape{})
	if err != nil {
		return Result{}, err
	}
	p, err := producer.New(c, producer.Config{})
	if err != nil {
		return Result{}, err
	}
	const perTick = 10
	n := int64(j.MaxTime/time.Millisecond) * perTick
	ctx, cancel := context.WithTimeout(bg, time.Minute)
	defer cancel()
	epoch := time.Now()
	lats := make([][]int64, j.Writers)
	errs := make(chan error, j.Writers+1)
	for i := range j.Writers {
		r, err := consumer.New(c, consumer.Config{Assign: record.Offsets{{Topic: benchTopic}: 0}})
		if err != nil {
			return Result{}, err
		}
		go func() { errs <- follow(ctx, r, n, epoch, &lats[i]) }()
	}
	m := startMeter()
	if err := pace(p, j.Size, n, perTick, epoch); err != nil {
		return Result{}, err
	}
	r := m.stop(n, n*int64(j.Size))
	for range j.Writers {
		if err := <-errs; err != nil {
			return Result{}, err
		}
	}
	var all []int64
	for _, l := range lats {
		all = append(all, l...)
	}
	r.P50, r.P99, r.P999 = percentiles(all)
	if err := p.Close(); err != nil {
		return Result{}, err
	}
	return r, c.Close()
}

// pace sends n records, perTick every millisecond, and returns when the last one is acknowledged.
func pace(p *producer.Producer, size int, n int64, perTick int, epoch time.Time) error {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	start := time.Now()
	buf := make([]byte, size)
	var failed atomic.Pointer[error]
	done := func(_ record.Record, err error) {
		if err != nil {
			e := err
			failed.Store(&e)
		}
	}
	for sent := int64(0); sent < n; {
		<-tick.C
		// ticks may be dropped, so the number due is computed from the time
		due := min(n, int64(time.Since(start)/time.Millisecond)*int64(perTick))
		for ; sent < due; sent++ {
			stampTime(buf, epoch)
			p.SendAsync(bg, record.Record{Topic: benchTopic, Value: buf}, done)
		}
	}
	if err := p.Flush(bg); err != nil {
		return err
	}
	if err := failed.Load(); err != nil {
		return *err
	}
	return nil
}

func follow(ctx context.Context, r *consumer.Consumer, n int64, epoch time.Time, lats *[]int64) error {
	seen := int64(0)
	for rec, err := range r.Records(ctx) {
		if err != nil {
			return err
		}
		*lats = append(*lats, sinceStamp(rec.Value, epoch))
		if seen++; seen == n {
			break
		}
	}
	if seen < n {
		return fmt.Errorf("a reader saw %d of %d records", seen, n)
	}
	return r.Close()
}
