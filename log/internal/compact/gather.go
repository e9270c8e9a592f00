package compact

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"

	"github.com/stratalog/strata/internal/segment"
	"github.com/stratalog/strata/record"
)

// gather maps the keys of the dirty part to their last offsets. Records of aborted transactions do
// not count.
func (c *Pass) gather(ctx context.Context, r cleanableRange) (*offsetMap, error) {
	m := newOffsetMap(c.Limits.MapBytes)
	m.latest = r.firstDirty - 1
	txns := newTxnFilter(nil)
	for _, s := range c.Segments {
		upper := c.upper(s)
		if upper <= r.firstDirty {
			continue
		}
		if s.Base() >= r.firstUncleanable {
			break
		}
		c.addAborted(txns, max(s.Base(), r.firstDirty), upper)
		full, err := c.gatherSegment(ctx, m, s, r.firstDirty, txns)
		if err != nil || full {
			return m, err
		}
		m.latest = upper - 1 // there may be no batch at the end of the range
	}
	return m, nil
}

// gatherSegment adds the keys of a segment, and reports whether the map became full.
func (c *Pass) gatherSegment(ctx context.Context, m *offsetMap, s *segment.Segment, from int64, txns *txnFilter) (full bool, err error) {
	for b, err := range s.Batches(max(from, s.Base())) {
		if err := errors.Join(err, ctx.Err()); err != nil {
			return false, err
		}
		discard, err := txns.discard(b)
		if err != nil {
			return false, err
		}
		if !discard && !b.IsControl() {
			if full, err := gatherBatch(m, b, from); err != nil || full {
				return full, err
			}
		}
		m.latest = max(m.latest, b.LastOffset())
	}
	return false, nil
}

func gatherBatch(m *offsetMap, b *record.Batch, from int64) (full bool, err error) {
	it, err := b.Records(math.MaxInt32) // its size was accepted once
	if err != nil {
		return false, err
	}
	var r record.Record
	for {
		ok, err := it.Next(&r)
		if err != nil || !ok {
			return false, err
		}
		if r.Key == nil || r.Offset < from {
			continue
		}
		if m.full() && m.get(r.Key) < 0 {
			return true, nil
		}
		m.put(r.Key, r.Offset)
		m.latest = max(m.latest, r.Offset)
	}
}

// readAborted reads the transaction index of each segment once. A segment may hold only the
// beginning of a transaction, so a search for its transactions has to read all later indexes.
func (c *Pass) readAborted() error {
	for _, s := range c.Segments {
		found, _, err := s.Aborted(0, math.MaxInt64)
		if err != nil {
			return err
		}
		c.aborted = append(c.aborted, found...)
	}
	return nil
}

// addAborted adds to txns the aborted transactions with records or their marker in [from, upper).
func (c *Pass) addAborted(txns *txnFilter, from, upper int64) {
	i, _ := slices.BinarySearchFunc(c.aborted, from, func(t segment.AbortedTxn, from int64) int { return cmp.Compare(t.LastOffset, from) })
	var found []segment.AbortedTxn
	for _, t := range c.aborted[i:] {
		if t.FirstOffset < upper {
			found = append(found, t)
		}
		if t.LastStableOffset >= upper { // the remaining transactions have only later records
			break
		}
	}
	txns.add(found)
}
