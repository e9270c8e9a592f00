// Command partitioners sends the same thirty orders through each partitioner
// and shows which partition they go to.
//
//	go run ./examples/partitioners [-kafka HOST:PORT]
package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/examples/internal/place"
	"github.com/stratalog/strata/producer"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/topic"
)

const partitions = 6

var countries = []string{"de", "fr", "it", "pl", "se"}

// price is a key that sorts as the number does, for Range.
func price(n int) []byte { return binary.BigEndian.AppendUint32(nil, uint32(n)) }

// at is where the example runs.
var at place.Place

func main() {
	at = place.FromFlags()
	if err := run(context.Background(), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "partitioners:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer) (err error) {
	cluster, err := at.Open(ctx, strata.Config{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, at.Close(cluster)) }()

	country := func(i int) []byte { return []byte(countries[i%len(countries)]) }
	none := func(int) []byte { return nil }
	amount := func(i int) []byte { return price(i * 10) }
	byCountry := topic.List(map[string]int{"de": 0, "fr": 1}, topic.PartitionerFunc(func(record.Record, int) int { return 5 }))
	for _, c := range []struct {
		name, why string
		key       func(int) []byte
		p         topic.Partitioner
	}{
		{"default, key = country", "a key stays on its partition, and its order is kept", country, topic.Default()},
		{"default, no key", "in turn: even load, no order", none, topic.Default()},
		{"sticky, no key", "one partition until a batch is full: fewer, fuller batches", none, topic.Sticky()},
		{"xxhash, key = country", "faster than the default on long keys, but different from Kafka's clients", country, topic.XXHash()},
		{"list, key = country", "de and fr have their own partitions, the rest share the last", country, byCountry},
		{"range, key = price", "below 100, below 200, above", amount, topic.Range(price(100), price(200))},
		{"composite", "the range picks one of three blocks of two partitions, then in turn", amount,
			topic.Composite(topic.Range(price(100), price(200)), 2, topic.RoundRobin())},
		{"custom", "any function of the application", country,
			topic.PartitionerFunc(func(r record.Record, n int) int { return int(r.Key[0]) % n })},
	} {
		if err := show(ctx, out, cluster, c.name, c.why, c.key, c.p); err != nil {
			return err
		}
	}
	fmt.Fprintln(out, "A record with Record.To(4) goes to partition 4, whatever the partitioner.")
	return nil
}

// show sends thirty records and prints a row per partition, with the number of each record.
func show(ctx context.Context, out io.Writer, cluster strata.Client, name, why string, key func(int) []byte, by topic.Partitioner) error {
	t := strings.Map(func(r rune) rune {
		if r == ' ' || r == ',' || r == '=' {
			return '-'
		}
		return r
	}, at.Name(name))
	if err := cluster.CreateTopic(ctx, t, topic.Config{Partitions: partitions}); err != nil {
		return err
	}
	p, err := producer.New(cluster, producer.Config{Partitioner: by, BatchBytes: 200})
	if err != nil {
		return err
	}
	defer p.Close()
	var rows [partitions]string
	for i := range 30 {
		acks, err := p.Send(ctx, record.Record{Topic: t, Key: key(i), Value: []byte("an order of some size")})
		if err != nil {
			return err
		}
		label := fmt.Sprintf(" %2d", i)
		if k := string(key(i)); len(k) == 2 {
			label = " " + k
		}
		rows[acks[0].Partition] += label
	}
	fmt.Fprintf(out, "%s: %s\n", name, why)
	for i, row := range rows {
		fmt.Fprintf(out, "  %d |%s\n", i, row)
	}
	fmt.Fprintln(out)
	return nil
}
