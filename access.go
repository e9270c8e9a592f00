package strata

import (
	"context"

	"github.com/stratalog/strata/acl"
)

// ACLs returns the access control entries of the cluster. Servers that have an authorizer go by
// them; what this process does by method calls they do not concern. See replication.Cluster.ACLs.
func (c *Cluster) ACLs() *acl.Set { return c.brokers.ACLs() }

// CreateACLs makes access control entries, all of them or none. See
// replication.Cluster.CreateACLs, also for the errors.
func (c *Cluster) CreateACLs(ctx context.Context, entries ...acl.Entry) error {
	return c.brokers.CreateACLs(ctx, entries...)
}

// DeleteACLs removes the access control entries that any of the filters means, and returns what
// each has found. See replication.Cluster.DeleteACLs, also for the errors.
func (c *Cluster) DeleteACLs(ctx context.Context, filters ...acl.Filter) ([][]acl.Entry, error) {
	return c.brokers.DeleteACLs(ctx, filters...)
}
