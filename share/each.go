package share

import (
	"context"
	"errors"

	"github.com/stratalog/strata/partition"
)

// A Result holds the records that FetchEach acquired of a partition, or the partition's error.
type Result struct {
	Fetched
	Err error
}

// FetchEach acquires records of all partitions that have some, in their order, until MaxRecords or
// MaxBytes is reached. If there are none at all it waits for some, without polling. There is one
// result per partition, in the order of the partitions. Partitions with errors do not delay the
// others.
//
// When MaxWait has passed, or all partitions have errors, the results have no records. It returns
// an error if ctx is done, ErrClosed, or the error of Reserve.
func (c *Coordinator) FetchEach(ctx context.Context, req FetchRequest) ([]Result, error) {
	req, err := req.withDefaults()
	if err != nil {
		return nil, err
	}
	waiting, cancel := context.WithTimeout(ctx, req.MaxWait)
	defer cancel()
	w := wait{c: c, isolation: req.Isolation, told: make(chan struct{}, 1)}
	for {
		results, a, acquired, err := c.tryEach(ctx, req, w.told)
		over := acquired || err != nil || a.hopeless() || waiting.Err() != nil
		if !over {
			_ = w.forRecords(waiting, a) // the cause of its end is checked below
		}
		a.unwatch(w.told)
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

// tryEach acquires the records available now.
func (c *Coordinator) tryEach(ctx context.Context, req FetchRequest, told chan struct{}) (results []Result, a attempt, acquired bool, err error) {
	left := req
	if req.Reserve != nil {
		if left.MaxBytes, err = req.Reserve(ctx); err != nil {
			return nil, attempt{}, false, err
		}
	}
	reserved := left.MaxBytes
	left.MaxBytes = max(left.MaxBytes, 1) // one batch is read in any case
	results = make([]Result, len(req.Partitions))
	for i, tp := range req.Partitions {
		r := &results[i]
		l, err := c.leader(ctx, req.Group, tp, beginning{req.Reset, req.Existing})
		switch {
		case err != nil:
		case left.MaxRecords > 0 && left.MaxBytes > 0:
			r.Fetched, err = a.fetch(ctx, l, left, told)
		}
		if r.TopicPartition = tp; err != nil {
			a.errs = append(a.errs, err)
		}
		if !errors.Is(err, partition.ErrOffsetOutOfRange) { // no records yet. Kafka: ShareFetchUtils
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
	return results, a, acquired, nil
}

// beginning selects the start of a share-partition that is new to its group.
type beginning struct {
	reset    partition.OffsetSpec
	existing bool // do not create it: ErrNotInitialized
}
