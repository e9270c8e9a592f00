package mirror

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/stratalog/strata/group"
	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/topic"
)

const (
	watchInterval     = 2 * time.Second
	retentionInterval = 30 * time.Second // between two looks at the source's settings
	warnInterval      = time.Minute      // between two warnings about retention
	retentionWarning  = 0.5
)

// watch keeps the lag and the group of the source up to date, and notices topics of the target that
// are replaced. It continues while the transaction in progress waits for the target.
func (e *engine) watch(ctx context.Context) {
	var retention, warned time.Time
	for {
		err := e.look(ctx)
		if err == nil && time.Since(retention) >= retentionInterval {
			retention = time.Now()
			err = e.lookAtRetention(ctx)
		}
		if err == nil && time.Since(warned) >= warnInterval {
			e.mu.Lock()
			used := e.stats.retention
			e.mu.Unlock()
			if used >= retentionWarning {
				warned = time.Now()
				e.cfg.Logger.Warn("the source will delete records before they are forwarded", "mirror", e.cfg.ID, "retention_used", used)
			}
		}
		var stop *StopError
		switch {
		case errors.As(err, &stop):
			e.fail(err)
			return
		case err != nil && ctx.Err() == nil:
			e.cfg.Logger.Debug("state of the mirror cannot be read", "mirror", e.cfg.ID, "err", err)
		}
		if !sleep(ctx, watchInterval) {
			e.commitGroup(context.WithoutCancel(ctx))
			return
		}
	}
}

// look looks up the source's ends and the target's topics.
func (e *engine) look(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	for _, fl := range e.flows {
		now := time.Now()
		ends, err := offsets(ctx, e.source, fl.source, len(fl.state), partition.Latest, partition.ReadCommitted)
		if err != nil {
			return err
		}
		starts, err := offsets(ctx, e.source, fl.source, len(fl.state), partition.Earliest, partition.ReadCommitted)
		if err != nil {
			return err
		}
		e.mu.Lock()
		for p := range fl.state {
			s := &fl.state[p]
			s.known, s.start, s.end = true, starts[p], ends[p]
			if fl.reached[p].next >= s.end {
				s.caughtUp = now
			}
		}
		e.mu.Unlock()
	}
	e.commitGroup(ctx)
	for _, fl := range e.flows {
		t, exists, err := e.topicAtTarget(ctx, fl.target)
		if err != nil {
			return err
		}
		if fl.missing++; exists {
			fl.missing = 0
		}
		// One response without the topic may come from a broker that lags behind.
		if exists && replaced(fl.targetID, t.ID) || fl.missing > 1 {
			return e.stop(fl.target, -1, -1, fmt.Errorf("%w at the target", ErrTopicReplaced))
		}
	}
	e.noteReachable()
	return nil
}

// commitGroup shows the position to tools, as the offsets of a group of the source.
func (e *engine) commitGroup(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	req := group.CommitRequest{Group: e.cfg.Group, Generation: -1, Offsets: map[record.TopicPartition]record.Committed{}, TopicIDs: map[string][16]byte{}}
	e.mu.Lock()
	for _, fl := range e.flows {
		if fl.id != (topic.ID{}) {
			req.TopicIDs[fl.source] = fl.id
		}
		for p, at := range fl.reached {
			if s := &fl.state[p]; s.shown != at.next+1 {
				req.Offsets[record.TopicPartition{Topic: fl.source, Partition: int32(p)}] = record.Committed{Offset: at.next, LeaderEpoch: at.epoch}
				s.shown = at.next + 1
			}
		}
	}
	e.mu.Unlock()
	if len(req.Offsets) == 0 {
		return
	}
	per, err := e.source.CommitOffsets(ctx, req)
	for _, one := range per {
		err = errors.Join(err, one)
	}
	if err != nil {
		e.mu.Lock()
		for _, fl := range e.flows {
			for p := range fl.state {
				fl.state[p].shown = 0
			}
		}
		e.mu.Unlock()
		e.cfg.Logger.Debug("position cannot be shown as a group", "mirror", e.cfg.ID, "group", e.cfg.Group, "err", err)
	}
}

// lookAtRetention computes the share of the source's retention that has passed for the oldest
// record that is not forwarded.
func (e *engine) lookAtRetention(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	used := 0.0
	for _, fl := range e.flows {
		info, err := e.source.Topic(ctx, fl.source)
		if err != nil {
			return err
		}
		if !info.Settings.Deleted() {
			continue
		}
		ms, bytes := number(info.Settings, "retention.ms"), number(info.Settings, "retention.bytes")
		e.mu.Lock()
		for p := range fl.state {
			s := &fl.state[p]
			n, since := s.lag(fl.reached[p].next)
			if n == 0 {
				continue
			}
			if ms > 0 && !since.IsZero() {
				used = max(used, float64(time.Since(since).Milliseconds())/ms)
			}
			if bytes > 0 && p < len(info.Partitions) && s.end > s.start {
				used = max(used, float64(info.Partitions[p].SizeBytes)*float64(n)/float64(s.end-s.start)/bytes)
			}
		}
		e.mu.Unlock()
	}
	e.mu.Lock()
	e.stats.retention = used
	e.mu.Unlock()
	return nil
}

// number returns a setting as a number, 0 if it has no limit.
func number(s topic.Settings, key string) float64 {
	v, _ := s.Value(key)
	n, err := strconv.ParseInt(v, 10, 64)
	if err != nil || n < 0 {
		return 0
	}
	return float64(n)
}
