// Command assignors runs the same three members with each assignor, and then one of them leaves. It
// shows the assignments, and how many partitions stay with their member. Then it shows where the
// group is stored: its leader, its coordinator, and its records in the topic __consumer_offsets.
//
//	go run ./examples/assignors
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/consumer"
	"github.com/stratalog/strata/group"
	"github.com/stratalog/strata/group/assignor"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/topic"
)

func main() {
	if err := run(context.Background(), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "assignors:", err)
		os.Exit(1)
	}
}

var topics = []string{"clicks", "orders"}

const partitions = 10 // of both topics

func run(ctx context.Context, out io.Writer) error {
	// a group that never gets there is an error, not an endless wait
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	cluster, err := strata.Open(strata.Config{})
	if err != nil {
		return err
	}
	defer cluster.Close()
	for name, n := range map[string]int{"clicks": 7, "orders": 3} {
		if err := cluster.CreateTopic(ctx, name, topic.Config{Partitions: n}); err != nil {
			return err
		}
	}
	fmt.Fprintln(out, "Topics clicks (7 partitions) and orders (3); ann, bob and cleo share them, then bob leaves.")
	for _, a := range []assignor.Assignor{
		assignor.Range(), assignor.RoundRobin(), assignor.Sticky(), assignor.CooperativeSticky(), dedicated{},
	} {
		if err := share(ctx, cluster, a, out); err != nil {
			return err
		}
	}
	return locate(ctx, cluster, out)
}

// share forms a group of three with the assignor, and then one leaves.
func share(ctx context.Context, cluster *strata.Cluster, a assignor.Assignor, out io.Writer) (err error) {
	fmt.Fprintf(out, "\n%s\n", a.Name())
	g := &members{cluster: cluster, group: "with-" + a.Name(), byName: map[string]*member{}}
	defer func() { err = errors.Join(err, g.leaveAll()) }()
	for _, name := range []string{"ann", "bob", "cleo"} {
		if err := g.join(name, a); err != nil {
			return err
		}
	}
	before, err := g.wait(ctx, 3)
	if err != nil {
		return err
	}
	show(out, before)
	if err := g.leave("bob"); err != nil {
		return err
	}
	after, err := g.wait(ctx, 2)
	if err != nil {
		return err
	}
	fmt.Fprintln(out, "  bob leaves")
	show(out, after)
	kept, had := keeps(before, after)
	_, err = fmt.Fprintf(out, "  ann and cleo keep %d of the %d partitions they had\n", kept, had)
	return err
}

// show prints the assignment. The leader is the member that computed it.
func show(out io.Writer, g group.Info) {
	for _, m := range byName(g) {
		var names []string
		for _, tp := range m.Assignment {
			names = append(names, fmt.Sprintf("%s-%d", tp.Topic, tp.Partition))
		}
		mark := ""
		if m.ID == g.Leader {
			mark = "   (group leader)"
		}
		fmt.Fprintf(out, "    %-4s  %s%s\n", m.ClientID, strings.Join(names, " "), mark)
	}
}

// keeps counts the partitions of members of both assignments before, and how many of these they
// keep.
func keeps(before, after group.Info) (kept, had int) {
	for _, b := range before.Members {
		for _, a := range after.Members {
			if a.ID != b.ID {
				continue
			}
			had += len(b.Assignment)
			for _, tp := range b.Assignment {
				if slices.Contains(a.Assignment, tp) {
					kept++
				}
			}
		}
	}
	return kept, had
}

func byName(g group.Info) []group.MemberInfo {
	return slices.SortedFunc(slices.Values(g.Members), func(a, b group.MemberInfo) int { return strings.Compare(a.ClientID, b.ClientID) })
}

// dedicated is a custom assignor: the first member gets all of orders, and the others share the
// rest. The group leader runs it. A member that joins with another assignor is rejected.
type dedicated struct{}

func (dedicated) Name() string { return "dedicated" }

func (dedicated) Assign(members []assignor.Member, partitions map[string]int32) (map[string][]record.TopicPartition, error) {
	out, turn := map[string][]record.TopicPartition{}, 0
	for _, topic := range slices.Sorted(maps.Keys(partitions)) {
		// of the members that subscribe to the topic, in a deterministic order
		var owners []string
		for _, m := range members {
			if slices.Contains(m.Topics, topic) {
				owners = append(owners, m.ID)
			}
		}
		slices.Sort(owners)
		switch {
		case len(owners) == 0:
			continue
		case topic == "orders":
			owners = owners[:1]
		case len(owners) > 1:
			owners = owners[1:]
		}
		for p := range partitions[topic] {
			owner := owners[turn%len(owners)]
			turn++
			out[owner] = append(out[owner], record.TopicPartition{Topic: topic, Partition: p})
		}
	}
	return out, nil
}

// members are consumers of one group, each on its own goroutine.
type members struct {
	cluster *strata.Cluster
	group   string
	byName  map[string]*member
}

type member struct {
	c    *consumer.Consumer
	stop context.CancelFunc
	done chan error
}

func (g *members) join(name string, a assignor.Assignor) error {
	c, err := consumer.New(g.cluster, consumer.Config{
		Group: g.group, Topics: topics, ClientID: name, Assignors: []assignor.Assignor{a},
		// bounds the time until a member notices a rebalance; cheap in one process
		HeartbeatInterval: 20 * time.Millisecond,
	})
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(context.Background())
	m := &member{c: c, stop: stop, done: make(chan error, 1)}
	go func() {
		var err error
		for _, recordErr := range c.Records(ctx) {
			err = errors.Join(err, recordErr)
		}
		m.done <- errors.Join(err, c.Close())
	}()
	g.byName[name] = m
	return nil
}

func (g *members) leave(name string) error {
	m := g.byName[name]
	delete(g.byName, name)
	m.stop()
	return <-m.done
}

func (g *members) leaveAll() (err error) {
	for name := range g.byName {
		err = errors.Join(err, g.leave(name))
	}
	return err
}

// wait returns when the group has n members and all partitions have an owner: handed over
// incrementally, that takes two generations.
func (g *members) wait(ctx context.Context, n int) (group.Info, error) {
	info, err := g.cluster.WaitGroup(ctx, g.group, func(info group.Info) bool {
		owned := 0
		for _, m := range info.Members {
			owned += len(m.Assignment)
		}
		return group.StableWith(n)(info) && owned == partitions
	})
	if err != nil {
		return info, err
	}
	return info, g.taken(ctx, info)
}

// taken waits until each member has the partitions that the group has assigned to it. A member that
// has not got them yet would join the next rebalance without naming them as its own.
func (g *members) taken(ctx context.Context, info group.Info) error {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for _, m := range info.Members {
		for len(g.byName[m.ClientID].c.Assignment()) != len(m.Assignment) {
			select {
			case <-tick.C:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
	return nil
}
