// Command replication shows one partition on three brokers: the log of each replica, how the
// followers continue when the leader loses power, which records the former leader discards when it
// is back, and how a slow follower leaves the in-sync set and returns.
//
//	go run ./examples/replication
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path"
	"strings"
	"time"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/log"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/replication"
	"github.com/stratalog/strata/topic"
	"github.com/stratalog/strata/vfs"
)

// orders is the partition of the example.
var orders = record.TopicPartition{Topic: "orders"}

func main() {
	if err := run(context.Background(), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "replication:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer) error {
	disk := vfs.Mem() // a file system that loses unsynced data when a broker is killed
	cluster, err := strata.Open(strata.Config{
		Brokers: 3, Dir: "data", FS: disk,
		Properties: map[string]string{"replica.lag.time.max.ms": "400"}, // 30 s, if nothing is set
	})
	if err != nil {
		return err
	}
	defer cluster.Close()
	err = cluster.CreateTopic(ctx, "orders", topic.Config{
		Assignment: [][]int32{{1, 2, 3}}, ReplicationFactor: 3, Properties: map[string]string{"min.insync.replicas": "2"},
	})
	if err != nil {
		return err
	}
	s := &story{out: out, cluster: cluster, disk: disk, events: cluster.Events(ctx), begin: time.Now()}
	for _, scene := range []func(context.Context, *story) error{write, killLeader, revive, slowFollower} {
		if err := scene(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

// A story is a timeline on its way to the reader.
type story struct {
	out     io.Writer
	cluster *strata.Cluster
	disk    vfs.FS
	events  iter.Seq[replication.Event] // continues at its position when it is read again
	begin   time.Time
}

// until prints events up to the one that matches.
func (s *story) until(awaited func(replication.Event) bool) {
	for e := range s.events {
		fmt.Fprintf(s.out, "  %5d ms  %v\n", e.Time.Sub(s.begin).Milliseconds(), e)
		if awaited(e) {
			return
		}
	}
}

// replicas prints the state of each replica.
func (s *story) replicas() {
	st := s.cluster.Status(orders)
	fmt.Fprintf(s.out, "\n    %-8s %-9s %-8s %4s %8s %4s   %s\n", "broker", "", "in sync", "end", "durable", "lag", "log on its disk")
	for _, r := range st.Copies {
		drawing, err := s.draw(r.Broker)
		if err != nil {
			drawing = err.Error()
		}
		role, inSync := "follower", "no"
		if r.Broker == st.Leader {
			role = "leader"
		}
		if r.InSync {
			inSync = "yes"
		}
		if r.Err != nil {
			fmt.Fprintf(s.out, "    %-8d %-9s %-8s %4s %8s %4s   %s\n", r.Broker, "gone", inSync, "-", "-", "-", drawing)
			continue
		}
		fmt.Fprintf(s.out, "    %-8d %-9s %-8s %4d %8d %4d   %s\n", r.Broker, role, inSync, r.LogEndOffset, r.DurableOffset, r.Lag, drawing)
	}
	fmt.Fprintf(s.out, "    high watermark %d: consumers read the records below it, and these are never lost\n\n", st.HighWatermark)
}

// draw returns a word for each record in the files of a broker's replica.
func (s *story) draw(broker int32) (string, error) {
	l, err := log.OpenReadOnly(path.Join("data", fmt.Sprintf("broker-%d", broker), "orders-0"), log.Config{FS: s.disk})
	if err != nil {
		return "", err
	}
	var words []string
	for r, err := range l.Records(l.StartOffset()) {
		if err != nil {
			return "", errors.Join(err, l.Close())
		}
		name, _, _ := strings.Cut(string(r.Value), " ")
		words = append(words, name)
	}
	return strings.Join(words, " "), l.Close()
}

func (s *story) say(format string, args ...any) { fmt.Fprintf(s.out, format+"\n", args...) }
