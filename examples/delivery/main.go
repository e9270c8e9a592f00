// Command delivery crashes a consumer in the middle of its work, and drops requests and replies of
// a producer, with each delivery guarantee. It counts lost and repeated records, and shows which
// kinds of data tolerate that.
//
//	go run ./examples/delivery [-kafka HOST:PORT]
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/examples/internal/place"
	"github.com/stratalog/strata/topic"
)

// at is where the example runs.
var at place.Place

func main() {
	at = place.FromFlags()
	if err := run(context.Background(), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "delivery:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer) (err error) {
	cluster, err := at.Open(ctx, strata.Config{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, at.Close(cluster)) }()
	for _, name := range []string{"coordinates", "states", "limits", "none", "retried", "idempotent"} {
		if err := cluster.CreateTopic(ctx, at.Name(name), topic.Config{Partitions: 1}); err != nil {
			return err
		}
	}
	if err := consumerSide(ctx, cluster, out); err != nil {
		return err
	}
	fmt.Fprintln(out)
	return producerSide(ctx, cluster, out)
}

// tally counts lost and repeated records, given how often each of total records was seen.
func tally(seen map[string]int, total int) (lost, repeated int) {
	for i := range total {
		switch n := seen[fmt.Sprint(i)]; {
		case n == 0:
			lost++
		case n > 1:
			repeated++
		}
	}
	return lost, repeated
}
