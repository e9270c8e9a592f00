// Command acks causes the same two accidents for a producer with acks=0, 1 and all: a lost
// response, and a leader that loses power before its followers have its last records. It counts the
// records that were lost and that were written twice.
//
//	go run ./examples/acks
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"text/tabwriter"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/producer"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/topic"
	"github.com/stratalog/strata/vfs"
)

func main() {
	if err := run(context.Background(), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "acks:", err)
		os.Exit(1)
	}
}

// ways are the producers to compare.
var ways = []struct {
	name string
	cfg  producer.Config
}{
	{"acks=0", producer.Config{Acks: record.AcksNone}},
	{"acks=1", producer.Config{Acks: record.AcksLeader}},
	{"acks=all, not idempotent", producer.Config{NoIdempotence: true}},
	{"acks=all, idempotent (default)", producer.Config{}},
}

func run(ctx context.Context, out io.Writer) error {
	// On this file system a killed broker loses all unsynced data.
	cluster, err := strata.Open(strata.Config{Brokers: 3, Dir: "data", FS: vfs.Mem()})
	if err != nil {
		return err
	}
	defer cluster.Close()
	for _, accident := range []struct {
		what, why string
		send      sender
	}{
		{
			"The response to the 5th of 20 records is lost on its way back:",
			"A producer without acknowledgements does not notice. A retry writes the record twice, unless batches\nare numbered: then the broker recognises the batch.", loseAnswer,
		},
		{
			"The leader loses power after 20 records; its followers do not have the last 5:",
			"Only acks=all waits for another copy: records that only the leader had are lost with it.\nWith acks=all these 5 were not acknowledged yet, and the producer sent them to the next leader.", killLeader,
		},
	} {
		fmt.Fprintln(out, accident.what)
		w := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
		fmt.Fprintln(w, "  producer\tacknowledged\tin the log\tlost\tdoubled\tthe 20 records")
		for _, way := range ways {
			c, err := try(ctx, cluster, way.cfg, accident.send)
			if err != nil {
				return err
			}
			fmt.Fprintf(w, "  %s\t%d\t%d\t%d\t%d\t%s\n", way.name, c.confirmed, c.inLog, c.lost, c.doubled, c.drawing)
		}
		if err := w.Flush(); err != nil {
			return err
		}
		fmt.Fprintf(out, "%s\n\n", accident.why)
	}
	fmt.Fprintln(out, "# is a record in the log, 2 a record that is there twice, x an acknowledged record that is lost.")
	return nil
}

// try causes an accident for one producer, on its own topic with broker 1 as leader.
func try(ctx context.Context, cluster *strata.Cluster, cfg producer.Config, send sender) (c count, err error) {
	err = cluster.CreateTopic(ctx, "orders", topic.Config{
		Assignment: [][]int32{{1, 2, 3}}, ReplicationFactor: 3, Properties: map[string]string{"min.insync.replicas": "2"},
	})
	if err != nil {
		return c, err
	}
	told, err := send(ctx, cluster, cfg)
	if err != nil {
		return c, err
	}
	if c, err = compare(ctx, cluster, told); err != nil {
		return c, err
	}
	return c, cluster.DeleteTopic(ctx, "orders")
}
