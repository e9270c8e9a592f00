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
// not assigned or not located yet.
func (c *Consumer) Position(tp record.TopicPartition) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p := c.parts[tp]; p != nil {
		return p.d.position.Load()
	}
	return -1
}

// Lag returns for each assigned partition how many offsets lie between the position and the end, as
// the last fetch saw it: the last stable offset for ReadCommitted, else the high watermark.
// Partitions that were not fetched yet are missing.
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

// Seek makes the partition go on at offset, also inside a group; offset may be StartEarliest or
// StartLatest. What was fetched is dropped, what is in hand counts as not processed. It returns
// ErrNotAssigned and ErrClosed. An offset that the log does not hold is noticed by the next fetch
// and answered by Config.Reset.
//
// A seek that no record has answered yet outlasts a rebalance if the group assigned the partition
// to this member in the generations before and after it, so that nobody else had it in between. Who
// gets it otherwise goes on at the committed offset. With CommitProcessed that is the one sought to
// once it is known: an offset at once, a start, an end or a time when they are looked up.
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

// notAssigned is the error of a seek in a partition that the consumer does not read.
func (c *Consumer) notAssigned(tp record.TopicPartition) error {
	if c.isClosed() {
		return ErrClosed
	}
	return fmt.Errorf("consumer: seek %s-%d: %w", tp.Topic, tp.Partition, ErrNotAssigned)
}

// seekLocked begins a new delivery. What the polling goroutine has in hand belongs to the old one.
func (c *Consumer) seekLocked(p *part, offset int64) {
	p.seek(offset)
	if c.runner != nil {
		c.runner.forget(p)
	}
	c.wakeLocked()
}

// SeekToStart makes the partitions (none: all assigned ones) go on at their first record held.
func (c *Consumer) SeekToStart(tps ...record.TopicPartition) error {
	return c.seekAll(tps, StartEarliest)
}

// SeekToEnd makes the partitions (none: all assigned ones) go on at their end, as it is when they
// are next read.
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

// SeekTime makes the partitions (none: all assigned ones) go on at their first record with
// timestamp t or later, at the end if there is none. The error joins those of partitions that could
// not be sought; the others are.
func (c *Consumer) SeekTime(ctx context.Context, t time.Time, tps ...record.TopicPartition) error {
	if c.isClosed() {
		return ErrClosed
	}
	if len(tps) == 0 {
		tps = c.Assignment()
	}
	ask := make(map[record.TopicPartition]partition.OffsetSpec, len(tps))
	asked := make(map[record.TopicPartition]*part, len(tps))
	c.mu.Lock()
	for _, tp := range tps {
		p := c.parts[tp]
		if !c.ownsLocked(p) {
			c.mu.Unlock()
			return c.notAssigned(tp)
		}
		ask[tp], asked[tp] = partition.At(t), p
	}
	c.mu.Unlock()
	found, err := c.listOffsets(ctx, ask)
	if err != nil {
		return fmt.Errorf("consumer: seek: %w", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	var errs []error
	for _, tp := range tps {
		r, ok := found[tp]
		switch {
		case !c.ownsLocked(asked[tp]): // what was found may be of another topic of that name
			errs = append(errs, c.notAssigned(tp))
		case !ok:
			errs = append(errs, fmt.Errorf("consumer: seek %s-%d: no answer", tp.Topic, tp.Partition))
		case r.Err != nil:
			errs = append(errs, &PartitionError{tp, asked[tp].d.position.Load(), r.Err})
		default:
			c.seekLocked(asked[tp], r.Offset)
		}
	}
	return errors.Join(errs...)
}

// Pause stops handing out records of the partitions (none: all assigned ones); what is fetched is
// kept. Membership is not affected. A rebalance that gives a partition away and back forgets the
// pause.
func (c *Consumer) Pause(tps ...record.TopicPartition) { c.setPaused(tps, true) }

// Resume ends Pause.
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
