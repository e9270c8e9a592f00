// Command readers runs one writer, a fast reader, a slow reader and a group of two on the same log,
// and shows that they do not disturb each other.
//
//	go run ./examples/readers [-kafka HOST:PORT]
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/consumer"
	"github.com/stratalog/strata/examples/internal/place"
	"github.com/stratalog/strata/producer"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/topic"
)

const (
	perMillisecond = 200
	records        = 200_000 // in about a second
)

// at is where the example runs.
var at place.Place

func main() {
	at = place.FromFlags()
	if err := run(context.Background(), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "readers:", err)
		os.Exit(1)
	}
}

// run writes the same load twice, each time to a new topic: without readers, then with four readers
// that all have their partitions before the first record is written.
func run(ctx context.Context, out io.Writer) (err error) {
	cluster, err := at.Open(ctx, strata.Config{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, at.Close(cluster)) }()
	for _, name := range []string{"alone", "ticks"} {
		if err := cluster.CreateTopic(ctx, at.Name(name), topic.Config{Partitions: 2}); err != nil {
			return err
		}
	}
	rate, err := write(ctx, cluster, "alone", nil)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "the writer alone:        %8.0f records/s\n", rate)

	readers := []*reader{{name: "fast reader"}, {name: "slow reader", slow: true}, {name: "group member a", group: at.Name("pair")}, {name: "group member b", group: at.Name("pair")}}
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
	drawing := "" // of the last of these moments
	rate, err = write(ctx, cluster, "ticks", func(written int) {
		fmt.Fprint(out, "  lag:")
		for _, r := range readers {
			fmt.Fprintf(out, "  %s %d", r.name, r.lag())
		}
		fmt.Fprintln(out)
		drawing = draw(written, readers)
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
	fmt.Fprintf(out, "the writer with readers: %8.0f records/s\n\n%s\n", rate, drawing)
	for _, r := range readers {
		fmt.Fprintf(out, "%-14s read %7d records\n", r.name, r.count.Load())
	}
	fmt.Fprintln(out, "every reader has its own position: the slow reader is behind, and no other waits for it; the two members of the group share the records")
	return nil
}

// draw shows how many of the written records each reader has read.
func draw(written int, readers []*reader) string {
	const each = 5000 // records a character
	var s strings.Builder
	fmt.Fprintf(&s, "%-14s |%s|  = is %d records\n", "in the topic", strings.Repeat("=", written/each), each)
	for _, r := range readers {
		fmt.Fprintf(&s, "%-14s |%s\n", r.name, strings.Repeat("=", int(r.count.Load()/each)))
	}
	return s.String()
}

// waitUntil calls so every millisecond until it returns true.
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

func (r *reader) run(ctx context.Context, cluster strata.Client) error {
	c, err := consumer.New(cluster, consumer.Config{
		Group: r.group, Topics: []string{at.Name("ticks")}, ClientID: r.name,
		// bounds the time until a member notices that the other one has joined
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

// write produces the load and returns its rate. It calls show, which may be nil, a few times with
// the number of records so far.
func write(ctx context.Context, cluster strata.Client, name string, show func(written int)) (float64, error) {
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
			p.SendAsync(ctx, record.String(at.Name(name), "", "tick"), nil)
			n++
		}
		if show != nil && n%(records/4) == 0 {
			show(n)
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
