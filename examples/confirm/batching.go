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
	atOnce = 10               // orders that arrive together
	pause  = time.Millisecond // time until the next ones
)

// batching sends a trickle of records with different lingers: larger batches cost less, and are
// acknowledged later.
func batching(ctx context.Context, cluster strata.Client, out io.Writer) error {
	fmt.Fprintf(out, "%d orders, %d every %v, all acknowledged by all:\n", orders, atOnce, pause)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "  batch bytes\tlinger\trecords per batch\tmedian\tslowest")
	for _, cfg := range []producer.Config{
		{BatchBytes: 1}, // every record has its own batch
		{},              // a batch takes the records that arrive while the previous one is written
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
	_, err := fmt.Fprintln(out, "Linger gives larger batches and more latency. Without it a batch still takes all records that arrive while the disk is busy.")
	return err
}

// trickle sends the orders. It returns the average number of records per batch, and the sorted
// durations of the sends.
func trickle(ctx context.Context, cluster strata.Client, cfg producer.Config) (perBatch float64, took []time.Duration, err error) {
	var mu sync.Mutex // guards took and failed
	var failed error
	err = withProducer(cluster, cfg, func(p *producer.Producer) error {
		for i := range orders {
			start := time.Now()
			p.SendAsync(ctx, record.String(at.Name("orders"), "", fmt.Sprint("order ", i)), func(_ record.Record, err error) {
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
