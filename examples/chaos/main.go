// Command chaos cuts the power of three brokers and the network between them at random, while a
// producer writes with acks=all. At the end it proves that nothing was lost: each acknowledged
// record is read once and in order, and the files of all brokers have the same records.
//
//	go run ./examples/chaos
//	go run ./examples/chaos -seed 7
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"

	"golang.org/x/sync/errgroup"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/topic"
	"github.com/stratalog/strata/vfs"
)

const (
	blows = 60 // number of faults
	dir   = "data"
)

// orders is the partition of the example.
var orders = record.TopicPartition{Topic: "orders"}

func main() {
	seed := flag.Uint64("seed", 1, "seed of the random faults")
	flag.Parse()
	if err := run(context.Background(), os.Stdout, *seed); err != nil {
		fmt.Fprintln(os.Stderr, "chaos:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer, seed uint64) error {
	fsys := vfs.Mem() // loses unsynced data in a power cut
	cluster, err := strata.Open(strata.Config{Brokers: 3, Dir: dir, FS: fsys, Properties: map[string]string{"replica.lag.time.max.ms": "100"}})
	if err != nil {
		return err
	}
	defer cluster.Close()
	err = cluster.CreateTopic(ctx, "orders", topic.Config{
		Partitions: 1, ReplicationFactor: 3, Properties: map[string]string{"min.insync.replicas": "2"},
	})
	if err != nil {
		return err
	}
	seen := watch(ctx, cluster)
	w, err := torment(ctx, cluster, rand.New(rand.NewPCG(seed, 0)), out)
	if err != nil {
		return err
	}
	read, err := readAll(ctx, cluster)
	if err != nil {
		return err
	}
	if err := cluster.Close(); err != nil {
		return err
	}
	seen.report(out)
	fmt.Fprintf(out, "%d records were acknowledged; the longest wait was %d ms.\n\n", len(w.acked), w.longest.Milliseconds())
	return prove(out, w, read, fsys)
}

// torment causes faults while a producer writes, and repairs all of them at the end.
func torment(ctx context.Context, cluster *strata.Cluster, rng *rand.Rand, out io.Writer) (*writer, error) {
	w := &writer{stop: make(chan struct{})}
	var work errgroup.Group
	work.Go(func() error { return w.run(ctx, cluster) })
	d := &demon{cluster: cluster, rng: rng, down: map[int32]bool{}}
	err := errors.Join(d.rage(ctx), d.mend(ctx))
	close(w.stop)
	fmt.Fprintf(out, "Random faults: %d brokers lost power, %d paths between brokers were cut.\n", d.kills, d.cuts)
	return w, errors.Join(err, work.Wait())
}
