package strata

import (
	"context"

	"github.com/stratalog/strata/replication"
)

// Brokers returns the ids of the brokers that serve, in order.
func (c *Cluster) Brokers() []int32 { return c.brokers.Brokers() }

// AlterBrokerConfig changes settings of a broker, or of all (replication.AllBrokers), while it
// runs, all of them or none: the defaults of topics, and how fast replicas are copied. See
// replication.Cluster.AlterBrokerConfig.
func (c *Cluster) AlterBrokerConfig(ctx context.Context, broker int32, changes ...replication.ConfigChange) error {
	return c.brokers.AlterBrokerConfig(ctx, broker, changes...)
}

// BrokerConfig returns what AlterBrokerConfig has set on a broker, or on all. The caller owns it.
func (c *Cluster) BrokerConfig(broker int32) map[string]string { return c.brokers.BrokerConfig(broker) }

// StopBroker ends a broker in order, as Kafka's controlled shutdown does: what it has taken is
// acknowledged, then its partitions have no leader until StartBroker. It blocks until all of it is
// closed. See replication.Cluster.StopBroker, also for the errors of this and the following.
func (c *Cluster) StopBroker(ctx context.Context, id int32) error {
	return c.brokers.StopBroker(ctx, id)
}

// StartBroker starts a broker that was stopped, killed, or fenced because its disk
// failed. It blocks until the broker serves.
func (c *Cluster) StartBroker(ctx context.Context, id int32) error {
	return c.brokers.StartBroker(ctx, id)
}

// KillBroker ends a broker as a loss of power does: nothing that is under way on it completes any
// more, and on a vfs.MemFS all that was not synced is gone. It is for tests of what an application
// does then.
func (c *Cluster) KillBroker(id int32) error { return c.brokers.KillBroker(id) }

// AddBroker adds a broker to the cluster, starts it, and returns its id; 0 asks for the next one.
func (c *Cluster) AddBroker(ctx context.Context, id int32, spec replication.BrokerSpec) (int32, error) {
	return c.brokers.AddBroker(ctx, id, spec)
}

// RemoveBroker takes a broker without replicas out of the cluster for good; one that has some is a
// *replication.ReplicasError.
func (c *Cluster) RemoveBroker(ctx context.Context, id int32) error {
	return c.brokers.RemoveBroker(ctx, id)
}

// RemoveLostBroker takes a broker out whose disk is lost, and gives up what only it had.
func (c *Cluster) RemoveLostBroker(ctx context.Context, id int32) error {
	return c.brokers.RemoveLostBroker(ctx, id)
}
