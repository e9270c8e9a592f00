package consumer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/record"
)

// Position returns the offset of the next record that will be handed out, or -1 if the partition is
// not assigned or its starting offset is not determined yet.
func (c *Consumer) Position(tp record.TopicPartition) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p := c.parts[tp]; p != nil {
		return p.d.position.Load()
	}
	return -1
}

// Lag returns for each assigned partition the number of offsets between the position and the end
// seen by the last fetch. The end is the last stable offset for ReadCommitted, else the high
// watermark. Partitions that were not fetched yet are left out.
func (c *Consumer) Lag() map[record.TopicPartition]int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	lag := make(map[record.TopicPartition]int64, len(c.parts))
	for tp, p := range c.parts {
		if pos := p.d.position.Load(); p.end >= 0 && pos >= 0 {
			lag[tp] = max(0, p.end-pos)
		}
	}
	return lag
}

// Seek moves the position of a partition to offset, also in a group. offset may be StartEarliest or
// StartLatest. Fetched records are dropped, and records in progress count as not processed. Seek
// returns ErrNotAssigned or ErrClosed. If the log does not contain the offset, the next fetch
// notices and applies Config.Reset.
//
// A seek that has not returned a record yet survives a rebalance if the group assigned the
// partition to this member both before and after it, so that no other member had it in between.
// Otherwise the next owner starts at the committed offset. With CommitProcessed the target of the
// seek is committed once it is known: an offset immediately, a start, an end or a time when it is
// looked up.
func (c *Consumer) Seek(tp record.TopicPartition, offset int64) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if offset < StartLatest && offset != StartEarliest {
		return fmt.Errorf("consumer: seek %s-%d to offset %d: negative", tp.Topic, tp.Partition, offset)
	}
	p := c.parts[tp]
	if !c.ownsLocked(p) {
		return c.notAssigned(tp)
	}
	c.seekLocked(p, offset)
	return nil
}

// notAssigned returns the error for a seek in a partition that the consumer does not read.
func (c *Consumer) notAssigned(tp record.TopicPartition) error {
	if c.isClosed() {
		return ErrClosed
	}
	return fmt.Errorf("consumer: seek %s-%d: %w", tp.Topic, tp.Partition, ErrNotAssigned)
}

// seekLocked begins a new delivery. Records that the polling goroutine holds belong to the old one.
func (c *Consumer) seekLocked(p *part, offset int64) {
	p.seek(offset)
	if c.runner != nil {
		c.runner.ignore(p)
	}
	c.wakeLocked()
}

// SeekToStart moves the partitions to their first record. Without arguments it moves all assigned
// ones.
func (c *Consumer) SeekToStart(tps ...record.TopicPartition) error {
	return c.seekAll(tps, StartEarliest)
}

// SeekToEnd moves the partitions to their end at the time of their next fetch. Without arguments it
// moves all assigned ones.
func (c *Consumer) SeekToEnd(tps ...record.TopicPartition) error {
	return c.seekAll(tps, StartLatest)
}

func (c *Consumer) seekAll(tps []record.TopicPartition, offset int64) error {
	if c.isClosed() {
		return ErrClosed
	}
	if len(tps) == 0 {
		tps = c.Assignment()
	}
	for _, tp := range tps {
		if err := c.Seek(tp, offset); err != nil {
			return err
		}
	}
	return nil
}

// SeekTime moves the partitions to their first record with timestamp t or later, or to the end if
// there is none. Without arguments it moves all assigned ones. It waits up to ten seconds for
// leaders that are missing or do not respond. The error joins the errors of partitions that could
// not be moved; the others were moved.
func (c *Consumer) SeekTime(ctx context.Context, t time.Time, tps ...record.TopicPartition) error {
	if c.isClosed() {
		return ErrClosed
	}
	if len(tps) == 0 {
		tps = c.Assignment()
	}
	query := make(map[record.TopicPartition]partition.OffsetSpec, len(tps))
	queried := make(map[record.TopicPartition]*part, len(tps))
	c.mu.Lock()
	for _, tp := range tps {
		p := c.parts[tp]
		if !c.ownsLocked(p) {
			c.mu.Unlock()
			return c.notAssigned(tp)
		}
		query[tp], queried[tp] = partition.At(t), p
	}
	c.mu.Unlock()
	found, err := c.listOffsets(ctx, query, awaitOffsets)
	if err != nil {
		return fmt.Errorf("consumer: seek: %w", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	var errs []error
	for _, tp := range tps {
		r := found[tp]
		switch {
		case !c.ownsLocked(queried[tp]): // the offset may be that of another topic with that name
			errs = append(errs, c.notAssigned(tp))
		case r.Err != nil:
			errs = append(errs, &PartitionError{tp, queried[tp].d.position.Load(), r.Err})
		default:
			c.seekLocked(queried[tp], r.Offset)
		}
	}
	return errors.Join(errs...)
}

// Pause stops handing out records of the partitions, without arguments of all assigned ones.
// Fetched records are kept, and group membership is not affected. The pause ends when a rebalance
// takes the partition away, even if it is assigned again.
func (c *Consumer) Pause(tps ...record.TopicPartition) { c.setPaused(tps, true) }

// Resume ends Pause for the partitions, without arguments for all assigned ones.
func (c *Consumer) Resume(tps ...record.TopicPartition) { c.setPaused(tps, false) }

func (c *Consumer) setPaused(tps []record.TopicPartition, paused bool) {
	if len(tps) == 0 {
		tps = c.Assignment()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, tp := range tps {
		if p := c.parts[tp]; p != nil {
			p.paused = paused
			if c.runner != nil {
				c.runner.setPaused(p, paused)
			}
		}
	}
	c.wakeLocked()
}
