package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/producer"
	"github.com/stratalog/strata/record"
)

const (
	orders = 500
	atOnce = 10               // orders that come together
	pause  = time.Millisecond // between them and the next ones
)

// batching sends a trickle of records under different lingers: a batch that waits for
// company costs less and answers later.
func batching(ctx context.Context, cluster *strata.Cluster, out io.Writer) error {
	fmt.Fprintf(out, "%d orders, %d every %v, all acknowledged by all:\n", orders, atOnce, pause)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "  batch bytes\tlinger\trecords a batch\tmedian\tslowest")
	for _, cfg := range []producer.Config{
		{BatchBytes: 1}, // every record has a batch of its own
		{},              // a batch takes those that come while its predecessor is written
		{Linger: 5 * time.Millisecond},
		{Linger: 50 * time.Millisecond},
	} {
		perBatch, times, err := trickle(ctx, cluster, cfg)
		if err != nil {
			return err
		}
		size := "64 KiB"
		if cfg.BatchBytes != 0 {
			size = fmt.Sprint(cfg.BatchBytes)
		}
		fmt.Fprintf(w, "  %s\t%v\t%.1f\t%s\t%s\n", size, cfg.Linger, perBatch, micros(times[len(times)/2]), micros(times[len(times)-1]))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintln(out, "Linger buys larger batches with latency. Without it a batch still grows by what arrives while the disk is busy.")
	return err
}

// trickle sends the orders and returns how many shared a batch, on
// average, and how long each took, sorted.
func trickle(ctx context.Context, cluster *strata.Cluster, cfg producer.Config) (perBatch float64, took []time.Duration, err error) {
	var mu sync.Mutex // guards took and failed
	var failed error
	err = withProducer(cluster, cfg, func(p *producer.Producer) error {
		for i := range orders {
			start := time.Now()
			p.SendAsync(ctx, record.String("orders", "", fmt.Sprint("order ", i)), func(_ record.Record, err error) {
				mu.Lock()
				defer mu.Unlock()
				took = append(took, time.Since(start))
				if err != nil {
					failed = err
				}
			})
			if (i+1)%atOnce == 0 {
				time.Sleep(pause)
			}
		}
		if err := p.Flush(ctx); err != nil {
			return err
		}
		perBatch = float64(orders) / float64(p.Stats().Batches)
		return nil
	})
	if err == nil {
		err = failed
	}
	slices.Sort(took)
	return perBatch, took, err
}
