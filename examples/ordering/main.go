// Command ordering lets two producers write at the same time, first to one partition, then to
// three, and shows which order every reader sees.
//
//	go run ./examples/ordering [-kafka HOST:PORT]
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/consumer"
	"github.com/stratalog/strata/examples/internal/place"
	"github.com/stratalog/strata/producer"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/topic"
)

const each = 12 // records of each producer

// at is where the example runs.
var at place.Place

func main() {
	at = place.FromFlags()
	if err := run(context.Background(), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "ordering:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer) (err error) {
	cluster, err := at.Open(ctx, strata.Config{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, at.Close(cluster)) }()
	for _, partitions := range []int{1, 3} {
		name := at.Name(fmt.Sprintf("events-%d", partitions))
		if err := cluster.CreateTopic(ctx, name, topic.Config{Partitions: partitions}); err != nil {
			return err
		}
		if err := produce(ctx, cluster, name); err != nil {
			return err
		}
		first, err := read(ctx, cluster, name)
		if err != nil {
			return err
		}
		second, err := read(ctx, cluster, name)
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "two producers, a and b, and %d partition(s)\n", partitions)
		byPartition := map[int32][]string{}
		for _, r := range first {
			byPartition[r.Partition] = append(byPartition[r.Partition], string(r.Value))
		}
		for i := range int32(partitions) {
			fmt.Fprintf(out, "  partition %d: %s\n", i, strings.Join(byPartition[i], " "))
			fmt.Fprintf(out, "     a's records in a's order: %v, b's in b's: %v, a second reader sees the same: %v\n",
				ordered(byPartition[i], "a"), ordered(byPartition[i], "b"), same(first, second, i))
		}
		var all []string
		for _, r := range first {
			all = append(all, string(r.Value))
		}
		fmt.Fprintf(out, "  the topic as a whole, as it was read: %s\n     in a's order: %v\n\n", strings.Join(all, " "), ordered(all, "a"))
	}
	fmt.Fprintln(out, "A partition is one sequence, the same for all readers. Records of several producers are in the order of their arrival at the leader. Between partitions there is no order.")
	return nil
}

// produce runs two producers at once, each of which writes in its own order.
func produce(ctx context.Context, cluster strata.Client, name string) error {
	var wg sync.WaitGroup
	errs := make([]error, 2)
	for i, who := range []string{"a", "b"} {
		p, err := producer.New(cluster, producer.Config{})
		if err != nil {
			return err
		}
		defer p.Close()
		wg.Go(func() {
			for n := range each {
				// otherwise the first would finish before the second begins
				time.Sleep(time.Duration(rand.IntN(2000)) * time.Microsecond)
				if _, err := p.Send(ctx, record.String(name, "", who+strconv.Itoa(n))); err != nil {
					errs[i] = err
				}
			}
		})
	}
	wg.Wait()
	if errs[0] != nil {
		return errs[0]
	}
	return errs[1]
}

// read returns all records in the order in which a reader gets them.
func read(ctx context.Context, cluster strata.Client, name string) (rs []record.Record, err error) {
	for r, err := range consumer.Read(ctx, cluster, consumer.ReadConfig{Topic: name}) {
		if err != nil {
			return nil, err
		}
		rs = append(rs, r)
	}
	return rs, nil
}

// ordered reports whether the values of one producer are in the order in which it sent them.
func ordered(values []string, who string) bool {
	last := -1
	for _, v := range values {
		if n, _ := strconv.Atoi(v[1:]); v[:1] == who {
			if n < last {
				return false
			}
			last = n
		}
	}
	return true
}

// same reports whether two readers saw the same sequence of a partition.
func same(first, second []record.Record, partition int32) bool {
	var a, b []string
	for _, r := range first {
		if r.Partition == partition {
			a = append(a, string(r.Value))
		}
	}
	for _, r := range second {
		if r.Partition == partition {
			b = append(b, string(r.Value))
		}
	}
	return strings.Join(a, " ") == strings.Join(b, " ")
}
