// Command placement puts topics A, B and C on brokers 101, 102 and 103, and shows the leader and
// the followers of each partition: at first, when a broker is lost, when it is back, and after the
// election of the preferred leaders.
//
//	go run ./examples/placement
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/replication"
	"github.com/stratalog/strata/topic"
)

func main() {
	if err := run(context.Background(), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "placement:", err)
		os.Exit(1)
	}
}

var brokers = []int32{101, 102, 103}

// topics are A, B and C, with their numbers of partitions and replicas.
var topics = []struct {
	name                 string
	partitions, replicas int
}{{"A", 3, 3}, {"B", 3, 2}, {"C", 3, 1}}

func run(ctx context.Context, out io.Writer) error {
	cluster, err := strata.Open(strata.Config{})
	if err != nil {
		return err
	}
	defer cluster.Close()
	if err := replaceBrokers(ctx, cluster); err != nil {
		return err
	}
	for _, t := range topics {
		cfg := topic.Config{Partitions: t.partitions, ReplicationFactor: t.replicas}
		if err := cluster.CreateTopic(ctx, t.name, cfg); err != nil {
			return err
		}
	}
	fmt.Fprintln(out, "A has three replicas of each partition, B two, C one. (L leads, f follows, . is not in sync)")
	show(cluster, out)
	if err := cluster.KillBroker(102); err != nil {
		return err
	}
	fmt.Fprintln(out, "Broker 102 is lost. Other replicas of A and B take over; the only replica of C-1 was there, so C-1 has no leader.")
	show(cluster, out)
	if err := cluster.StartBroker(ctx, 102); err != nil {
		return err
	}
	for _, tp := range partitions() {
		if err := cluster.WaitISR(ctx, tp); err != nil {
			return err
		}
	}
	fmt.Fprintln(out, "Broker 102 is back and in sync, but its former partitions keep their new leaders: the load is uneven.")
	show(cluster, out)
	if err := preferred(ctx, cluster); err != nil {
		return err
	}
	fmt.Fprintln(out, "The first replica of each partition is elected again (kafka-leader-election --election-type preferred).")
	show(cluster, out)
	return nil
}

// replaceBrokers adds brokers 101 to 103 to a new cluster, and removes its broker 1.
func replaceBrokers(ctx context.Context, cluster *strata.Cluster) error {
	for _, id := range brokers {
		if _, err := cluster.AddBroker(ctx, id, replication.BrokerSpec{}); err != nil {
			return err
		}
	}
	return cluster.RemoveBroker(ctx, 1)
}

// preferred elects the preferred leaders. Partitions that they lead need no election.
func preferred(ctx context.Context, cluster *strata.Cluster) error {
	for _, err := range cluster.Backend().ElectLeaders(ctx, replication.PreferredElection, partitions()...) {
		if err != nil && !errors.Is(err, replication.ErrElectionNotNeeded) {
			return err
		}
	}
	return nil
}

func partitions() (tps []record.TopicPartition) {
	for _, t := range topics {
		for p := range t.partitions {
			tps = append(tps, record.TopicPartition{Topic: t.name, Partition: int32(p)})
		}
	}
	return tps
}

// show prints the leader and followers of each partition.
func show(cluster *strata.Cluster, out io.Writer) {
	fmt.Fprintf(out, "\n       %s\n", strings.Trim(fmt.Sprint(brokers), "[]"))
	leads := map[int32]int{}
	for _, tp := range partitions() {
		s := cluster.Status(tp)
		fmt.Fprintf(out, "  %s-%d ", tp.Topic, tp.Partition)
		for _, id := range brokers {
			fmt.Fprintf(out, "   %s", mark(s, id))
		}
		if s.Leader < 0 {
			fmt.Fprint(out, "   no leader")
		}
		leads[s.Leader]++
		fmt.Fprintln(out)
	}
	fmt.Fprint(out, "  leads")
	for _, id := range brokers {
		fmt.Fprintf(out, " %2d ", leads[id])
	}
	fmt.Fprint(out, "\n\n")
}

// mark returns the role of a broker for a partition, as a letter.
func mark(s replication.Status, id int32) string {
	i := slices.Index(s.Replicas, id)
	switch {
	case i < 0:
		return " "
	case s.Leader == id:
		return "L"
	case s.Copies[i].InSync && s.Copies[i].Err == nil:
		return "f"
	}
	return "."
}
