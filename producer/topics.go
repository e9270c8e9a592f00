package producer

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/stratalog/strata/internal/retriable"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/replication"
	"github.com/stratalog/strata/topic"
)

// topicParts is a topic to which records were sent. Topics and partitions are never removed.
type topicParts struct {
	name string
	view atomic.Pointer[topicView] // replaced under Producer.updating
	// of the metadata that view is made from; written under Producer.updating, after view
	version atomic.Int64
}

// topicView is a topic in one version of the metadata. It is immutable.
type topicView struct {
	id    topic.ID
	all   []*partitionQueue // every partition that the topic ever had, by number
	parts []*partitionQueue // the present partitions: all[:n]; none if the topic was deleted
	gone  error             // error if the topic no longer exists; nil: it exists

	// number of changes of len(parts): keys map to the same partitions in views with the same
	// layout
	layout int64
	grown  bool // partitions were added to this incarnation of the topic
}

// recordSize returns an upper bound of a record's bytes in a batch. Kafka:
// DefaultRecord.recordSizeUpperBound.
func recordSize(r *record.Record) int64 {
	n := 21 + len(r.Key) + len(r.Value)
	for i := range r.Headers {
		n += 10 + len(r.Headers[i].Key) + len(r.Headers[i].Value)
	}
	return int64(n)
}

// checkRecord rejects records that fit in no batch.
func (p *Producer) checkRecord(r *record.Record, tsMs, size int64) error {
	if n := size + record.HeaderSize; n > int64(p.cfg.MaxRequestBytes) || size > p.memory.limit {
		return fmt.Errorf("%w: %d bytes for topic %s, MaxRequestBytes is %d and MaxBufferedBytes %d", ErrMessageTooLarge, n, r.Topic,
			p.cfg.MaxRequestBytes, p.cfg.MaxBufferedBytes)
	}
	if tsMs < 0 && !p.cfg.NegativeTimestamps {
		return fmt.Errorf("%w: %v is before 1970", ErrInvalidTimestamp, r.Timestamp)
	}
	return nil
}

// place returns the partition of r, and whether the partitioner chose it.
func (p *Producer) place(ctx context.Context, t *topicParts, parts []*partitionQueue, r *record.Record, c *sendCall) (pt *partitionQueue, chosen bool, err error) {
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

// patience returns a context that ends with ctx, when the producer closes, or after MaxBlock. With
// NoWait it has no timeout: await tries once.
func (p *Producer) patience(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, release := p.bounded(ctx)
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
		release()
	}
}

// await calls try until it succeeds: after errNotYet when the metadata have changed, after a
// retriable err following a pause. try returns the version of the metadata that it used.
func (p *Producer) await(ctx context.Context, what string, c *sendCall, try func(context.Context) (version int64, err error)) error {
	c.sendHeld() // no batch of this call may be held back while it waits
	caller := ctx
	ctx, cancel := p.patience(ctx)
	defer cancel()
	var last error // of the backend; an error of ctx does not replace it
	for failures := 0; ; failures++ {
		version, err := try(ctx)
		if err == nil {
			return nil
		}
		if p.final(err) {
			return fmt.Errorf("%s: %w", what, err)
		}
		if last == nil || !isInterruption(err) {
			last = err
		}
		if errors.Is(err, ErrUnknownTopic) && p.cfg.MaxBlock >= 0 && ctx.Err() == nil {
			if _, err = p.backend.WaitMetadata(ctx, version); err == nil {
				continue
			}
			if !isInterruption(err) {
				last = err
			}
		}
		switch {
		case caller.Err() != nil:
			return fmt.Errorf("%s: %w", what, withCause(caller.Err(), last))
		case ctx.Err() != nil:
			return fmt.Errorf("%s: %w", what, withCause(context.Cause(ctx), last))
		case !classify(err).retriable || p.cfg.MaxBlock < 0:
			return fmt.Errorf("%s: %w", what, last)
		}
		p.pause(ctx, failures)
	}
}

// withCause adds err to cause unless err is nil or only reports that a context has ended.
func withCause(cause, err error) error {
	if err == nil || isInterruption(err) {
		return cause
	}
	return fmt.Errorf("%w: %w", cause, err)
}

// isInterruption reports whether err is the error of a context, perhaps with an explanation. An
// error that wraps a cause, too, or a timeout of package net, is none: it matches
// context.DeadlineExceeded, but its text has the reason.
func isInterruption(err error) bool {
	for ; err != nil; err = errors.Unwrap(err) {
		if err == context.Canceled || err == context.DeadlineExceeded {
			return true
		}
	}
	return false
}

// pause waits for the back-off after that many failures.
func (p *Producer) pause(ctx context.Context, failures int) { p.wait(ctx, p.backoff(failures)) }

// wait waits for d, at most until ctx has ended. A zero d uses no timer: in a bubble of
// testing/synctest the race detector of Go 1.26 can crash on timers that are due when they are
// waited for (they share one of its contexts without a lock).
func (p *Producer) wait(ctx context.Context, d time.Duration) {
	if d <= 0 {
		return
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// current returns a topic and its present view. In one process it first reads the version of the
// metadata: a change by a call that has returned is visible to every record sent afterwards.
func (p *Producer) current(ctx context.Context, name string, c *sendCall) (*topicParts, *topicView, error) {
	t := p.latest.Load()
	if t == nil || t.name != name {
		if t = p.topics.get(name); t == nil {
			return p.discover(ctx, name, c)
		}
		p.latest.Store(t)
	}
	if p.versioned != nil && p.versioned.MetadataVersion() != t.version.Load() {
		p.refresh(ctx, t)
	}
	if view := t.view.Load(); view.gone == nil {
		return t, view, nil
	}
	return p.discover(ctx, name, c)
}

// discover fetches a topic that is new to the producer, or was missing at the last fetch, and the
// producer's id if it has none.
func (p *Producer) discover(ctx context.Context, name string, c *sendCall) (t *topicParts, view *topicView, err error) {
	if p.closing.Load() {
		return nil, nil, ErrClosed
	}
	var md replication.Metadata
	look := func(ctx context.Context) (int64, error) {
		if md, err = p.backend.Metadata(ctx, name); err != nil {
			return 0, err
		}
		if err = missing(md, name); err != nil {
			return md.Version, err
		}
		if t = p.topics.get(name); t == nil {
			return md.Version, nil
		}
		p.update(md)
		view = t.view.Load()
		return md.Version, view.gone
	}
	what := "metadata of topic " + name
	if err := p.await(ctx, what, c, look); err != nil || t != nil {
		return t, view, err
	}
	if err := p.ensureID(ctx, c); err != nil {
		return nil, nil, err
	}
	if t, err = p.learn(md, name); err != nil {
		return nil, nil, err
	}
	return t, t.view.Load(), nil
}

// missing returns the error of a topic in md, nil if it exists.
func missing(md replication.Metadata, name string) error {
	tm, ok := md.Topics[name]
	if tm.Err == nil && (!ok || len(tm.Partitions) == 0) {
		return &replication.UnknownTopicError{Topic: name}
	}
	return tm.Err
}

// final reports whether err ends a wait for metadata. Its method Retriable decides. An error without
// one ends the wait if a topic or partition does not exist and is not awaited.
func (p *Producer) final(err error) bool {
	if retriable, decided := retriable.Of(err); decided {
		return !retriable
	}
	return !p.cfg.AllowUnknownTopics && errors.Is(err, ErrUnknownTopic)
}

// awaitPartition waits until the topic has partition i, if that may be created.
func (p *Producer) awaitPartition(ctx context.Context, t *topicParts, i int, c *sendCall) (parts []*partitionQueue, err error) {
	err = p.await(ctx, fmt.Sprintf("metadata of %s-%d", t.name, i), c, func(ctx context.Context) (int64, error) {
		md, err := p.backend.Metadata(ctx, t.name)
		if err != nil {
			return 0, err
		}
		p.update(md)
		view := t.view.Load()
		if parts = view.parts; i < len(parts) {
			return md.Version, nil
		}
		if view.gone != nil {
			return md.Version, view.gone
		}
		return md.Version, fmt.Errorf("%w: %s-%d, there are %d", ErrUnknownTopic, t.name, i, len(parts))
	})
	return parts, err
}
