package mirror

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/stratalog/strata/consumer"
	"github.com/stratalog/strata/log"
	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/replication"
	"github.com/stratalog/strata/topic"
)

const (
	copyFetchBytes     = 8 << 20
	copyPartitionBytes = 1 << 20
	copyFetchWait      = 500 * time.Millisecond
	copyLookInterval   = 10 * time.Second // between two looks at the source's topics
	copyCleanInterval  = time.Minute
	copyPause          = 50 * time.Millisecond // before the first retry
	copyMaxPause       = time.Second
)

// Run copies until ctx or the copy ends; then it returns nil. Run may be called again.
//
// The copy follows its source: it deletes records when the source has deleted them, compacts
// compacted topics, and within 10 s adds the partitions that a topic gets. Records that the source
// deletes before they are copied are skipped, with a warning, and counted in Stats.
//
// Unreachable brokers and elections are retried, with pauses that grow to 1 s; Stats has the last
// error. A partition that fails does not delay others. Run ends with the other errors:
//
//   - a *StopError that matches ErrOtherSource, ErrTopicReplaced, or ErrTruncated: the source has
//     lost records that were copied (CopyConfig.AcceptTruncation);
//   - replication.ErrUnknownTopic for a topic that the source does not have;
//   - an error of the source that excludes a retry, such as remote.ErrNotAuthorized;
//   - an error of the copy's disk;
//   - ErrRunning, ErrNoSource, and a *topic.ConfigError if there are no Topics.
func (c *Copy) Run(ctx context.Context) error {
	switch {
	case c.source == nil:
		return ErrNoSource
	case len(c.cfg.Topics) == 0:
		return fmt.Errorf("mirror: copy in %s: %w", c.cfg.Dir, configError("Topics", "", "nothing to copy"))
	}
	c.mu.Lock()
	switch {
	case c.closing.Err() != nil:
		c.mu.Unlock()
		return replication.ErrClosed
	case c.running:
		c.mu.Unlock()
		return ErrRunning
	}
	c.running = true
	c.runs.Add(1)
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		c.running, c.stats.Connected = false, time.Time{}
		c.mu.Unlock()
		c.runs.Done()
	}()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(c.closing, cancel)()
	var cleaner sync.WaitGroup
	cleaner.Go(func() { c.cleanOften(ctx) })
	defer cleaner.Wait()
	defer cancel()
	pause := copyPause
	for {
		worked, err := c.copyAll(ctx)
		if ctx.Err() != nil {
			return nil
		}
		c.failing(err, isPassing(err))
		if !isPassing(err) {
			return err
		}
		if worked {
			pause = copyPause
		}
		if !sleep(ctx, pause) {
			return nil
		}
		pause = min(2*pause, copyMaxPause)
	}
}

// A diskError is an error of the copy's own files.
type diskError struct{ error }

func (e *diskError) Unwrap() error { return e.error }

func onDisk(err error) error {
	if err == nil {
		return nil
	}
	return &diskError{err}
}

// failing notes an error, and logs the first of several that pass.
func (c *Copy) failing(err error, passes bool) {
	c.mu.Lock()
	first := !c.stats.Connected.IsZero() || c.stats.LastError == nil
	c.stats.Connected, c.stats.LastError, c.stats.LastErrorAt = time.Time{}, err, time.Now()
	c.mu.Unlock()
	if first && passes {
		c.cfg.Logger.Warn("copy is interrupted", slog.String("dir", c.cfg.Dir), slog.Any("err", err))
	}
}

func (c *Copy) connected() {
	c.mu.Lock()
	first := c.stats.Connected.IsZero()
	if first {
		c.stats.Connected = time.Now()
	}
	c.mu.Unlock()
	if first {
		c.cfg.Logger.Info("copy is connected", slog.String("dir", c.cfg.Dir))
	}
}

// stop is an error that ends Run.
func (c *Copy) stop(tp record.TopicPartition, offset int64, err error) error {
	return &StopError{Mirror: c.cfg.Dir, Topic: tp.Topic, Partition: tp.Partition, Offset: offset, Err: err}
}

// copyAll copies until an error. worked reports whether records were fetched.
func (c *Copy) copyAll(ctx context.Context) (worked bool, err error) {
	var from consumer.LogBackend = c.source
	if o, ok := c.source.(consumer.Opener); ok {
		session, end, err := o.OpenSession(ctx, consumer.Session{ClientID: "strata-copy"})
		if err != nil {
			return false, err
		}
		defer end()
		from = session
	}
	var looked time.Time
	var buf []byte
	for {
		if time.Since(looked) >= copyLookInterval {
			if err := c.look(ctx, from); err != nil {
				return worked, err
			}
			if looked.IsZero() && !worked {
				if err := c.compareLast(ctx, from); err != nil {
					return false, err
				}
			}
			looked = time.Now()
		}
		trouble, err := c.copyOnce(ctx, from, &buf)
		if err != nil {
			return worked, err
		}
		if worked = true; trouble != nil {
			c.failing(trouble, true)
			looked = time.Time{}
		} else {
			c.connected()
		}
	}
}

// look compares the topics with the source's, and opens partitions that are new.
func (c *Copy) look(ctx context.Context, from consumer.LogBackend) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	md, err := from.Metadata(ctx, c.cfg.Topics...)
	if err != nil {
		return err
	}
	c.mu.Lock()
	known := c.state
	c.mu.Unlock()
	if known.ClusterID != "" && md.ClusterID != "" && known.ClusterID != md.ClusterID {
		return c.stop(record.TopicPartition{Topic: c.cfg.Topics[0], Partition: -1}, -1, fmt.Errorf("%w: %s, it was %s", ErrOtherSource, md.ClusterID, known.ClusterID))
	}
	next := known.clone()
	next.ClusterID = md.ClusterID
	grown := known.ClusterID != next.ClusterID
	for _, name := range c.cfg.Topics {
		found, had := md.Topics[name], next.topic(name)
		whole := record.TopicPartition{Topic: name, Partition: -1}
		switch {
		case had != nil && isUnknown(found.Err), had != nil && found.Err == nil && replaced(had.ID, found.ID):
			return c.stop(whole, -1, fmt.Errorf("%w at the source", ErrTopicReplaced))
		case had == nil && topic.IsInternal(name) && isUnknown(found.Err): // the source makes it when it needs it
		case found.Err != nil:
			return fmt.Errorf("source: topic %s: %w", name, found.Err)
		case had == nil:
			info, err := c.source.Topic(ctx, name)
			if err != nil {
				return fmt.Errorf("source: %w", err)
			}
			next.Topics = append(next.Topics, copiedTopic{Name: name, ID: found.ID, Partitions: len(found.Partitions), Config: info.Settings.Explicit()})
			grown = true
		case len(found.Partitions) > had.Partitions:
			had.Partitions, grown = len(found.Partitions), true
		}
	}
	if grown {
		if err := next.write(c.cfg.FS, c.cfg.Dir); err != nil {
			return onDisk(err)
		}
		c.mu.Lock()
		c.state = next
		c.mu.Unlock()
		for _, t := range next.Topics {
			if err := c.openTopic(t); err != nil {
				return onDisk(err)
			}
		}
		if err := c.noteOpened(); err != nil {
			return onDisk(err)
		}
	}
	moved, err := c.followEpochs(md)
	if grown || moved {
		c.publish()
	}
	return err
}

// followEpochs makes the partitions followers in the leader epochs of the source.
func (c *Copy) followEpochs(md replication.Metadata) (moved bool, err error) {
	for _, name := range c.cfg.Topics {
		for i, p := range md.Topics[name].Partitions {
			part, err := c.find(record.TopicPartition{Topic: name, Partition: int32(i)})
			if err != nil {
				return moved, err
			}
			c.mu.Lock()
			newer := p.LeaderEpoch > part.epoch
			c.mu.Unlock()
			if !newer {
				continue
			}
			if err := part.p.Follow(p.LeaderEpoch); err != nil {
				return moved, onDisk(err)
			}
			c.mu.Lock()
			part.epoch, moved = p.LeaderEpoch, true
			c.mu.Unlock()
		}
	}
	return moved, nil
}

// copyOnce makes one fetch and appends the batches. trouble is the error of partitions that are
// tried again after a pause.
func (c *Copy) copyOnce(ctx context.Context, from consumer.LogBackend, buf *[]byte) (trouble, err error) {
	req, parts, asks := c.question(*buf)
	if len(parts) == 0 {
		if !sleep(ctx, req.MaxWait) {
			return nil, ctx.Err()
		}
		return nil, nil
	}
	resp, err := from.Fetch(ctx, req)
	if err != nil {
		return nil, err
	}
	var appends sync.WaitGroup
	var mu sync.Mutex // guards failed
	var failed error
	size, troubles := 0, 0
	for i := range resp.Partitions {
		got := &resp.Partitions[i]
		size += len(got.Bytes)
		err := got.Err
		if err == nil {
			appends.Add(1)
			err = c.take(parts[i], asks[i], got, func(err error) {
				if err != nil {
					mu.Lock()
					failed = errors.Join(failed, onDisk(err))
					mu.Unlock()
				}
				appends.Done()
			})
			parts[i].pause = 0
		} else if err = c.refused(ctx, from, parts[i], asks[i], err); isPassing(err) {
			parts[i].backOff()
			if troubles++; trouble == nil {
				trouble = err
			}
			err = nil
		}
		if err != nil {
			mu.Lock()
			failed = errors.Join(failed, err)
			mu.Unlock()
		}
	}
	appends.Wait()
	if cap(*buf) < size {
		*buf = make([]byte, 0, min(2*size, copyFetchBytes+copyPartitionBytes))
	}
	if troubles > 1 {
		trouble = fmt.Errorf("%w (and %d more partitions)", trouble, troubles-1)
	}
	return trouble, failed
}

// question returns the request for the partitions that are not in a pause, with their positions.
func (c *Copy) question(buf []byte) (req *partition.FetchRequest, parts []*copied, asks []partition.ReplicaFetch) {
	req = &partition.FetchRequest{MinBytes: 1, MaxBytes: copyFetchBytes, MaxWait: copyFetchWait, Isolation: partition.ReadUncommitted, Buf: buf}
	for _, part := range c.partitions() {
		if !slices.Contains(c.cfg.Topics, part.tp.Topic) {
			continue
		}
		if wait := time.Until(part.retryAt); wait > 0 {
			req.MaxWait = min(req.MaxWait, wait)
			continue
		}
		ask := part.p.Position()
		c.mu.Lock()
		ask.LeaderEpoch = part.epoch
		c.mu.Unlock()
		parts, asks = append(parts, part), append(asks, ask)
		req.Partitions = append(req.Partitions, partition.FetchPartition{
			TopicPartition: part.tp, Offset: ask.Offset, MaxBytes: copyPartitionBytes, CurrentLeaderEpoch: -1,
			LastFetchedEpoch: ask.LastEpoch, TopicID: part.id,
		})
	}
	return req, parts, asks
}

// backOff makes the partition wait before it is fetched again.
func (part *copied) backOff() {
	part.pause = min(max(2*part.pause, copyPause), copyMaxPause)
	part.retryAt = time.Now().Add(part.pause)
}

// isPassing reports whether a partition is tried again after an error.
func isPassing(err error) bool {
	return err != nil && !isFinal(err) && !isUnknown(err) && !errors.As(err, new(*diskError))
}

// take appends the batches of a response, and moves the log start to the source's. done is called
// in any case, with an error of the disk.
func (c *Copy) take(part *copied, ask partition.ReplicaFetch, got *partition.FetchedPartition, done func(error)) error {
	c.mu.Lock()
	if got.HighWatermark >= 0 {
		part.sourceEnd = got.HighWatermark
	}
	c.mu.Unlock()
	if got.LogStartOffset > ask.LogStart {
		if err := part.p.AdvanceStart(ask.LeaderEpoch, min(got.LogStartOffset, ask.Offset)); err != nil {
			done(err)
			return nil
		}
	}
	if len(got.Bytes) == 0 {
		done(nil)
		return nil
	}
	first, err := record.ParseHeader(got.Bytes)
	if err != nil {
		done(nil)
		return fmt.Errorf("source: %s-%d: %w", part.tp.Topic, part.tp.Partition, err)
	}
	start := int64(0)
	if first.BaseOffset < ask.Offset { // the source begins in the middle of a batch
		if ask.LogStart < ask.Offset {
			done(nil)
			return c.lost(part, ask, first.BaseOffset)
		}
		if err := part.p.StartAt(ask, first.BaseOffset, log.Purged{}); err != nil {
			done(err)
			return nil
		}
		start, ask.Offset = ask.Offset, first.BaseOffset
	}
	before, size := ask.Offset, int64(len(got.Bytes))
	part.p.CopyFrom(&partition.Copy{
		Epoch: ask.LeaderEpoch, Offset: ask.Offset, Batches: got.Bytes, HighWatermark: got.HighWatermark, LogStart: got.LogStartOffset,
		Done: func(err error) {
			if err == nil {
				c.mu.Lock()
				c.stats.Records += part.p.LogEndOffset() - before
				c.stats.Bytes += size
				c.mu.Unlock()
			}
			if err != nil || start == 0 {
				done(err)
				return
			}
			go func() { done(part.p.AdvanceStart(ask.LeaderEpoch, start)) }() // it blocks for the disk
		},
	})
	return nil
}

// lost is called when the source does not have records of the copy any more, which ends at the
// given offset for the source.
func (c *Copy) lost(part *copied, ask partition.ReplicaFetch, end int64) error {
	if !c.cfg.AcceptTruncation {
		return c.stop(part.tp, ask.Offset, fmt.Errorf("%w: it has others from offset %d on", ErrTruncated, end))
	}
	c.cfg.Logger.Warn("copied records are removed: the source has lost them", slog.String("dir", c.cfg.Dir), slog.String("topic", part.tp.Topic),
		slog.Int("partition", int(part.tp.Partition)), slog.Int64("from", end), slog.Int64("to", ask.Offset))
	return onDisk(part.p.TruncateTo(max(end, ask.LogStart)))
}

// refused handles the error of a partition.
func (c *Copy) refused(ctx context.Context, from consumer.LogBackend, part *copied, ask partition.ReplicaFetch, err error) error {
	switch truncated, ok := errors.AsType[*partition.TruncatedError](err); {
	case ok:
		return c.lost(part, ask, truncated.EndOffset)
	case errors.Is(err, partition.ErrInconsistentTopicID):
		return c.stop(part.tp, ask.Offset, fmt.Errorf("%w at the source", ErrTopicReplaced))
	case !errors.Is(err, partition.ErrOffsetOutOfRange):
		return fmt.Errorf("source: %s-%d: %w", part.tp.Topic, part.tp.Partition, err)
	}
	start, err := c.bound(ctx, from, part.tp, partition.Earliest)
	if err != nil {
		return err
	}
	if ask.Offset < start {
		c.mu.Lock()
		c.stats.Skipped += start - ask.Offset
		c.mu.Unlock()
		if ask.Offset > 0 || start > 0 && ask.LogStart < ask.Offset {
			c.cfg.Logger.Warn("the source has deleted records before they were copied", slog.String("dir", c.cfg.Dir), slog.String("topic", part.tp.Topic),
				slog.Int("partition", int(part.tp.Partition)), slog.Int64("from", ask.Offset), slog.Int64("to", start))
		}
		return onDisk(part.p.StartAt(ask, start, log.Purged{}))
	}
	end, err := c.bound(ctx, from, part.tp, partition.Latest)
	if err != nil || ask.Offset <= end {
		return err // it is in range by now
	}
	return c.lost(part, ask, end)
}

// bound looks up the first or the last offset of a partition at the source.
func (c *Copy) bound(ctx context.Context, from consumer.LogBackend, tp record.TopicPartition, spec partition.OffsetSpec) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	found, err := from.ListOffsets(ctx, map[record.TopicPartition]partition.OffsetSpec{tp: spec}, partition.ReadUncommitted)
	if err != nil {
		return 0, err
	}
	at, ok := found[tp]
	if !ok {
		return 0, fmt.Errorf("source: offsets of %s-%d: %w", tp.Topic, tp.Partition, partition.ErrTimeout)
	}
	return at.Offset, at.Err
}

// cleanOften compacts the compacted topics.
func (c *Copy) cleanOften(ctx context.Context) {
	for sleep(ctx, copyCleanInterval) {
		for _, part := range c.partitions() {
			c.mu.Lock()
			t := c.state.topic(part.tp.Topic)
			c.mu.Unlock()
			if s, err := topic.Parse(t.Config, nil); err != nil || !s.Compacted() || s.Deleted() {
				continue
			}
			if _, err := part.p.Clean(ctx); err != nil && ctx.Err() == nil {
				c.cfg.Logger.Warn("compaction of a copied partition failed", slog.String("topic", part.tp.Topic), slog.Int("partition", int(part.tp.Partition)), slog.Any("err", err))
			}
		}
	}
}
