package share

import (
	"context"
	"fmt"

	"github.com/stratalog/strata/partition"
)

// A Result is what FetchEach has acquired of a partition, or why that cannot be fetched from.
type Result struct {
	Fetched
	Err error
}

// FetchEach acquires records of all partitions that have some, in their order, until MaxRecords or
// MaxBytes is reached. If there are none at all it waits for some, without polling. The results are
// those of the partitions, in their order.
//
// When MaxWait has passed, or no partition can be fetched from, the results tell of no records. It
// returns an error if ctx is done, ErrClosed, or what Reserve returned.
func (c *Coordinator) FetchEach(ctx context.Context, req FetchRequest) ([]Result, error) {
	if req.MaxRecords < 1 {
		return nil, fmt.Errorf("%w: %d records", ErrInvalidRequest, req.MaxRecords)
	}
	waiting, cancel := context.WithTimeout(ctx, req.MaxWait)
	defer cancel()
	told := make(chan struct{}, 1)
	for {
		results, leaders, acquired, err := c.tryEach(ctx, req, told)
		over := acquired || err != nil || len(leaders) == 0 || waiting.Err() != nil
		if !over {
			_ = c.awaitRecords(waiting, leaders, req.Isolation, told) // why it has ended is looked at below
		}
		for _, l := range leaders {
			l.unwatch(told)
		}
		switch {
		case acquired:
			return results, nil
		case c.ctx.Err() != nil:
			return nil, ErrClosed
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case err != nil:
			return nil, err
		case over || waiting.Err() != nil:
			return results, nil
		}
	}
}

// tryEach acquires what there is, and returns the leaders of the partitions that can be fetched
// from, which tell told when there may be something.
func (c *Coordinator) tryEach(ctx context.Context, req FetchRequest, told chan struct{}) (results []Result, leaders []*leader, acquired bool, err error) {
	left := req
	if req.Reserve != nil {
		if left.MaxBytes, err = req.Reserve(ctx); err != nil {
			return nil, nil, false, err
		}
	}
	reserved := left.MaxBytes
	results = make([]Result, len(req.Partitions))
	for i, tp := range req.Partitions {
		r := &results[i]
		r.TopicPartition = tp
		l, err := c.leader(ctx, req.Group, tp, beginning{req.Reset, req.Existing})
		if err == nil {
			l.watch(told)
			leaders = append(leaders, l)
			if left.MaxRecords > 0 && left.MaxBytes > 0 {
				r.Fetched, err = l.fetch(ctx, left)
			}
		}
		if r.TopicPartition = tp; err != nil {
			r.Err = err
		}
		for _, d := range r.Deliveries {
			left.MaxRecords -= int(d.Last - d.First + 1)
			acquired = true
		}
		left.MaxBytes -= len(r.Bytes)
	}
	if req.Release != nil {
		req.Release(max(0, min(left.MaxBytes, reserved)))
	}
	return results, leaders, acquired, nil
}

// beginning says what becomes of a share-partition that is new to its group.
type beginning struct {
	reset    partition.OffsetSpec
	existing bool // there is none: ErrNotInitialized
}
