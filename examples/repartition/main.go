// Command repartition shows the costs of a topic with too few partitions that is noticed late.
// Added partitions do not help with existing records, and break the order of keys for new ones. A
// copy to a larger topic by hand can repeat records.
//
//	go run ./examples/repartition [-kafka HOST:PORT]
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/consumer"
	"github.com/stratalog/strata/examples/internal/place"
	"github.com/stratalog/strata/producer"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/topic"
)

const (
	cards   = 20
	changes = 50 // of each card's limit, before the topic grows
)

// at is where the example runs.
var at place.Place

func main() {
	at = place.FromFlags()
	if err := run(context.Background(), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "repartition:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer) (err error) {
	cluster, err := at.Open(ctx, strata.Config{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, at.Close(cluster)) }()
	for name, partitions := range map[string]int{"limits": 2, "limits-6": 6} {
		if err := cluster.CreateTopic(ctx, at.Name(name), topic.Config{Partitions: partitions}); err != nil {
			return err
		}
	}
	if err := send(ctx, cluster, 0, changes); err != nil {
		return err
	}
	if err := grow(ctx, cluster, out); err != nil {
		return err
	}
	return copyTopic(ctx, cluster, out)
}

// send writes changes [from, to) of every card's limit, keyed by the card.
func send(ctx context.Context, cluster strata.Client, from, to int) error {
	p, err := producer.New(cluster, producer.Config{})
	if err != nil {
		return err
	}
	var rs []record.Record
	for n := from; n < to; n++ {
		for card := range cards {
			rs = append(rs, record.String(at.Name("limits"), fmt.Sprint("card-", card), strconv.Itoa(n)))
		}
	}
	_, err = p.Send(ctx, rs...)
	return errors.Join(err, p.Close())
}

// grow adds partitions to the topic while a consumer is behind.
func grow(ctx context.Context, cluster strata.Client, out io.Writer) error {
	fmt.Fprintf(out, "limits has 2 partitions and %d unread records. Four partitions are added, and %d more records written:\n",
		cards*changes, cards*changes)
	before, err := cluster.Offsets(ctx, at.Name("limits"), strata.Latest)
	if err != nil {
		return err
	}
	if err := cluster.AddPartitions(ctx, at.Name("limits"), 6); err != nil {
		return err
	}
	if err := send(ctx, cluster, changes, 2*changes); err != nil {
		return err
	}
	ends, err := cluster.Offsets(ctx, at.Name("limits"), strata.Latest)
	if err != nil {
		return err
	}
	const unit = 50
	fmt.Fprintf(out, "  (# is %d existing records, + %d new ones)\n", unit, unit)
	for p := range int32(6) {
		tp := record.TopicPartition{Topic: at.Name("limits"), Partition: p}
		bar := strings.Repeat("#", int(before[tp]/unit)) + strings.Repeat("+", int((ends[tp]-before[tp])/unit))
		fmt.Fprintf(out, "  limits-%d  %-16s %3d\n", p, bar, ends[tp])
	}
	fmt.Fprintln(out, "  existing records stay in the first two: their readers still have most of the work")

	// Readers of the new partitions have no backlog, so they are ahead of readers of the old ones.
	late := map[string]bool{} // cards of which an older change comes after a newer one
	newest := map[string]int{}
	for _, partitions := range [][]int32{{2, 3, 4, 5}, {0, 1}} {
		for r, err := range consumer.Read(ctx, cluster, consumer.ReadConfig{Topic: at.Name("limits"), Partitions: partitions}) {
			if err != nil {
				return err
			}
			n, card := number(r), string(r.Key)
			if n < newest[card] {
				late[card] = true
			}
			newest[card] = max(newest[card], n)
		}
	}
	_, err = fmt.Fprintf(out, "  %d of %d cards have moved to another partition, and a reader sees an older limit after a newer one\n\n", len(late), cards)
	return err
}

// copyTopic copies limits into a topic of six partitions with a program that is killed once,
// and started again from its last commit.
func copyTopic(ctx context.Context, cluster strata.Client, out io.Writer) error {
	fmt.Fprintln(out, "limits is copied to limits-6 by hand; the copier commits every 100 records and is killed once:")
	for life := 1; life <= 2; life++ {
		copied, err := copyOnce(ctx, cluster, life == 1)
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "  life %d copies %d records\n", life, copied)
	}
	seen := map[string]int{} // card and number of the change
	for r, err := range consumer.Read(ctx, cluster, consumer.ReadConfig{Topic: at.Name("limits-6")}) {
		if err != nil {
			return err
		}
		seen[fmt.Sprintf("%s %d", r.Key, number(r))]++
	}
	twice := 0
	for _, n := range seen {
		if n > 1 {
			twice++
		}
	}
	_, err := fmt.Fprintf(out, "  limits-6 has %d different records, %d of them twice: the broker recognises repeats of one producer, but each life has a new producer\n",
		len(seen), twice)
	return err
}

// copyOnce is one life of the copier: to the end, or until it is killed.
func copyOnce(ctx context.Context, cluster strata.Client, kill bool) (copied int, err error) {
	total, err := size(ctx, cluster)
	if err != nil {
		return 0, err
	}
	c, err := consumer.New(cluster, consumer.Config{Group: at.Name("copier"), InstanceID: "copier", Topics: []string{at.Name("limits")}, Commit: consumer.CommitManual})
	if err != nil {
		return 0, err
	}
	defer c.Close() // static and without commits of its own: the group gets no request
	p, err := producer.New(cluster, producer.Config{})
	if err != nil {
		return 0, err
	}
	defer p.Close()
	for r, err := range c.Records(ctx) {
		if err != nil {
			return copied, err
		}
		if _, err := p.Send(ctx, record.Record{Topic: at.Name("limits-6"), Key: r.Key, Value: r.Value, Timestamp: r.Timestamp}); err != nil {
			return copied, err
		}
		copied++
		if kill && copied == 250 {
			return copied, nil // 200 are committed
		}
		if copied%100 == 0 {
			if err := c.CommitReturned(ctx); err != nil {
				return copied, err
			}
		}
		if !kill && behind(c) == 0 {
			return copied, c.CommitReturned(ctx)
		}
	}
	return copied, fmt.Errorf("copied %d of %d", copied, total)
}

// behind returns the number of records that c has not received yet.
func behind(c *consumer.Consumer) (n int64) {
	lag := c.Lag()
	if len(lag) < len(c.Assignment()) {
		return -1 // not known yet
	}
	for _, l := range lag {
		n += l
	}
	return n
}

func size(ctx context.Context, cluster strata.Client) (n int64, err error) {
	ends, err := cluster.Offsets(ctx, at.Name("limits"), strata.Latest)
	for _, end := range ends {
		n += end
	}
	return n, err
}

func number(r record.Record) int {
	n, _ := strconv.Atoi(string(r.Value))
	return n
}
