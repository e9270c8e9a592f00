// Command workers puts a pool of workers behind one consumer: records are done in any order, offsets are committed without gaps.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/consumer"
	"github.com/stratalog/strata/producer"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/topic"
)

const total = 400

func main() {
	if err := run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "workers:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	cluster, err := strata.Open(strata.Config{})
	if err != nil {
		return err
	}
	defer cluster.Close()
	for _, name := range []string{"mails", "mails-failed"} {
		if err := cluster.CreateTopic(ctx, name, topic.Config{Partitions: 2}); err != nil {
			return err
		}
	}
	p, err := producer.New(cluster, producer.Config{})
	if err != nil {
		return err
	}
	defer p.Close()
	for i := range total {
		if _, err := p.Send(ctx, record.String("mails", fmt.Sprintf("user-%d", i%50), fmt.Sprint(i))); err != nil {
			return err
		}
	}
	for _, workers := range []int{1, 16} {
		if err := deliver(ctx, cluster, p, workers); err != nil {
			return err
		}
	}
	dead, err := cluster.Offsets(ctx, "mails-failed", strata.Latest)
	if err != nil {
		return err
	}
	var n int64
	for _, end := range dead {
		n += end
	}
	fmt.Printf("the dead letter topic holds %d records: what no retry could save did not stop the rest\n", n)
	return nil
}

// deliver lets a pool of workers go through the topic, as a group of its own.
func deliver(ctx context.Context, cluster *strata.Cluster, p *producer.Producer, workers int) error {
	group := fmt.Sprintf("mailers-%d", workers)
	c, err := consumer.New(cluster, consumer.Config{Group: group, Topics: []string{"mails"}})
	if err != nil {
		return err
	}
	var done, failed, busy, most atomic.Int64
	start := time.Now()
	err = c.Run(ctx, func(ctx context.Context, r record.Record) error {
		if n := busy.Add(1); n > most.Load() {
			most.Store(n)
		}
		defer busy.Add(-1)
		time.Sleep(time.Millisecond) // the mail server
		if string(r.Value) == "13" || string(r.Value) == "222" {
			failed.Add(1)
			return errors.New("no such mailbox")
		}
		if done.Add(1) == total-2 {
			c.Wakeup() // ends Run: handlers at work finish, offsets are committed on Close
		}
		return nil
	}, consumer.RunConfig{
		Workers: workers, Order: consumer.ByKey, // the mails of one user stay in order
		Retries: 2, MinBackoff: time.Millisecond, DeadLetter: consumer.DeadLetterTopic(p, "mails-failed"),
	})
	if err = errors.Join(err, c.Close()); err != nil {
		return err
	}
	committed, err := cluster.FetchOffsets(ctx, group, nil)
	if err != nil {
		return err
	}
	fmt.Printf("%2d workers: %d delivered, %d failed attempts, at most %d at a time, %4d ms; committed", workers, done.Load(), failed.Load(), most.Load(), time.Since(start).Milliseconds())
	for tp, co := range committed {
		fmt.Printf("  %s-%d: %d", tp.Topic, tp.Partition, co.Offset)
	}
	fmt.Println()
	return nil
}
