package consumer

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/stratalog/strata/group"
	"github.com/stratalog/strata/internal/retriable"
	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/replication"
)

// locator finds the starting offsets of partitions without a position. It tries in this order: the
// application's store, a seek or Config.Assign, the group's committed offset, the reset policy. It
// runs on the polling goroutine and never waits for a single partition: offsets that cannot be
// found now are tried again later.
type locator struct {
	c      *Consumer
	places []place
}

// locate finds positions. The error is to be reported: joined *PartitionErrors or an error of
// StartAt.
func (c *Consumer) locate(ctx context.Context) error {
	l := locator{c: c, places: c.unlocated()}
	if len(l.places) == 0 {
		return nil
	}
	if err := l.locateByApplication(ctx); err != nil {
		return err
	}
	wait, ok := c.beginWait(ctx)
	if !ok {
		return nil // handleChanges handles the event
	}
	defer c.endWait()
	if err := l.locateByGroup(wait); err != nil {
		return err
	}
	return l.locateByLogs(wait)
}

// unlocated returns the partitions without a position whose next attempt is due.
func (c *Consumer) unlocated() (places []place) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range c.order {
		if p.d.position.Load() < 0 && p.failed == nil && (p.trouble.until.IsZero() || !time.Now().Before(p.trouble.until)) {
			places = append(places, place{p: p, d: p.d, start: p.d.start, epoch: -1, fresh: !p.located})
		}
	}
	return places
}

// locateByApplication calls Config.StartAt for new partitions.
func (l *locator) locateByApplication(ctx context.Context) error {
	if l.c.cfg.StartAt == nil {
		return nil
	}
	var fresh []record.TopicPartition
	for _, at := range l.places {
		if at.fresh {
			fresh = append(fresh, at.p.tp)
		}
	}
	if len(fresh) == 0 {
		return nil
	}
	own, err := l.c.cfg.StartAt(ctx, fresh)
	if err != nil {
		return fmt.Errorf("consumer: StartAt: %w", err)
	}
	for i := range l.places {
		at := &l.places[i]
		off, ok := own[at.p.tp]
		if !ok || !at.fresh {
			continue
		}
		if off < StartReset {
			return fmt.Errorf("consumer: StartAt: offset %d for %s-%d", off, at.p.tp.Topic, at.p.tp.Partition)
		}
		at.start = off
	}
	return nil
}

// locateByGroup fetches the committed offsets of new partitions without another start.
func (l *locator) locateByGroup(ctx context.Context) error {
	if l.c.groups == nil {
		return nil
	}
	var query []record.TopicPartition
	for _, at := range l.places {
		if at.fresh && at.start == StartReset {
			query = append(query, at.p.tp)
		}
	}
	if len(query) == 0 {
		return nil
	}
	committed, unstable, err := l.c.startOffsets(ctx, query)
	if ctx.Err() != nil {
		l.places = nil
		return nil
	}
	if err != nil {
		err = l.fail(fmt.Errorf("offsets of group %s: %w", l.c.cfg.Group, err), func(at *place) bool { return at.fresh && at.start == StartReset })
	} else if len(unstable) > 0 {
		err = l.fail(group.ErrUnstableOffsetCommit, func(at *place) bool { return unstable[at.p.tp] != nil && at.fresh && at.start == StartReset })
	}
	for i := range l.places {
		if at := &l.places[i]; at.fresh && at.start == StartReset {
			if co, ok := committed[at.p.tp]; ok && co.Offset >= 0 {
				at.start = co.Offset
				if co.LeaderEpoch > 0 { // 0 may stand for an unknown epoch
					at.epoch = co.LeaderEpoch
				}
			}
		}
	}
	return err
}

// startOffsets returns the committed offsets of partitions. A reader of committed records must not
// start while an open transaction moves the offset on, since it would see the records a second
// time: such partitions are unstable (KIP-447).
func (c *Consumer) startOffsets(ctx context.Context, tps []record.TopicPartition) (committed map[record.TopicPartition]record.Committed, unstable map[record.TopicPartition]error, err error) {
	if c.cfg.Isolation == ReadCommitted {
		return c.groups.FetchStableOffsets(ctx, c.cfg.Group, tps)
	}
	committed, err = c.groups.FetchOffsets(ctx, c.cfg.Group, tps)
	return committed, nil, err
}

// locateByLogs resolves start constants (earliest, latest, reset) to offsets.
func (l *locator) locateByLogs(ctx context.Context) error {
	query := map[record.TopicPartition]partition.OffsetSpec{}
	var failed error
	for _, at := range l.places {
		spec, needed := l.c.startSpec(at)
		switch {
		case !needed:
			l.c.place(at, at.start, false)
		case spec == nil:
			failed = errors.Join(failed, l.c.noOffset(at))
		default:
			query[at.p.tp] = *spec
		}
	}
	if len(query) == 0 {
		return failed
	}
	got, err := l.c.listOffsets(ctx, query, listOffsets)
	if ctx.Err() != nil {
		return failed
	}
	isQueried := func(at *place) bool { _, ok := query[at.p.tp]; return ok }
	if err != nil {
		return errors.Join(failed, l.fail(err, isQueried))
	}
	for i := range l.places {
		at := &l.places[i]
		switch r := got[at.p.tp]; {
		case !isQueried(at):
		case r.Err != nil:
			failed = errors.Join(failed, l.c.troubled(at.p, at.d, r.Err))
		default:
			// Reset would not find the first record of a newborn partition again
			latest := at.p.newborn && l.c.cfg.Reset.kind == resetLatest
			l.c.place(*at, r.Offset, latest || query[at.p.tp] != partition.Earliest)
		}
	}
	return failed
}

// fail stores an error for all places that which selects, and drops them. It returns the error to
// be reported. A final error ends polling instead.
func (l *locator) fail(err error, which func(*place) bool) (report error) {
	if retriable.Final(err) {
		l.c.fail(fmt.Errorf("consumer: %w", err))
		l.places = nil
		return nil
	}
	left := l.places[:0]
	for i := range l.places {
		if at := l.places[i]; which(&at) {
			report = errors.Join(report, l.c.troubled(at.p, at.d, err))
		} else {
			left = append(left, at)
		}
	}
	l.places = left
	return report
}

// listOffsets looks offsets up with list. For a time after all records it returns the end.
func (c *Consumer) listOffsets(ctx context.Context, query map[record.TopicPartition]partition.OffsetSpec, list offsetLister) (map[record.TopicPartition]partition.OffsetResult, error) {
	got, err := list(ctx, c.logs, query, c.cfg.Isolation)
	if err != nil {
		return nil, err
	}
	ends := map[record.TopicPartition]partition.OffsetSpec{}
	for tp, spec := range query {
		if r := got[tp]; r.Err == nil && r.Offset < 0 && spec != partition.Latest {
			ends[tp] = partition.Latest
		}
	}
	if len(ends) > 0 {
		late, err := list(ctx, c.logs, ends, c.cfg.Isolation)
		if err != nil {
			return nil, err
		}
		maps.Copy(got, late)
	}
	return got, nil
}

// troubled stores an error of a partition and returns it if it is to be reported now. Damage and
// final errors stop the partition until a seek; other errors are retried.
func (c *Consumer) troubled(p *part, d *delivery, err error) error {
	return c.noteTroubled(p, d, err, passes(err))
}

// noteTroubled is troubled for an error that is transient or not.
func (c *Consumer) noteTroubled(p *part, d *delivery, err error, passing bool) error {
	if errors.Is(err, replication.ErrClosed) {
		c.fail(fmt.Errorf("consumer: %w", err))
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if p.d != d || c.parts[p.tp] != p {
		return nil
	}
	reported := &PartitionError{p.tp, d.position.Load(), err}
	if errors.Is(err, record.ErrCorrupt) || retriable.Final(err) {
		p.failed = reported
		return reported
	}
	if p.trouble.add(time.Now(), passing) {
		return reported
	}
	c.cfg.Logger.Debug("partition cannot be read, trying again", "topic", p.tp.Topic, "partition", p.tp.Partition, "err", err)
	return nil
}
