package producer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/stratalog/strata/internal/retriable"
	"github.com/stratalog/strata/replication"
)

// learn adds a topic and starts to follow the metadata.
func (p *Producer) learn(md replication.Metadata, name string) (*topicParts, error) {
	p.mu.Lock()
	if p.sealed {
		p.mu.Unlock()
		return nil, ErrClosed
	}
	t := p.topics.get(name)
	if t == nil {
		t = &topicParts{name: name}
		tm := md.Topics[name]
		all := p.grow(nil, tm) // of layout 0
		t.view.Store(&topicView{id: tm.ID, all: all, parts: all})
		t.version.Store(md.Version)
		p.topics.addLocked(t)
	}
	watch := !p.watching
	p.watching = true
	p.mu.Unlock()
	p.latest.Store(t)
	if watch {
		p.spawn(func() { p.follow(md.Version) })
	}
	return t, nil
}

// grow returns parts with the additional partitions of tm.
func (p *Producer) grow(parts []*partitionQueue, tm replication.TopicMetadata) []*partitionQueue {
	parts = slices.Clone(parts)
	for i := len(parts); i < len(tm.Partitions); i++ {
		parts = append(parts, newPart(p, tm.Name, int32(i), tm.ID, tm.Partitions[i]))
	}
	return parts
}

// followRest bounds the load of follow: after reading all topics in use it waits this many times as
// long as that took. Otherwise a thousand topics would keep a processor busy while others are
// created. Records do not wait for follow, see current.
const (
	followRest    = 9
	maxFollowRest = 50 * time.Millisecond // batches without a leader wait for it
)

// follow keeps the topics in use up to date until the producer has ended.
func (p *Producer) follow(version int64) {
	for failures := 0; ; {
		_, err := p.backend.WaitMetadata(p.living, version)
		began := time.Now()
		var md replication.Metadata
		var names []string
		if err == nil {
			names = p.topics.names()
			md, err = p.backend.Metadata(p.living, names...)
		}
		switch {
		case p.living.Err() != nil || errors.Is(err, replication.ErrClosed):
			return
		case err != nil:
			p.cfg.Logger.Warn("producer cannot follow the metadata", slog.Any("err", err))
			p.unfollowed.Store(&err)
			if retriable.Final(err) {
				p.eachPart(func(pt *partitionQueue) { pt.lost(fmt.Errorf("metadata: %w", err)) })
			}
			p.pause(p.living, failures)
			failures++
			continue
		}
		failures = 0
		p.unfollowed.Store(nil)
		p.update(md)
		if len(names) == p.topics.count() {
			version = md.Version
		} // else a topic was added meanwhile, perhaps from older metadata: it was not in the request
		p.wait(p.living, min(followRest*time.Since(began), maxFollowRest))
	}
}

// refresh fetches the metadata of a topic in use. If that fails, the producer uses the present
// metadata, and follow tries again.
func (p *Producer) refresh(ctx context.Context, t *topicParts) {
	if md, err := p.backend.Metadata(ctx, t.name); err == nil {
		p.update(md)
	}
}

// update applies md to the topics in use, unless they have newer metadata.
func (p *Producer) update(md replication.Metadata) {
	var report []*partitionQueue
	p.updating.Lock()
	for name := range md.Topics {
		t := p.topics.get(name)
		if t == nil || md.Version < t.version.Load() {
			continue
		}
		report = append(report, p.updateTopic(t, md)...)
		t.version.Store(md.Version)
	}
	p.updating.Unlock()
	for _, pt := range report { // callbacks run without locks
		pt.report()
	}
}

// awaitUpdate waits until every update that had begun earlier has ended.
func (p *Producer) awaitUpdate() {
	p.updating.Lock()
	defer p.updating.Unlock()
}

// updateTopic applies md to one topic. It returns the partitions whose reporting it has claimed.
// The caller holds updating.
func (p *Producer) updateTopic(t *topicParts, md replication.Metadata) (report []*partitionQueue) {
	before, tm := t.view.Load(), md.Topics[t.name]
	if err := missing(md, t.name); err != nil {
		if before.gone != nil || !p.final(err) {
			return nil // batches wait for its return, and time out
		}
		t.view.Store(&topicView{id: before.id, all: before.all, gone: err, layout: before.layout})
		for _, pt := range before.all {
			report = pt.retire(report, err)
		}
		return report
	}
	n := len(tm.Partitions)
	same := tm.ID == before.id && n >= len(before.parts)
	after := &topicView{id: tm.ID, all: p.grow(before.all, tm), layout: before.layout, grown: same && (before.grown || n > len(before.parts))}
	after.parts = after.all[:n]
	if n != len(before.parts) {
		after.layout++
	}
	t.view.Store(after)
	// The partition of a key depends on the number of partitions. A topic that grows maps keys to
	// other partitions from then on. In a topic that was created again, old records would be in
	// partitions where readers do not look for their keys, and behind later records of these keys.
	if before.gone == nil && !same && (n != len(before.parts) || before.grown) {
		err := &RecreatedError{Topic: t.name, Before: len(before.parts), After: n}
		for _, pt := range before.parts {
			report = pt.retire(report, err)
		}
	}
	for i, pt := range after.parts {
		pt.moved(after, tm.Partitions[i])
	}
	return report
}

// A RecreatedError is returned for a record that was accepted for a topic that was deleted before
// the record was written, and created again with another number of partitions. Its key may
// therefore belong to another partition: send it again. It matches ErrUnknownTopic.
type RecreatedError struct {
	Topic         string
	Before, After int // numbers of partitions
}

func (e *RecreatedError) Error() string {
	return fmt.Sprintf("producer: topic %s was created again with %d partitions instead of %d", e.Topic, e.After, e.Before)
}

// Unwrap returns ErrUnknownTopic.
func (e *RecreatedError) Unwrap() error { return ErrUnknownTopic }

// retire fails all batches of pt with cause, and makes it reject records until moved is called.
// Batches with the backend fail with it, too, unless the backend returns that they are written. It
// appends pt to report if the caller has to report.
func (pt *partitionQueue) retire(report []*partitionQueue, cause error) []*partitionQueue {
	pt.mu.Lock()
	defer pt.mu.Unlock()
	pt.gone = true
	for b := pt.head; b != nil; b = b.next {
		switch b.state {
		case done:
		case sent:
			b.lost = cause
		default:
			pt.giveUpLocked(b, cause)
		}
	}
	pt.retryAt = 0 // nothing is left to be retried
	if pt.claimReportLocked() {
		report = append(report, pt)
	}
	return report
}

// lost fails the batches that wait for a leader or for another attempt, because there will be no
// new metadata. Batches with the backend are settled by its response.
func (pt *partitionQueue) lost(cause error) {
	pt.mu.Lock()
	if pt.leader < 0 || pt.held {
		for b := pt.head; b != nil; b = b.next {
			switch {
			case b.state == done || b.state == sent:
			case b.possiblyWritten:
				pt.giveUpLocked(b, fmt.Errorf("%w; may be in the log", cause))
			default:
				pt.giveUpLocked(b, cause)
			}
		}
	}
	report := pt.claimReportLocked()
	pt.mu.Unlock()
	if report {
		pt.report()
	}
}

// moved applies new metadata.
func (pt *partitionQueue) moved(view *topicView, md replication.PartitionMetadata) {
	pt.mu.Lock()
	recreated := view.id != pt.topicID
	if recreated {
		pt.topicID, pt.confirmed = view.id, false // another log: it has no state of this producer
		for b := pt.head; b != nil; b = b.next {
			b.possiblyWritten = false // not in this one
		}
	}
	pt.gone, pt.layout = false, view.layout
	if md.Leader != pt.leader || md.LeaderEpoch != pt.leaderEpoch || recreated {
		pt.leader, pt.leaderEpoch = md.Leader, md.LeaderEpoch
		pt.retryAt = 0 // the new leader may succeed, whatever the pause was for
		pt.measured = false
	}
	drain := pt.claimLocked()
	pt.mu.Unlock()
	if drain {
		pt.p.sender.hand(pt)
	}
}
