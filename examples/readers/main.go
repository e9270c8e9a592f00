// Command readers lets one writer, a fast reader, a slow reader and a group of two read
// the same log: nobody disturbs anybody.
//
//	go run ./examples/readers
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/consumer"
	"github.com/stratalog/strata/producer"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/topic"
)

const (
	perMillisecond = 200
	records        = 200_000 // in about a second
)

func main() {
	if err := run(context.Background(), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "readers:", err)
		os.Exit(1)
	}
}

// run writes the same load twice, each time to a topic of its own: with nobody reading, then with
// four readers that all have their partitions before the first record is written.
func run(ctx context.Context, out io.Writer) error {
	cluster, err := strata.Open(strata.Config{})
	if err != nil {
		return err
	}
	defer cluster.Close()
	for _, name := range []string{"alone", "ticks"} {
		if err := cluster.CreateTopic(ctx, name, topic.Config{Partitions: 2}); err != nil {
			return err
		}
	}
	rate, err := write(ctx, cluster, "alone", nil)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "the writer alone:        %8.0f records/s\n", rate)

	readers := []*reader{{name: "fast reader"}, {name: "slow reader", slow: true}, {name: "group member a", group: "pair"}, {name: "group member b", group: "pair"}}
	reading, stop := context.WithCancel(ctx)
	defer stop()
	var work errgroup.Group
	for _, r := range readers {
		work.Go(func() error { return r.run(reading, cluster) })
	}
	// two partitions each for the free ones, one each for the members
	err = waitUntil(ctx, func() bool {
		return readers[0].has(2) && readers[1].has(2) && readers[2].has(1) && readers[3].has(1)
	})
	if err != nil {
		stop()
		return errors.Join(err, work.Wait())
	}
	rate, err = write(ctx, cluster, "ticks", func() {
		fmt.Fprint(out, "  lag:")
		for _, r := range readers {
			fmt.Fprintf(out, "  %s %d", r.name, r.lag())
		}
		fmt.Fprintln(out)
	})
	if err == nil {
		err = waitUntil(ctx, func() bool { // the fast ones have read everything
			return readers[0].count.Load() == records && readers[2].count.Load()+readers[3].count.Load() == records
		})
	}
	stop()
	if err := errors.Join(err, work.Wait()); err != nil {
		return err
	}
	fmt.Fprintf(out, "the writer with readers: %8.0f records/s\n\n", rate)
	for _, r := range readers {
		fmt.Fprintf(out, "%-14s read %7d records\n", r.name, r.count.Load())
	}
	fmt.Fprintln(out, "every reader has its own position: the slow one is behind, and nobody waits for it; the two of the group share the records")
	return nil
}

// waitUntil looks every millisecond whether it is so.
func waitUntil(ctx context.Context, so func() bool) error {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !so() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// A reader reads topic ticks, alone or as a member of a group.
type reader struct {
	name  string
	group string
	slow  bool // rests for 10 ms after every 100 records

	c     atomic.Pointer[consumer.Consumer]
	count atomic.Int64
}

func (r *reader) run(ctx context.Context, cluster *strata.Cluster) error {
	c, err := consumer.New(cluster, consumer.Config{
		Group: r.group, Topics: []string{"ticks"}, ClientID: r.name,
		// how fast a member learns that the other one has come
		HeartbeatInterval: 50 * time.Millisecond,
	})
	if err != nil {
		return err
	}
	r.c.Store(c)
	for _, err := range c.Records(ctx) {
		if err != nil {
			return errors.Join(err, c.Close())
		}
		if r.count.Add(1)%100 == 0 && r.slow {
			time.Sleep(10 * time.Millisecond)
		}
	}
	return c.Close()
}

func (r *reader) has(partitions int) bool {
	c := r.c.Load()
	return c != nil && len(c.Assignment()) == partitions
}

func (r *reader) lag() (n int64) {
	for _, lag := range r.c.Load().Lag() {
		n += lag
	}
	return n
}

// write produces the load and returns its rate; tell, which may be
// nil, is called a few times in between.
func write(ctx context.Context, cluster *strata.Cluster, name string, tell func()) (float64, error) {
	p, err := producer.New(cluster, producer.Config{})
	if err != nil {
		return 0, err
	}
	defer p.Close()
	start := time.Now()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for n := 0; n < records; {
		<-tick.C
		for range perMillisecond {
			p.SendAsync(ctx, record.String(name, "", "tick"), nil)
			n++
		}
		if tell != nil && n%(records/4) == 0 {
			tell()
		}
	}
	if err := p.Flush(ctx); err != nil {
		return 0, err
	}
	if n := p.Stats().Acknowledged; n != records {
		return 0, fmt.Errorf("%d of %d records acknowledged", n, records)
	}
	return records / time.Since(start).Seconds(), nil
}
