package group

import (
	"context"

	"github.com/stratalog/strata/group/internal/kinds"
	"github.com/stratalog/strata/internal/coordinator"
	"github.com/stratalog/strata/internal/offsets"
	"github.com/stratalog/strata/partition"
)

// A question is a request for the coordinator of a group.
type question struct {
	group  string
	create bool  // makes the offsets topic if there is none
	absent error // the answer if there is none and it is not made
	once   bool  // see coordinator.Question
	txn    *partition.TxnWrite
}

func (q question) runtimes() coordinator.Question {
	return coordinator.Question{ID: q.group, Create: q.create, Absent: q.absent, Once: q.once, Txn: q.txn}
}

// route leads to the groups that c answers for.
func (c *Coordinator) route() coordinator.Route[*kinds.Group, kinds.Event, offsets.Record] {
	return coordinator.Route[*kinds.Group, kinds.Event, offsets.Record]{Runtime: c.runtime, Broker: c.broker}
}

// ask runs begin at the shard that coordinates the group, and returns its reply. If the
// group moves to another coordinator meanwhile, it runs begin again there.
func (c *Coordinator) ask(ctx context.Context, q question, begin func(*request)) (any, error) {
	return c.route().Ask(ctx, q.runtimes(), begin)
}

// asksAgain reports whether a request that ended with err must be repeated at the next coordinator.
func (c *Coordinator) asksAgain(q question, err error) bool {
	return c.route().AsksAgain(q.runtimes(), err)
}

// partition returns the partition of the offsets topic that a group's state is kept in, see
// coordinator.Route.
func (c *Coordinator) partition(ctx context.Context, group string, create bool) (int32, error) {
	return c.route().Partition(ctx, group, create)
}

// shard returns the shard that coordinates a group; nil if there is no offsets topic and create is
// not set.
func (c *Coordinator) shard(ctx context.Context, group string, create bool) (*shard, error) {
	return c.route().Shard(ctx, group, create)
}

// eachShard calls f with the shards that c answers for, and joins the errors.
func (c *Coordinator) eachShard(ctx context.Context, f func(*shard) error) error {
	return c.route().Each(ctx, f)
}
