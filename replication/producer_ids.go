package replication

import (
	"context"
	"fmt"
	"sync"

	"github.com/stratalog/strata/internal/metarecord"
	"github.com/stratalog/strata/replication/internal/image"
)

// producerIDBlock is how many producer ids one record of the metadata log reserves. Kafka:
// ProducerIdsBlock.
const producerIDBlock = 1000

// producerIDs hands out the ids of the reserved block. What is left of a block when the cluster is
// closed is never used.
type producerIDs struct {
	mu        sync.Mutex // guards the fields below; not held while a block is reserved
	next, end int64
}

// take returns the next id of the block.
func (p *producerIDs) take() (id int64, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.next >= p.end {
		return 0, false
	}
	p.next++
	return p.next - 1, true
}

// add makes a block available; blocks come in ascending order.
func (p *producerIDs) add(first int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.next, p.end = first, first+producerIDBlock
}

// InitProducerID returns a producer id that nobody ever had, over restarts too, with epoch 0. It
// rarely waits: a thousand ids are reserved in the metadata log at once, the first of them by Open
// in the change that it makes anyway; in a new cluster this may have to be waited for. Errors:
// ErrClosed, ctx's, those of the disk.
func (c *Cluster) InitProducerID(ctx context.Context) (id int64, epoch int16, err error) {
	for {
		if err := c.live(ctx); err != nil {
			return -1, -1, err
		}
		if !c.unsecured.Load() { // else the block is not on stable storage, as nothing is
			if id, ok := c.ids.take(); ok {
				return id, 0, nil
			}
		}
		if err := c.reserveProducerIDs(ctx); err != nil {
			return -1, -1, fmt.Errorf("reserve producer ids: %w", err)
		}
	}
}

// reserveProducerIDs makes sure that there are ids, unless someone else did meanwhile. The block
// becomes available only when it is on stable storage.
func (c *Cluster) reserveProducerIDs(ctx context.Context) error {
	return c.changeThen(ctx, func(img *image.Image) ([]metarecord.Record, error) {
		c.ids.mu.Lock()
		defer c.ids.mu.Unlock()
		if c.ids.next < c.ids.end {
			return nil, nil
		}
		return img.ReserveProducerIDs(c.Controller(), producerIDBlock), nil
	}, c.addProducerIDs)
}

// addProducerIDs makes the block available that a change has reserved with its last record. It is
// called when that is on stable storage.
func (c *Cluster) addProducerIDs(recs []metarecord.Record) {
	c.ids.add(recs[len(recs)-1].(*metarecord.ProducerIDs).Next - producerIDBlock)
}
