package replication

import (
	"context"
	"fmt"

	"github.com/stratalog/strata/internal/metarecord"
	"github.com/stratalog/strata/replication/internal/image"
)

// TransactionVersion returns the level of Kafka's feature transaction.version that the metadata
// has: 0 also if it says nothing of it.
func (c *Cluster) TransactionVersion() int16 {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.image.FeatureLevel(image.TransactionVersion)
}

// SetTransactionVersion sets the level of Kafka's feature transaction.version, 0 to 2, durably. It
// is for the coordinator of transactions, who goes by it. Errors: ErrClosed, ctx's, those of the
// disk, or one for a level that there is not. It changes nothing, and waits for nobody, if the
// level is that already.
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
