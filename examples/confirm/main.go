// Command confirm shows the acknowledgements of a producer and their costs: the three kinds, a lost
// reply with and without idempotence, and batching and linger against latency.
//
//	go run ./examples/confirm [-kafka HOST:PORT]
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/examples/internal/place"
	"github.com/stratalog/strata/producer"
	"github.com/stratalog/strata/topic"
	"github.com/stratalog/strata/vfs"
)

// at is where the example runs.
var at place.Place

func main() {
	at = place.FromFlags()
	if err := run(context.Background(), os.Stdout, vfs.OS()); err != nil {
		fmt.Fprintln(os.Stderr, "confirm:", err)
		os.Exit(1)
	}
}

// run works on real files, because the cost of an acknowledgement is the wait for the disk.
func run(ctx context.Context, out io.Writer, disk vfs.FS) (err error) {
	dir, err := os.MkdirTemp("", "strata-confirm-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	cluster, err := at.Open(ctx, strata.Config{Dir: dir, FS: disk})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, at.Close(cluster)) }()
	for _, name := range []string{"limits", "coordinates", "orders"} {
		if err := cluster.CreateTopic(ctx, at.Name(name), topic.Config{Partitions: 1}); err != nil {
			return err
		}
	}
	for _, scene := range []func(context.Context, strata.Client, io.Writer) error{acknowledgements, lostReply, batching} {
		if err := scene(ctx, cluster, out); err != nil {
			return err
		}
		fmt.Fprintln(out)
	}
	return nil
}

// withProducer runs f with a new producer on b.
func withProducer(b producer.Backend, cfg producer.Config, f func(*producer.Producer) error) error {
	p, err := producer.New(b, cfg)
	if err != nil {
		return err
	}
	if err := f(p); err != nil {
		p.Close()
		return err
	}
	return p.Close()
}

func micros(d time.Duration) string { return fmt.Sprintf("%d us", d.Microseconds()) }
