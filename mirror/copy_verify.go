package mirror

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/stratalog/strata/consumer"
	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/record"
)

// compareLast compares the last record of each partition with the source's. A source that was
// restored from an older backup may continue in the same leader epoch, and then leader epochs do not
// show that its records are others.
func (c *Copy) compareLast(ctx context.Context, from consumer.LogBackend) error {
	last := map[*copied]int64{}
	for _, part := range c.partitions() {
		if end := part.p.LogEndOffset(); slices.Contains(c.cfg.Topics, part.tp.Topic) && end > part.p.LogStartOffset() {
			last[part] = end - 1
		}
	}
	same, err := c.compareAt(ctx, from, last)
	if err != nil {
		return err
	}
	for part, offset := range last {
		if same[part] {
			continue
		}
		// The records are the same up to a first one that differs.
		low, high := part.p.LogStartOffset(), offset
		for low < high {
			middle := low + (high-low)/2
			same, err := c.compareAt(ctx, from, map[*copied]int64{part: middle})
			if err != nil {
				return err
			}
			if same[part] {
				low = middle + 1
			} else {
				high = middle
			}
		}
		if err := c.lost(part, part.p.Position(), low); err != nil {
			return err
		}
	}
	return nil
}

// compareAt reports for each partition whether the source has the copy's record at an offset. It is
// true if the next fetch will find out more.
func (c *Copy) compareAt(ctx context.Context, from consumer.LogBackend, at map[*copied]int64) (same map[*copied]bool, err error) {
	same, open := map[*copied]bool{}, map[record.TopicPartition]*copied{}
	for part := range at {
		open[part.tp] = part
	}
	for tries := 0; len(open) > 0; tries++ {
		if tries == 20 {
			return nil, fmt.Errorf("source: records of %d partitions: %w", len(open), partition.ErrTimeout)
		}
		req := partition.FetchRequest{MinBytes: 1, MaxBytes: copyFetchBytes, MaxWait: copyFetchWait, Isolation: partition.ReadUncommitted}
		for tp, part := range open {
			want := partition.FetchPartition{TopicPartition: tp, Offset: at[part], MaxBytes: 1, CurrentLeaderEpoch: -1, LastFetchedEpoch: -1, TopicID: part.id}
			if ask := part.p.Position(); ask.Offset == at[part]+1 {
				want.LastFetchedEpoch = ask.LastEpoch
			}
			req.Partitions = append(req.Partitions, want)
		}
		resp, err := from.Fetch(ctx, &req)
		if err != nil {
			return nil, err
		}
		for i := range resp.Partitions {
			got := &resp.Partitions[i]
			part := open[got.TopicPartition]
			offset := at[part]
			switch {
			case errors.Is(got.Err, partition.ErrOffsetOutOfRange), errors.Is(got.Err, partition.ErrTruncated): // a fetch at the end shows more
				same[part] = true
			case got.Err != nil:
				return nil, fmt.Errorf("source: %s-%d: %w", part.tp.Topic, part.tp.Partition, got.Err)
			case len(got.Bytes) > 0:
				if same[part], err = part.has(offset, got.Bytes); err != nil {
					return nil, onDisk(err)
				}
			case got.HighWatermark >= 0 && got.HighWatermark <= offset:
				same[part] = true
			default:
				continue
			}
			delete(open, got.TopicPartition)
		}
		if len(open) > 0 && !sleep(ctx, 50*time.Millisecond) {
			return nil, ctx.Err()
		}
	}
	return same, nil
}

// has reports whether the copy's record at an offset may be the one in the source's batches.
// Compaction may have removed it there or here.
func (part *copied) has(offset int64, batches []byte) (bool, error) {
	theirs, whole, err := recordAt(batches, offset)
	if err != nil || whole == nil {
		return true, nil // damage is met by the next fetch
	}
	res, err := part.p.ReadFollower(partition.ReadRequest{Offset: offset, MaxBytes: 1, Isolation: partition.ReadUncommitted, CurrentLeaderEpoch: -1}, 0)
	if err != nil {
		return false, err
	}
	ours, here, err := recordAt(res.Bytes, offset)
	switch {
	case err != nil:
		return false, err
	case len(here) == 0 || bytes.Equal(whole, here):
		return true, nil
	}
	kind, control := markerOf(whole)
	ourKind, ourControl := markerOf(here)
	switch {
	case control || ourControl: // compaction changes the timestamp of a marker
		return control == ourControl && kind == ourKind, nil
	case ours == nil || theirs == nil:
		return true, nil
	}
	return fingerprint(ours) == fingerprint(theirs), nil
}

// marker identifies a transaction marker.
type marker struct {
	kind     int16
	producer int64
	epoch    int16
}

func markerOf(batch []byte) (m marker, ok bool) {
	b, _, err := record.Parse(batch)
	if err != nil || !b.IsControl() {
		return m, false
	}
	kind, _, _ := b.Control()
	return marker{int16(kind), b.ProducerID, b.ProducerEpoch}, true
}

// recordAt returns the record at an offset, nil if there is none or it is a marker, and the batch
// that covers the offset, nil if there is none.
func recordAt(batches []byte, offset int64) (r *record.Record, whole []byte, err error) {
	for len(batches) > 0 {
		b, n, err := record.Parse(batches)
		if err != nil {
			return nil, nil, err
		}
		if b.BaseOffset <= offset && offset < b.NextOffset() {
			if !b.IsControl() {
				for one, err := range b.All() {
					if err != nil {
						return nil, nil, err
					}
					if one.Offset == offset {
						found := one
						r = &found
					}
				}
			}
			return r, batches[:n], nil
		}
		batches = batches[n:]
	}
	return nil, nil, nil
}
