// Command acks lets the same two accidents happen to a producer under acks=0, 1 and all: an answer
// that gets lost, and a leader that loses power before its followers have its last records. It
// counts what was lost and what is there twice.
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

// ways are the producers that are compared.
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
	// On this file system a broker that is killed loses what it had not synced.
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
			"The answer to the 5th of 20 records gets lost on its way back:",
			"Who asks for no answer misses none. Who sends again what was written has it twice,\nunless batches are numbered: then the broker knows it.", loseAnswer,
		},
		{
			"The leader loses power after 20 records; its followers have not got the last 5:",
			"Nothing but acks=all waits for another copy: what only the leader has acknowledged is gone with it.\nWith acks=all these 5 were not acknowledged yet, and the producer gave them to the next leader.", killLeader,
		},
	} {
		fmt.Fprintln(out, accident.what)
		w := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
		fmt.Fprintln(w, "  producer\ttold \"written\"\tin the log\tlost\tdoubled")
		for _, way := range ways {
			c, err := try(ctx, cluster, way.cfg, accident.send)
			if err != nil {
				return err
			}
			fmt.Fprintf(w, "  %s\t%d\t%d\t%d\t%d\n", way.name, c.confirmed, c.inLog, c.lost, c.doubled)
		}
		if err := w.Flush(); err != nil {
			return err
		}
		fmt.Fprintf(out, "%s\n\n", accident.why)
	}
	return nil
}

// try has an accident happen to one producer, on a topic of its own that broker 1 leads.
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
