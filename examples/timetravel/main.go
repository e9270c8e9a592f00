// Command timetravel reads a log with a consumer without a group: from a point in time, to its end,
// and again from the start.
//
//	go run ./examples/timetravel [-kafka HOST:PORT]
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/consumer"
	"github.com/stratalog/strata/examples/internal/place"
	"github.com/stratalog/strata/producer"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/topic"
)

// at is where the example runs.
var at place.Place

func main() {
	at = place.FromFlags()
	if err := run(context.Background(), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "timetravel:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer) (err error) {
	cluster, err := at.Open(ctx, strata.Config{}) // in memory
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, at.Close(cluster)) }()
	return travel(ctx, cluster, out)
}

func travel(ctx context.Context, cluster strata.Client, out io.Writer) error {
	if err := cluster.CreateTopic(ctx, at.Name("temperature"), topic.Config{Partitions: 1}); err != nil {
		return err
	}
	day := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	if err := measure(ctx, cluster, day); err != nil {
		return err
	}

	tp := record.TopicPartition{Topic: at.Name("temperature"), Partition: 0}
	c, err := consumer.New(cluster, consumer.Config{Assign: record.Offsets{tp: consumer.StartEarliest}, MaxPollRecords: 3})
	if err != nil {
		return err
	}
	defer c.Close()

	fmt.Fprintln(out, "a consumer without a group: no commits, the position is only in the consumer\n"+
		"(# is a record of this read, . another record, | the position)")
	if err := show(ctx, out, c, tp, "from the start"); err != nil {
		return err
	}
	if err := c.SeekTime(ctx, day.Add(14*time.Hour+30*time.Minute), tp); err != nil {
		return err
	}
	if err := show(ctx, out, c, tp, "from 14:30"); err != nil {
		return err
	}
	end, err := cluster.Offsets(ctx, tp.Topic, strata.Latest)
	if err != nil {
		return err
	}
	if err := c.Seek(tp, end[tp]-2); err != nil {
		return err
	}
	if err := show(ctx, out, c, tp, "the last two"); err != nil {
		return err
	}
	newest, err := cluster.Offsets(ctx, tp.Topic, strata.MaxTimestamp)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "\nnewest timestamp is at offset %d; reading removes nothing: the log still has %d records\n", newest[tp], end[tp])
	if err := c.SeekToStart(tp); err != nil {
		return err
	}
	return show(ctx, out, c, tp, "replayed from the start")
}

// measure produces one temperature per hour of a day.
func measure(ctx context.Context, cluster strata.Client, day time.Time) error {
	p, err := producer.New(cluster, producer.Config{})
	if err != nil {
		return err
	}
	defer p.Close()
	for hour := range 24 {
		r := record.String(at.Name("temperature"), "roof", fmt.Sprintf("%d °C", 20-(hour-14)*(hour-14)/10))
		r.Timestamp = day.Add(time.Duration(hour) * time.Hour)
		if _, err := p.Send(ctx, r); err != nil {
			return err
		}
	}
	return nil
}

// show polls once.
func show(ctx context.Context, out io.Writer, c *consumer.Consumer, tp record.TopicPartition, what string) error {
	fmt.Fprintf(out, "\n%s:\n", what)
	b, err := c.Poll(ctx)
	if err != nil {
		return err
	}
	for r := range b.All() {
		fmt.Fprintf(out, "  offset %2d  %s  %s\n", r.Offset, r.Timestamp.UTC().Format("15:04"), r.Value)
	}
	position, lag := c.Position(tp), c.Lag()[tp]
	fmt.Fprintf(out, "  %s  position %d, lag %d\n", drawing(int(position), b.Len(), int(lag)), position, lag)
	return nil
}

// drawing returns a picture of the log: the last read records before a position, and the others.
func drawing(position, read, behind int) string {
	return strings.Repeat(".", position-read) + strings.Repeat("#", read) + "|" + strings.Repeat(".", behind)
}
