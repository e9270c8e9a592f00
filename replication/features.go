package replication

import (
	"context"
	"fmt"

	"github.com/stratalog/strata/internal/metarecord"
	"github.com/stratalog/strata/replication/internal/image"
)

// TransactionVersion returns the metadata's level of Kafka's feature transaction.version. It is 0
// if the metadata has none.
func (c *Cluster) TransactionVersion() int16 {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.image.FeatureLevel(image.TransactionVersion)
}

// SetTransactionVersion durably sets the level, 0 to 2, of Kafka's feature transaction.version. It
// is meant for the transaction coordinator, which applies the level. If the level is set already,
// nothing changes and the call does not wait. Errors: ErrClosed, the context's error, disk errors,
// or an error for an unknown level.
func (c *Cluster) SetTransactionVersion(ctx context.Context, level int16) error {
	if c.TransactionVersion() == level {
		return c.live(ctx)
	}
	err := c.change(ctx, func(img *image.Image) ([]metarecord.Record, error) {
		return img.SetFeatureLevel(image.TransactionVersion, level)
	})
	if err != nil {
		return fmt.Errorf("set transaction.version: %w", err)
	}
	return nil
}
