// Command grow adds partitions to a live topic. It shows which keys move to another partition, and
// that existing records do not move.
//
//	go run ./examples/grow [-kafka HOST:PORT]
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/examples/internal/place"
	"github.com/stratalog/strata/producer"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/topic"
)

const keys = 24

// at is where the example runs.
var at place.Place

func main() {
	at = place.FromFlags()
	if err := run(context.Background(), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "grow:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer) (err error) {
	cluster, err := at.Open(ctx, strata.Config{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, at.Close(cluster)) }()
	return grow(ctx, cluster, out)
}

func grow(ctx context.Context, cluster strata.Client, out io.Writer) error {
	if err := cluster.CreateTopic(ctx, at.Name("orders"), topic.Config{Partitions: 4}); err != nil {
		return err
	}
	p, err := producer.New(cluster, producer.Config{})
	if err != nil {
		return err
	}
	defer p.Close()

	before, err := sendAll(ctx, p)
	if err != nil {
		return err
	}
	written, err := cluster.Offsets(ctx, at.Name("orders"), strata.Latest)
	if err != nil {
		return err
	}
	if err := cluster.AddPartitions(ctx, at.Name("orders"), 6); err != nil {
		return err
	}
	still, err := cluster.Offsets(ctx, at.Name("orders"), strata.Latest)
	if err != nil {
		return err
	}
	after, err := sendAll(ctx, p)
	if err != nil {
		return err
	}

	moved := 0
	fmt.Fprintln(out, "key       4 partitions   6 partitions")
	for k := range keys {
		mark := ""
		if before[k] != after[k] {
			mark = "   moves"
			moved++
		}
		fmt.Fprintf(out, "user-%-2d   %12d   %12d%s\n", k, before[k], after[k], mark)
	}
	if moved == 0 {
		return errors.New("no key has moved: the producer still uses 4 partitions")
	}
	fmt.Fprintf(out, "\nNew records of %d of %d keys go to another partition: their order across the change is not kept.\n", moved, keys)
	fmt.Fprintln(out, "Existing records do not move; records per partition before and right after adding:")
	for i := range int32(6) {
		tp := record.TopicPartition{Topic: at.Name("orders"), Partition: i}
		fmt.Fprintf(out, "  orders-%d: %2d -> %2d\n", i, written[tp], still[tp])
		if written[tp] != still[tp] {
			return fmt.Errorf("orders-%d had %d records and has %d", i, written[tp], still[tp])
		}
	}
	return nil
}

// sendAll sends one record of each key and returns the partitions that they went to.
func sendAll(ctx context.Context, p *producer.Producer) ([]int32, error) {
	var rs []record.Record
	for k := range keys {
		rs = append(rs, record.String(at.Name("orders"), fmt.Sprintf("user-%d", k), "order"))
	}
	acks, err := p.Send(ctx, rs...)
	if err != nil {
		return nil, err
	}
	var partitions []int32
	for _, a := range acks {
		partitions = append(partitions, a.Partition)
	}
	return partitions, nil
}
