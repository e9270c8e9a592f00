package consumer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/stratalog/strata/internal/retriable"
	"github.com/stratalog/strata/partition"
)

// fetch gets records for the partitions that have none, and removes the partitions that are at
// their end.
func (r *reader) fetch(ctx context.Context, minBytes int) error {
	again := r.prepareRequest(minBytes)
	if len(r.request.Partitions) == 0 {
		if again > 0 {
			pause(ctx, again)
		}
		return ctx.Err()
	}
	var resp *partition.FetchResponse
	err := retry(ctx, func() (err error) {
		resp, err = r.b.Fetch(ctx, &r.request)
		return err
	})
	if err != nil {
		return fmt.Errorf("consumer: read %s: %w", r.cfg.Topic, err)
	}
	if len(resp.Partitions) != len(r.request.Partitions) {
		return fmt.Errorf("consumer: read %s: the answer to a fetch is not in the order of the request", r.cfg.Topic)
	}
	empty, known, i := true, true, 0
	for _, p := range r.parts {
		if !p.requested {
			continue
		}
		fp := &resp.Partitions[i]
		i++
		if err := r.keep(ctx, p, fp); err != nil {
			return err
		}
		empty = empty && fp.Err == nil && len(fp.Bytes) == 0
		known = known && fp.HighWatermark >= 0
	}
	if empty && known && !r.follows {
		r.giveUpGaps(resp)
	}
	r.parts = slices.DeleteFunc(r.parts, r.finished)
	if r.missing = 0; empty {
		r.missing = 1
	}
	return ctx.Err()
}

// prepareRequest makes the request for the partitions without fetched records. A partition in
// trouble is left out until its next attempt is due, and the fetch waits no longer than that; again
// is that time, 0 if there is none.
func (r *reader) prepareRequest(minBytes int) (again time.Duration) {
	each := r.cfg.MaxBytes
	if r.cfg.ByTime {
		each = max(each/len(r.parts), 1) // all of them are held at the same time
	}
	r.request = partition.FetchRequest{Partitions: r.request.Partitions[:0], Isolation: r.cfg.Isolation, MinBytes: minBytes, Rack: r.cfg.Rack}
	for _, p := range r.parts {
		p.requested = !p.haveHead && !p.chunk.left()
		if rest := time.Until(p.trouble.until); p.requested && p.trouble.backoff > 0 && rest > 0 {
			p.requested, again = false, min(cmp.Or(again, rest), rest)
		}
		if p.requested {
			r.request.Partitions = append(r.request.Partitions, partition.FetchPartition{
				TopicPartition: p.tp, TopicID: r.id, Offset: p.next, MaxBytes: min(each, DefaultPartitionBytes),
				CurrentLeaderEpoch: p.leader, LastFetchedEpoch: p.epoch,
			})
			r.request.MaxBytes = min(r.request.MaxBytes+each, r.cfg.MaxBytes)
		}
	}
	if minBytes > 0 {
		wait := DefaultMaxWait // the ends of gaps are found by a fetch that returns no records
		if r.follows {
			wait = followWait
		}
		r.request.MaxWait = cmp.Or(again, wait)
	}
	return again
}

// keep stores the result of a fetch for a partition.
func (r *reader) keep(ctx context.Context, p *readPart, fp *partition.FetchedPartition) error {
	switch {
	case fp.Err == nil && fp.HighWatermark < 0: // the leader has not responded
		return nil
	case fp.Err == nil:
		p.trouble, p.leader = trouble{}, fp.LeaderEpoch
		if len(fp.Bytes) > 0 {
			p.chunk = newChunk(nil, p.next, fp)
		}
		return nil
	case errors.Is(fp.Err, partition.ErrOffsetOutOfRange) && !retriable.Final(fp.Err): // records were deleted, or have expired
		starts, err := r.offsets(ctx, []*readPart{p}, func(*readPart) partition.OffsetSpec { return partition.Earliest })
		if err != nil {
			return err
		}
		if starts[p.tp] <= p.next {
			return r.failed(ctx, p, fp.Err) // beyond the end: the log has lost records
		}
		p.next = starts[p.tp]
		return r.sameTopic(ctx) // offsets are looked up by name
	}
	if errors.Is(fp.Err, partition.ErrFencedLeaderEpoch) && p.leader >= 0 && !retriable.Final(fp.Err) {
		p.leader = -1 // there is a new leader: the next fetch has its epoch
		return nil
	}
	err := r.failed(ctx, p, fp.Err)
	if isOfPartition(err) && passes(fp.Err) && !p.trouble.add(time.Now(), true) {
		return nil // it is retried
	}
	return err
}

// giveUpGaps ends the partitions of a fetch that returned no batch at all, although all leaders
// responded. The first partition with a batch gets it whatever the limits are, so there is none
// below the ends, unless the replica that was read is behind the leader. Compaction leaves such
// gaps.
func (r *reader) giveUpGaps(resp *partition.FetchResponse) {
	i := 0
	for _, p := range r.parts {
		if p.requested {
			shown := resp.Partitions[i].HighWatermark
			if r.cfg.Isolation == ReadCommitted {
				shown = resp.Partitions[i].LastStableOffset
			}
			if p.end <= shown {
				p.next = p.end
			}
			i++
		}
	}
}
