package strata

import (
	"context"

	"github.com/stratalog/strata/replication"
)

// SetPassword gives a user a password, by which clients authenticate at a kafka.Server: for the
// given mechanisms of SCRAM, or for both, and for PLAIN where the server checks it against these.
// The cluster keeps salted hashes of it, in the metadata log. When it returns nil the password is
// durable and counts. Errors: *replication.UserError, ErrClosed, ctx's.
func (c *Cluster) SetPassword(ctx context.Context, user, password string, mechanisms ...replication.ScramMechanism) error {
	return c.brokers.SetPassword(ctx, user, password, mechanisms...)
}

// AlterScramCredentials is replication.Cluster.AlterScramCredentials.
func (c *Cluster) AlterScramCredentials(ctx context.Context, changes ...replication.ScramChange) (refused map[string]error, err error) {
	return c.brokers.AlterScramCredentials(ctx, changes...)
}

// ScramUsers is replication.Cluster.ScramUsers.
func (c *Cluster) ScramUsers() map[string][]replication.ScramCredential {
	return c.brokers.ScramUsers()
}
