package strata

import (
	"context"
	"iter"

	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/replication"
)

// Status returns the state of a partition: who leads, which replicas are in sync, how far each one
// is. It does not block. Status.Err says if there is no such partition.
func (c *Cluster) Status(tp record.TopicPartition) replication.Status {
	return c.brokers.Status(tp.Topic, tp.Partition)
}

// WaitISR waits until a partition has a leader and its in-sync set is what is asked for: these
// brokers and no others, in any order; with none given all replicas. Errors: ErrUnknownTopic,
// replication.ErrClosed, ctx's.
func (c *Cluster) WaitISR(ctx context.Context, tp record.TopicPartition, brokers ...int32) error {
	return c.brokers.WaitISR(ctx, tp, brokers...)
}

// Events returns what happens in the cluster from this call on, in order: elections, changes of
// in-sync sets, brokers that come and go, logs that are cut. It waits for more, and ends with ctx
// or the cluster. A reader that is too slow holds up nobody, and is told how much it has missed.
// See replication.Cluster.Events.
func (c *Cluster) Events(ctx context.Context) iter.Seq[replication.Event] {
	return c.brokers.Events(ctx)
}

// Network returns what is between the brokers: paths that can be cut, slowed and paused, to see
// what an application makes of that.
func (c *Cluster) Network() *replication.Network { return c.brokers.Network() }

// AlterPartitionReassignments moves partitions to other brokers, changes how many replicas they
// have, or cancels that: errs[i] is why all[i] is refused. When it returns the reassignments have
// begun; WaitReassigned waits for their end. See replication.Cluster.AlterPartitionReassignments.
func (c *Cluster) AlterPartitionReassignments(ctx context.Context, all ...replication.Reassignment) (errs []error) {
	return c.brokers.AlterPartitionReassignments(ctx, all...)
}

// PartitionReassignments returns the reassignments that are under way.
func (c *Cluster) PartitionReassignments() ([]replication.OngoingReassignment, error) {
	return c.brokers.PartitionReassignments()
}

// WaitReassigned waits until no reassignment is under way in any of the partitions, of all if none
// is given. Errors: replication.ErrClosed, ctx's.
func (c *Cluster) WaitReassigned(ctx context.Context, tps ...record.TopicPartition) error {
	return c.brokers.WaitReassigned(ctx, tps...)
}
