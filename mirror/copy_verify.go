package mirror

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stratalog/strata/consumer"
	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/record"
)

// compareLast compares the last record of each partition with the source's. A source that was
// restored from an older backup may continue in the same leader epoch, and then leader epochs do not
// show that its records are others.
func (c *Copy) compareLast(ctx context.Context, from consumer.LogBackend) error {
	open := map[record.TopicPartition]*copied{}
	for _, part := range c.partitions() {
		if c.isWanted(part.tp.Topic) && part.p.LogEndOffset() > part.p.LogStartOffset() {
			open[part.tp] = part
		}
	}
	for tries := 0; len(open) > 0; tries++ {
		if tries == 20 {
			return fmt.Errorf("source: last records of %d partitions: %w", len(open), partition.ErrTimeout)
		}
		req := partition.FetchRequest{MinBytes: 1, MaxBytes: copyFetchBytes, MaxWait: copyFetchWait, Isolation: partition.ReadUncommitted}
		for tp, part := range open {
			req.Partitions = append(req.Partitions, partition.FetchPartition{
				TopicPartition: tp, Offset: part.p.LogEndOffset() - 1, MaxBytes: 1, CurrentLeaderEpoch: -1, LastFetchedEpoch: -1, TopicID: part.id,
			})
		}
		resp, err := from.Fetch(ctx, &req)
		if err != nil {
			return err
		}
		for i := range resp.Partitions {
			got := &resp.Partitions[i]
			part := open[got.TopicPartition]
			ask := part.p.Position()
			switch {
			case errors.Is(got.Err, partition.ErrOffsetOutOfRange): // the next fetch finds out why
				delete(open, got.TopicPartition)
				continue
			case got.Err != nil:
				return fmt.Errorf("source: %s-%d: %w", part.tp.Topic, part.tp.Partition, got.Err)
			case len(got.Bytes) == 0:
				if got.HighWatermark >= 0 && got.HighWatermark < ask.Offset {
					delete(open, got.TopicPartition)
				}
				continue
			}
			delete(open, got.TopicPartition)
			same, err := part.hasLast(got.Bytes)
			if err != nil {
				return onDisk(err)
			}
			if !same {
				if err := c.lost(part, ask, ask.LogStart); err != nil {
					return err
				}
			}
		}
		if len(open) > 0 && !sleep(ctx, 50*time.Millisecond) {
			return ctx.Err()
		}
	}
	return nil
}

// hasLast reports whether the last record of the copy may be the one in the source's batches.
// Compaction may have removed it there or here.
func (part *copied) hasLast(batches []byte) (bool, error) {
	last := part.p.LogEndOffset() - 1
	theirs, whole, err := recordAt(batches, last)
	if err != nil || whole == nil {
		return true, nil // damage is met by the next fetch
	}
	res, err := part.p.ReadFollower(partition.ReadRequest{Offset: last, MaxBytes: 1, Isolation: partition.ReadUncommitted, CurrentLeaderEpoch: -1}, 0)
	if err != nil {
		return false, err
	}
	ours, here, err := recordAt(res.Bytes, last)
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
