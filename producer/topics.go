package producer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/replication"
	"github.com/stratalog/strata/topic"
)

// topicParts is a topic that records were sent to. Topics are never forgotten.
type topicParts struct {
	name  string
	parts atomic.Pointer[[]*part] // grows under Producer.mu
	id    topic.ID                // guarded by Producer.mu
}

// recordSize is an upper bound of the bytes that a record takes in a batch. Kafka: DefaultRecord.recordSizeUpperBound.
func recordSize(r *record.Record) int64 {
	n := 21 + len(r.Key) + len(r.Value)
	for i := range r.Headers {
		n += 10 + len(r.Headers[i].Key) + len(r.Headers[i].Value)
	}
	return int64(n)
}

// checkRecord refuses what no batch can take.
func (p *Producer) checkRecord(r *record.Record, tsMs, size int64) error {
	if n := size + record.HeaderSize; n > int64(p.cfg.MaxRequestBytes) || size > p.memory.limit {
		return fmt.Errorf("%w: %d bytes for topic %s, MaxRequestBytes is %d and MaxBufferedBytes %d", ErrMessageTooLarge, n, r.Topic,
			p.cfg.MaxRequestBytes, p.cfg.MaxBufferedBytes)
	}
	if tsMs < 0 {
		return fmt.Errorf("%w: %v is before 1970", ErrInvalidTimestamp, r.Timestamp)
	}
	return nil
}

// place returns the partition of r, and whether the partitioner chose it.
func (p *Producer) place(ctx context.Context, t *topicParts, r *record.Record, c *call) (pt *part, chosen bool, err error) {
	parts := *t.parts.Load()
	if i, ok := r.ExplicitPartition(); ok {
		if int(i) >= len(parts) {
			if parts, err = p.awaitPartition(ctx, t, int(i), c); err != nil {
				return nil, false, err
			}
		}
		return parts[i], false, nil
	}
	if len(parts) == 1 && p.cfg.plain {
		return parts[0], true, nil
	}
	var i int
	if p.cfg.byKey != nil {
		i = p.cfg.byKey.PartitionKey(t.name, r.Key, len(parts))
	} else {
		i = p.cfg.Partitioner.Partition(*r, len(parts))
	}
	if i < 0 || i >= len(parts) {
		return nil, false, fmt.Errorf("%w: partition %d of %d for topic %s", ErrRefused, i, len(parts), t.name)
	}
	return parts[i], true, nil
}

// patience returns a context that ends with ctx, with the closing of the producer, or after MaxBlock.
// With NoWait the clock does not end it: await tries once.
func (p *Producer) patience(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	unhook := context.AfterFunc(p.accepting, func() { cancel(ErrClosed) })
	limit := p.cfg.MaxBlock
	if limit < 0 {
		limit = 1<<63 - 1
	}
	timeout := time.AfterFunc(limit, func() { cancel(ErrTimeout) })
	return ctx, func() {
		unhook()
		timeout.Stop()
		cancel(nil)
	}
}

// await calls try until it succeeds: again when the metadata has changed after errNotYet, after a pause when err is retriable.
// try returns the version of the metadata that it saw.
func (p *Producer) await(ctx context.Context, what string, c *call, try func(context.Context) (version int64, err error)) error {
	c.drain() // nothing of this call may stay behind while it waits
	caller := ctx
	ctx, cancel := p.patience(ctx)
	defer cancel()
	for failures := 0; ; failures++ {
		version, err := try(ctx)
		if err == nil {
			return nil
		}
		last := err
		if errors.Is(err, ErrUnknownTopic) && p.cfg.MaxBlock >= 0 && ctx.Err() == nil {
			if _, err = p.backend.WaitMetadata(ctx, version); err == nil {
				continue
			}
		}
		switch {
		case caller.Err() != nil:
			return fmt.Errorf("%s: %w", what, caller.Err())
		case ctx.Err() != nil:
			return fmt.Errorf("%s: %w", what, withCause(context.Cause(ctx), last))
		case !judge(err).retriable || p.cfg.MaxBlock < 0:
			return fmt.Errorf("%s: %w", what, last)
		}
		p.pause(ctx, failures)
	}
}

// withCause adds err to cause unless it says no more.
func withCause(cause, err error) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return cause
	}
	return fmt.Errorf("%w: %w", cause, err)
}

// pause waits for the back-off of that many failures.
func (p *Producer) pause(ctx context.Context, failures int) {
	t := time.NewTimer(p.backoff(failures))
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// discover asks the backend for a topic that is new to the producer, and for the producer's id if it has none.
func (p *Producer) discover(ctx context.Context, name string, c *call) (*topicParts, error) {
	if p.closing.Load() {
		return nil, ErrClosed
	}
	if err := p.ensureID(ctx, c); err != nil {
		return nil, err
	}
	var t *topicParts
	err := p.await(ctx, "metadata of topic "+name, c, func(ctx context.Context) (int64, error) {
		md, err := p.backend.Metadata(ctx, name)
		if err != nil {
			return 0, err
		}
		if tm, ok := md.Topics[name]; !ok || tm.Err == nil && len(tm.Partitions) == 0 {
			return md.Version, fmt.Errorf("%w: %q", ErrUnknownTopic, name)
		} else if tm.Err != nil {
			return md.Version, tm.Err
		}
		t, err = p.learn(md, name)
		return md.Version, err
	})
	return t, err
}

// awaitPartition waits until the topic has partition i.
func (p *Producer) awaitPartition(ctx context.Context, t *topicParts, i int, c *call) (parts []*part, err error) {
	err = p.await(ctx, fmt.Sprintf("metadata of %s-%d", t.name, i), c, func(ctx context.Context) (int64, error) {
		md, err := p.backend.Metadata(ctx, t.name)
		if err != nil {
			return 0, err
		}
		p.update(md)
		if parts = *t.parts.Load(); i < len(parts) {
			return md.Version, nil
		}
		return md.Version, fmt.Errorf("%w: %s-%d, there are %d", ErrUnknownTopic, t.name, i, len(parts))
	})
	return parts, err
}

// learn takes up a topic and starts to follow the metadata.
func (p *Producer) learn(md replication.Metadata, name string) (*topicParts, error) {
	p.mu.Lock()
	if p.sealed {
		p.mu.Unlock()
		return nil, ErrClosed
	}
	known := *p.topics.Load()
	t := known[name]
	if t == nil {
		t = &topicParts{name: name, id: md.Topics[name].ID}
		t.parts.Store(new([]*part))
		all := maps.Clone(known)
		all[name] = t
		p.growLocked(t, md.Topics[name])
		p.topics.Store(&all)
	}
	watch := !p.watching
	p.watching = true
	p.mu.Unlock()
	if watch {
		p.spawn(func() { p.follow(md.Version) })
	}
	return t, nil
}

// growLocked adds the partitions that t does not have yet.
func (p *Producer) growLocked(t *topicParts, tm replication.TopicMetadata) {
	parts := slices.Clone(*t.parts.Load())
	for i := len(parts); i < len(tm.Partitions); i++ {
		parts = append(parts, newPart(p, t.name, int32(i), tm.Partitions[i]))
	}
	t.parts.Store(&parts)
}

// follow keeps the topics in use up to date until the producer has ended.
func (p *Producer) follow(version int64) {
	for failures := 0; ; {
		_, err := p.backend.WaitMetadata(p.living, version)
		var md replication.Metadata
		if err == nil {
			md, err = p.backend.Metadata(p.living, slices.Collect(maps.Keys(*p.topics.Load()))...)
		}
		switch {
		case p.living.Err() != nil || errors.Is(err, replication.ErrClosed):
			return
		case err != nil:
			p.cfg.Logger.Warn("producer cannot follow the metadata", slog.Any("err", err))
			p.pause(p.living, failures)
			failures++
			continue
		}
		version, failures = md.Version, 0
		p.update(md)
	}
}

// update brings the topics in use in line with md.
func (p *Producer) update(md replication.Metadata) {
	type change struct {
		pt  *part
		now replication.PartitionMetadata
		new bool // the topic was created anew
	}
	var changes []change
	p.mu.Lock()
	for name, t := range *p.topics.Load() {
		tm, ok := md.Topics[name]
		if !ok || tm.Err != nil {
			continue // deleted: batches find out, and time out unless it comes back
		}
		recreated := tm.ID != t.id
		t.id = tm.ID
		p.growLocked(t, tm)
		for i, pt := range *t.parts.Load() {
			if i < len(tm.Partitions) {
				changes = append(changes, change{pt, tm.Partitions[i], recreated})
			}
		}
	}
	p.mu.Unlock()
	for _, c := range changes {
		c.pt.moved(c.now, c.new)
	}
}
