package main

import (
	"context"

	"github.com/twmb/franz-go/pkg/kgo"
)

// startAtLast moves the start of each stretch back until o.last records are behind it. Markers of
// transactions, records of aborted ones and compaction take up offsets without a record. Offsets
// before the end are read in windows, each four times as large as the one before; none is read
// twice.
func (a *app) startAtLast(ctx context.Context, c *conn, tg *target, opts []kgo.Opt, ss stretches, o consumeOptions) error {
	found := map[partitionOf][]int64{} // offsets of the last records, at most o.last
	windows := make(stretches, len(ss))
	copy(windows, ss)
	for i := range windows {
		windows[i].to = windows[i].end
	}
	for size := o.last; ; size *= 4 {
		ends := windows.left()
		if len(ends) == 0 {
			break
		}
		client, err := c.newClient(append(opts[:len(opts):len(opts)], kgo.ConsumePartitions(windows.offsets()), kgo.ConsumeResetOffset(kgo.NoResetOffset()))...)
		if err != nil {
			return err
		}
		earlier := map[partitionOf][]int64{}
		r := &reading{app: a, o: consumeOptions{isolation: o.isolation}, client: client, timeout: tg.timeout, ends: ends}
		r.visit = func(rec *kgo.Record) {
			at := partitionOf{rec.Topic, rec.Partition}
			earlier[at] = append(earlier[at], rec.Offset)
			if n := int64(len(earlier[at])); n > 2*o.last { // the first ones are given up now and then
				earlier[at] = append(earlier[at][:0], earlier[at][n-o.last:]...)
			}
		}
		err = r.all(ctx)
		client.CloseAllowingRebalance()
		if err != nil || ctx.Err() != nil {
			return err
		}
		for i := range windows {
			w := &windows[i]
			if w.from >= w.to {
				continue
			}
			all := append(earlier[w.partitionOf], found[w.partitionOf]...)
			all = all[max(0, int64(len(all))-o.last):]
			found[w.partitionOf] = all
			if w.to = w.from; int64(len(all)) < o.last && w.from > w.start {
				w.from = max(w.start, w.from-min(4*size, w.from))
			}
			if len(all) > 0 {
				ss[i].from = all[0]
			}
		}
	}
	return nil
}
