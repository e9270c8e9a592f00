package consumer

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/stratalog/strata/partition"
)

// fetch gets records for the partitions that have none, and takes those away that are at their end.
func (r *reader) fetch(ctx context.Context, minBytes int) error {
	r.ask(minBytes)
	if len(r.request.Partitions) == 0 {
		return ctx.Err()
	}
	resp, err := r.b.Fetch(ctx, &r.request)
	if err == nil {
		err = r.sameTopic(ctx)
	}
	if err != nil {
		return fmt.Errorf("consumer: read %s: %w", r.cfg.Topic, err)
	}
	if len(resp.Partitions) != len(r.request.Partitions) {
		return fmt.Errorf("consumer: read %s: the answer to a fetch is not in the order of the request", r.cfg.Topic)
	}
	empty, i := true, 0
	for _, p := range r.parts {
		if !p.asked {
			continue
		}
		fp := &resp.Partitions[i]
		i++
		if err := r.keep(ctx, p, fp); err != nil {
			return err
		}
		empty = empty && fp.Err == nil && len(fp.Bytes) == 0
	}
	if empty && !r.follows {
		r.giveUpGaps(resp)
	}
	r.parts = slices.DeleteFunc(r.parts, r.finished)
	return ctx.Err()
}

// ask makes the request for the partitions that have nothing to hand out.
func (r *reader) ask(minBytes int) {
	each := r.cfg.MaxBytes
	if r.cfg.ByTime {
		each = max(each/len(r.parts), 1) // all of them are held at the same time
	}
	r.request = partition.FetchRequest{Partitions: r.request.Partitions[:0], Isolation: r.cfg.Isolation, MinBytes: minBytes}
	for _, p := range r.parts {
		if p.asked = !p.haveHead && !p.chunk.left(); p.asked {
			r.request.Partitions = append(r.request.Partitions, partition.FetchPartition{
				TopicPartition: p.tp, Offset: p.next, MaxBytes: min(each, DefaultPartitionBytes), CurrentLeaderEpoch: -1,
			})
			r.request.MaxBytes = min(r.request.MaxBytes+each, r.cfg.MaxBytes)
		}
	}
	if minBytes > 0 {
		r.request.MaxWait = followWait
	}
}

// keep takes what a fetch brought of a partition.
func (r *reader) keep(ctx context.Context, p *readPart, fp *partition.FetchedPartition) error {
	switch {
	case fp.Err == nil:
		if len(fp.Bytes) > 0 {
			p.chunk = newChunk(nil, p.next, fp)
		}
		return nil
	case errors.Is(fp.Err, partition.ErrOffsetOutOfRange): // records were deleted, or have expired
		starts, err := r.offsets(ctx, []*readPart{p}, func(*readPart) partition.OffsetSpec { return partition.Earliest })
		if err != nil {
			return err
		}
		if starts[p.tp] <= p.next {
			return r.failed(ctx, p, fp.Err) // beyond the end: the log has lost records
		}
		p.next = starts[p.tp]
		return nil
	}
	return r.failed(ctx, p, fp.Err)
}

// giveUpGaps ends the partitions of a fetch that found nothing in any of them: the first one that
// has a batch gets it whatever the limits are, so there is none below the ends. Compaction leaves
// such gaps.
func (r *reader) giveUpGaps(resp *partition.FetchResponse) {
	i := 0
	for _, p := range r.parts {
		if p.asked {
			if p.end <= resp.Partitions[i].HighWatermark {
				p.next = p.end
			}
			i++
		}
	}
}
