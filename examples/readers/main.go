// Command readers lets one writer, a fast reader, a slow reader and a group of two read the same log: nobody disturbs anybody.
package main

import (
	"context"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/consumer"
	"github.com/stratalog/strata/producer"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/topic"
)

func main() {
	if err := run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "readers:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	cluster, err := strata.Open(strata.Config{})
	if err != nil {
		return err
	}
	defer cluster.Close()
	if err := cluster.CreateTopic(ctx, "ticks", topic.Config{Partitions: 2}); err != nil {
		return err
	}
	alone, err := write(ctx, cluster, nil)
	if err != nil {
		return err
	}
	fmt.Printf("the writer alone:        %8.0f records/s\n", alone)

	readers, stop := context.WithCancel(ctx)
	var wg sync.WaitGroup
	var counts [4]atomic.Int64
	names := []string{"fast reader", "slow reader", "group member a", "group member b"}
	consumers := make([]*consumer.Consumer, len(names))
	for i := range names {
		cfg := consumer.Config{Topics: []string{"ticks"}, HeartbeatInterval: 50 * time.Millisecond}
		if i >= 2 {
			cfg.Group = "pair"
		}
		c, err := consumer.New(cluster, cfg)
		if err != nil {
			stop()
			return err
		}
		consumers[i] = c
		wg.Go(func() {
			for _, err := range c.Records(readers) {
				if err != nil {
					fmt.Fprintln(os.Stderr, names[i], err)
					return
				}
				if counts[i].Add(1)%100 == 0 && i == 1 {
					time.Sleep(10 * time.Millisecond)
				}
			}
		})
	}
	with, err := write(ctx, cluster, func() {
		fmt.Print("  lag:")
		for i, c := range consumers {
			var lag int64
			for _, n := range c.Lag() {
				lag += n
			}
			fmt.Printf("  %s %d", names[i], lag)
		}
		fmt.Println()
	})
	stop()
	wg.Wait()
	for _, c := range consumers {
		if err := c.Close(); err != nil {
			return err
		}
	}
	fmt.Printf("the writer with readers: %8.0f records/s\n\n", with)
	for i, name := range names {
		fmt.Printf("%-14s read %7d records\n", name, counts[i].Load())
	}
	fmt.Println("every reader has its own position: the slow one is behind, and nobody waits for it")
	return err
}

// write produces 200 records each millisecond for a second and returns the rate; tell is called a few times in between.
func write(ctx context.Context, cluster *strata.Cluster, tell func()) (float64, error) {
	p, err := producer.New(cluster, producer.Config{})
	if err != nil {
		return 0, err
	}
	defer p.Close()
	start, told, n := time.Now(), 0, 0
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for time.Since(start) < time.Second {
		<-tick.C
		for range 200 {
			p.SendAsync(ctx, record.String("ticks", "", "tick"), nil)
			n++
		}
		if tell != nil && int(time.Since(start)/(250*time.Millisecond)) > told {
			told++
			tell()
		}
	}
	if err := p.Flush(ctx); err != nil {
		return 0, err
	}
	return float64(n) / time.Since(start).Seconds(), nil
}
