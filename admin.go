package strata

import (
	"context"
	"iter"

	"github.com/stratalog/strata/acl"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/replication"
)

// Brokers returns the ids of the running brokers, in order.
func (c *Cluster) Brokers() []int32 { return c.brokers.Brokers() }

// AlterBrokerConfig changes settings of a running broker, or of all brokers
// (replication.AllBrokers): the defaults of topics, and replication quotas. Either all changes
// apply or none. See replication.Cluster.AlterBrokerConfig.
func (c *Cluster) AlterBrokerConfig(ctx context.Context, broker int32, changes ...replication.ConfigChange) error {
	return c.brokers.AlterBrokerConfig(ctx, broker, changes...)
}

// BrokerConfig returns the settings made by AlterBrokerConfig for a broker, or for all. The caller
// owns the map.
func (c *Cluster) BrokerConfig(broker int32) map[string]string { return c.brokers.BrokerConfig(broker) }

// StopBroker stops a broker in order, as Kafka's controlled shutdown does. Records it has accepted
// are acknowledged first; partitions without another in-sync replica then have no leader until
// StartBroker. It blocks until the broker is closed. See replication.Cluster.StopBroker, also for
// the errors of this and the following methods.
func (c *Cluster) StopBroker(ctx context.Context, id int32) error {
	return c.brokers.StopBroker(ctx, id)
}

// StartBroker starts a broker that was stopped, killed, or fenced because its disk failed. It
// blocks until the broker serves.
func (c *Cluster) StartBroker(ctx context.Context, id int32) error {
	return c.brokers.StartBroker(ctx, id)
}

// KillBroker stops a broker as a power failure does: its active calls never complete, and on a
// vfs.MemFS all unsynced data is lost. It is for tests of an application's behaviour in that case.
func (c *Cluster) KillBroker(id int32) error { return c.brokers.KillBroker(id) }

// AddBroker adds a broker to the cluster, starts it, and returns its id. An id of 0 selects the
// next free one.
func (c *Cluster) AddBroker(ctx context.Context, id int32, spec replication.BrokerSpec) (int32, error) {
	return c.brokers.AddBroker(ctx, id, spec)
}

// RemoveBroker permanently removes a broker without replicas. If the broker has replicas, the error
// is a *replication.ReplicasError.
func (c *Cluster) RemoveBroker(ctx context.Context, id int32) error {
	return c.brokers.RemoveBroker(ctx, id)
}

// RemoveLostBroker removes a broker whose disk is lost. Data that only this broker had is lost.
func (c *Cluster) RemoveLostBroker(ctx context.Context, id int32) error {
	return c.brokers.RemoveLostBroker(ctx, id)
}

// Status returns the state of a partition: its leader, its in-sync replicas, and the progress of
// each replica. It does not block. Status.Err is set if the partition does not exist.
func (c *Cluster) Status(tp record.TopicPartition) replication.Status {
	return c.brokers.Status(tp.Topic, tp.Partition)
}

// WaitISR waits until a partition has a leader and exactly the given brokers are in sync, in any
// order. Without brokers it waits for all replicas. Errors: ErrUnknownTopic, replication.ErrClosed,
// ctx's.
func (c *Cluster) WaitISR(ctx context.Context, tp record.TopicPartition, brokers ...int32) error {
	return c.brokers.WaitISR(ctx, tp, brokers...)
}

// Events returns the events of the cluster from this call on, in order: elections, changes of
// in-sync replicas, added and removed brokers, truncated logs. The sequence waits for more events,
// and ends with ctx or the cluster. A slow reader does not delay the cluster; it gets the number of
// events that it missed. See replication.Cluster.Events.
func (c *Cluster) Events(ctx context.Context) iter.Seq[replication.Event] {
	return c.brokers.Events(ctx)
}

// Network returns the simulated network between the brokers. Its paths can be cut, slowed and
// paused, to test an application's behaviour.
func (c *Cluster) Network() *replication.Network { return c.brokers.Network() }

// AlterPartitionReassignments moves partitions to other brokers, changes their numbers of replicas,
// or cancels such a reassignment. errs[i] is the error of all[i], nil if it was accepted. When it
// returns the reassignments have begun; WaitReassigned waits for their end. See
// replication.Cluster.AlterPartitionReassignments.
func (c *Cluster) AlterPartitionReassignments(ctx context.Context, all ...replication.Reassignment) (errs []error) {
	return c.brokers.AlterPartitionReassignments(ctx, all...)
}

// PartitionReassignments returns the active reassignments.
func (c *Cluster) PartitionReassignments() ([]replication.OngoingReassignment, error) {
	return c.brokers.PartitionReassignments()
}

// WaitReassigned waits until none of the partitions is being reassigned; without arguments it waits
// for all partitions. Errors: replication.ErrClosed, ctx's.
func (c *Cluster) WaitReassigned(ctx context.Context, tps ...record.TopicPartition) error {
	return c.brokers.WaitReassigned(ctx, tps...)
}

// SetPassword sets the password that clients of a kafka.Server authenticate a user with. It applies
// to the given mechanisms of SCRAM, or to both, and to PLAIN if the server checks PLAIN against
// these passwords. The cluster stores only salted hashes, in the metadata log. When it returns nil
// the password is durable and in effect. Errors: *replication.UserError, ErrClosed, ctx's.
func (c *Cluster) SetPassword(ctx context.Context, user, password string, mechanisms ...replication.ScramMechanism) error {
	return c.brokers.SetPassword(ctx, user, password, mechanisms...)
}

// AlterScramCredentials changes SCRAM credentials. See replication.Cluster.AlterScramCredentials.
func (c *Cluster) AlterScramCredentials(ctx context.Context, changes ...replication.ScramChange) (refused map[string]error, err error) {
	return c.brokers.AlterScramCredentials(ctx, changes...)
}

// ScramUsers returns the users with SCRAM credentials. See replication.Cluster.ScramUsers.
func (c *Cluster) ScramUsers() map[string][]replication.ScramCredential {
	return c.brokers.ScramUsers()
}

// ACLs returns the access control entries of the cluster. They apply to clients of servers with an
// authorizer, not to method calls in this process. See replication.Cluster.ACLs.
func (c *Cluster) ACLs() *acl.Set { return c.brokers.ACLs() }

// CreateACLs adds access control entries, either all or none. See replication.Cluster.CreateACLs,
// also for the errors.
func (c *Cluster) CreateACLs(ctx context.Context, entries ...acl.Entry) error {
	return c.brokers.CreateACLs(ctx, entries...)
}

// DeleteACLs removes the access control entries that match any of the filters, and returns the
// matches of each filter. See replication.Cluster.DeleteACLs, also for the errors.
func (c *Cluster) DeleteACLs(ctx context.Context, filters ...acl.Filter) ([][]acl.Entry, error) {
	return c.brokers.DeleteACLs(ctx, filters...)
}

// AlterClientQuotas changes client quotas. See replication.Cluster.AlterClientQuotas.
func (c *Cluster) AlterClientQuotas(ctx context.Context, changes ...replication.QuotaChange) (refused map[replication.QuotaEntity]error, err error) {
	return c.brokers.AlterClientQuotas(ctx, changes...)
}

// ClientQuotas returns the client quotas. See replication.Cluster.ClientQuotas.
func (c *Cluster) ClientQuotas() *replication.ClientQuotaSet { return c.brokers.ClientQuotas() }
