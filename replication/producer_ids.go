package replication

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"sync"

	"github.com/stratalog/strata/internal/metarecord"
	"github.com/stratalog/strata/replication/internal/image"
)

// producerIDBlock is how many producer ids one record of the metadata log reserves. Kafka:
// ProducerIdsBlock.
const producerIDBlock = 1000

// producerIDs hands out the ids of the reserved block. Unused ids of a block are never used after
// the cluster is closed.
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

// InitProducerID returns a new producer id, with epoch 0. No id is returned twice, over restarts
// too. It rarely waits: a thousand ids at a time are reserved in the metadata log. Open reserves
// the first thousand in a change that it makes anyway; in a new cluster the call may wait for that
// change. Errors: ErrClosed, the context's error, and disk errors.
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

// skipProducerIDs reserves ids behind those that partitions have records of. They may be ahead of
// the metadata if that is an older copy: a new producer with such an id would be taken for the
// former one, and its records for duplicates. No id was handed out yet.
func (c *Cluster) skipProducerIDs(all []*loaded) error {
	last := int64(-1)
	for _, l := range all {
		last = max(last, l.p.LastProducerID())
	}
	if last < c.ids.next || last > math.MaxInt64-2*producerIDBlock {
		return nil
	}
	next := last + 1 + producerIDBlock
	c.logger.Warn("partitions have records of producer ids that the metadata does not have", slog.Int64("producer_id", last))
	return c.perform(func(*image.Image) ([]metarecord.Record, error) {
		return []metarecord.Record{&metarecord.ProducerIDs{BrokerID: c.Controller(), BrokerEpoch: -1, Next: next}}, nil
	}, c.addProducerIDs)
}

// addProducerIDs makes the block available that a change has reserved with its last record. It is
// called when that is on stable storage.
func (c *Cluster) addProducerIDs(recs []metarecord.Record) {
	c.ids.add(recs[len(recs)-1].(*metarecord.ProducerIDs).Next - producerIDBlock)
}
