// Command groups lets members of consumer groups join, leave and freeze, and prints the assignment
// of each generation. Then it measures how long a remaining member gets no records while another
// one joins or restarts, with eager, cooperative and static members.
//
//	go run ./examples/groups [-kafka HOST:PORT]
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
	"github.com/stratalog/strata/group"
	"github.com/stratalog/strata/topic"
)

// at is where the example runs.
var at place.Place

func main() {
	at = place.FromFlags()
	if err := run(context.Background(), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "groups:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer) (err error) {
	session, limit := 400*time.Millisecond, 20*time.Second
	if at.Elsewhere() {
		session, limit = 6*time.Second, 2*time.Minute // Kafka's shortest session by default
	}
	// a group that never gets there is an error, not an endless wait
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	cluster, err := at.Open(ctx, strata.Config{Group: group.Config{MinSessionTimeout: 100 * time.Millisecond}})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, at.Close(cluster)) }()
	for name, partitions := range map[string]int{"orders": 3, "refunds": 3, "clicks": 4, "ticks": 6} {
		if err := cluster.CreateTopic(ctx, at.Name(name), topic.Config{Partitions: partitions}); err != nil {
			return err
		}
	}
	s := &stage{cluster: cluster, out: out, session: session}
	defer func() { err = errors.Join(err, s.leaveAll()) }()
	for _, scene := range []func(context.Context) error{s.share, s.idle, s.freeze, s.twoGroups, s.pauses} {
		if err := errors.Join(scene(ctx), s.leaveAll()); err != nil {
			return err
		}
	}
	if at.Elsewhere() { // the static member leaves when its session ends
		_, err = cluster.WaitGroup(ctx, at.Name("pause-static"), func(g group.Info) bool { return len(g.Members) == 0 })
	}
	return err
}
