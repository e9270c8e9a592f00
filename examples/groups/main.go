// Command groups lets members of consumer groups join, leave and freeze, and prints the assignment
// of each generation. Then it measures how long a remaining member gets no records while another
// one joins or restarts, with eager, cooperative and static members.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/group"
	"github.com/stratalog/strata/topic"
)

func main() {
	if err := run(context.Background(), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "groups:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer) (err error) {
	// a group that never gets there is an error, not an endless wait
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	cluster, err := strata.Open(strata.Config{Group: group.Config{MinSessionTimeout: 100 * time.Millisecond}})
	if err != nil {
		return err
	}
	defer cluster.Close()
	for name, partitions := range map[string]int{"orders": 3, "refunds": 3, "clicks": 4, "ticks": 6} {
		if err := cluster.CreateTopic(ctx, name, topic.Config{Partitions: partitions}); err != nil {
			return err
		}
	}
	s := &stage{cluster: cluster, out: out}
	defer func() { err = errors.Join(err, s.leaveAll()) }()
	for _, scene := range []func(context.Context) error{s.share, s.idle, s.freeze, s.twoGroups, s.pauses} {
		if err := errors.Join(scene(ctx), s.leaveAll()); err != nil {
			return err
		}
	}
	return nil
}
