// Command replication shows one partition on three brokers: what each replica has, how the
// followers go on when the leader loses power, what the dead leader gives up when it is back, and
// how a follower that is too slow leaves the in-sync set and returns.
//
//	go run ./examples/replication
package main

import (
	"context"
	"fmt"
	"io"
	"iter"
	"os"
	"time"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/replication"
	"github.com/stratalog/strata/topic"
	"github.com/stratalog/strata/vfs"
)

// orders is the partition that all of this is about.
var orders = record.TopicPartition{Topic: "orders"}

func main() {
	if err := run(context.Background(), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "replication:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer) error {
	cluster, err := strata.Open(strata.Config{
		Brokers: 3,
		Dir:     "data", FS: vfs.Mem(), // a file system that loses what was not synced when a broker is killed
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
	s := &story{out: out, cluster: cluster, events: cluster.Events(ctx), begin: time.Now()}
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
	events  iter.Seq[replication.Event] // goes on where it was when it is read again
	begin   time.Time
}

// until prints what happens, up to the event that is awaited.
func (s *story) until(awaited func(replication.Event) bool) {
	for e := range s.events {
		fmt.Fprintf(s.out, "  %5d ms  %v\n", e.Time.Sub(s.begin).Milliseconds(), e)
		if awaited(e) {
			return
		}
	}
}

// replicas prints what each replica has.
func (s *story) replicas() {
	st := s.cluster.Status(orders)
	fmt.Fprintf(s.out, "\n    %-8s %-9s %-8s %4s %8s %4s\n", "broker", "", "in sync", "end", "durable", "lag")
	for _, r := range st.Copies {
		role, inSync := "follower", "no"
		if r.Broker == st.Leader {
			role = "leader"
		}
		if r.InSync {
			inSync = "yes"
		}
		if r.Err != nil {
			fmt.Fprintf(s.out, "    %-8d %-9s %-8s %4s %8s %4s\n", r.Broker, "gone", inSync, "-", "-", "-")
			continue
		}
		fmt.Fprintf(s.out, "    %-8d %-9s %-8s %4d %8d %4d\n", r.Broker, role, inSync, r.LogEndOffset, r.DurableOffset, r.Lag)
	}
	fmt.Fprintf(s.out, "    high watermark %d: what is below it is read by consumers, and never lost\n\n", st.HighWatermark)
}

func (s *story) say(format string, args ...any) { fmt.Fprintf(s.out, format+"\n", args...) }
