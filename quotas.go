package strata

import (
	"context"

	"github.com/stratalog/strata/replication"
)

// AlterClientQuotas is replication.Cluster.AlterClientQuotas.
func (c *Cluster) AlterClientQuotas(ctx context.Context, changes ...replication.QuotaChange) (refused map[replication.QuotaEntity]error, err error) {
	return c.brokers.AlterClientQuotas(ctx, changes...)
}

// ClientQuotas is replication.Cluster.ClientQuotas.
func (c *Cluster) ClientQuotas() *replication.ClientQuotaSet { return c.brokers.ClientQuotas() }
