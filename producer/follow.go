package producer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/stratalog/strata/replication"
)

// learn takes up a topic and starts to follow the metadata.
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

// grow returns parts with those added that tm has more.
func (p *Producer) grow(parts []*partitionQueue, tm replication.TopicMetadata) []*partitionQueue {
	parts = slices.Clone(parts)
	for i := len(parts); i < len(tm.Partitions); i++ {
		parts = append(parts, newPart(p, tm.Name, int32(i), tm.ID, tm.Partitions[i]))
	}
	return parts
}

// followRest is how many times as long as it took to read all topics in use follow waits before it
// does so again: a thousand of them would otherwise keep a processor busy for as long as others are
// created. Records that are sent do not wait for it, see current.
const (
	followRest    = 9
	maxFollowRest = 50 * time.Millisecond // batches that have no leader wait for it
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
			p.pause(p.living, failures)
			failures++
			continue
		}
		failures = 0
		p.update(md)
		if len(names) == p.topics.count() {
			version = md.Version
		} // else a topic was learned meanwhile, perhaps from older metadata: it was not asked for
		p.wait(p.living, min(followRest*time.Since(began), maxFollowRest))
	}
}

// refresh asks the backend for a topic in use. If it does not answer the producer goes by what it
// knows, and follow asks again.
func (p *Producer) refresh(ctx context.Context, t *topicParts) {
	if md, err := p.backend.Metadata(ctx, t.name); err == nil {
		p.update(md)
	}
}

// update brings the topics in use that md tells of in line with it, unless they are further
// already.
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

// awaitUpdate returns when no update is under way that had begun before.
func (p *Producer) awaitUpdate() {
	p.updating.Lock()
	defer p.updating.Unlock()
}

// updateTopic brings one topic in line. It returns the partitions whose reporting it has claimed.
// The caller holds updating.
func (p *Producer) updateTopic(t *topicParts, md replication.Metadata) (report []*partitionQueue) {
	before, tm := t.view.Load(), md.Topics[t.name]
	if err := missing(md, t.name); err != nil {
		if before.gone != nil || !p.final(err) {
			return nil // batches wait for it to come back, and time out
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
	// Where keys go changes with the number of partitions. In a topic that grows that is so from
	// here on. In one that was created again, records that were placed otherwise would be where
	// nobody looks for them, and behind later ones of their key.
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

// A RecreatedError says that a record was accepted for a topic that was deleted before the record
// was written, and created again with another number of partitions, so that its key may belong
// elsewhere. errors.Is(err, ErrUnknownTopic) is true for it. Send it again.
type RecreatedError struct {
	Topic         string
	Before, After int // partitions
}

func (e *RecreatedError) Error() string {
	return fmt.Sprintf("producer: topic %s was created again with %d partitions instead of %d", e.Topic, e.After, e.Before)
}

// Unwrap returns ErrUnknownTopic.
func (e *RecreatedError) Unwrap() error { return ErrUnknownTopic }

// retire fails with cause what pt has accepted, and lets it accept nothing until moved is called.
// Batches with the backend fail with it too, unless the backend says that they are written. It
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
	pt.retryAt = 0 // nothing is left to be tried again
	if pt.claimReportLocked() {
		report = append(report, pt)
	}
	return report
}

// moved takes up new metadata.
func (pt *partitionQueue) moved(view *topicView, md replication.PartitionMetadata) {
	pt.mu.Lock()
	recreated := view.id != pt.topicID
	if recreated {
		pt.topicID, pt.confirmed = view.id, false // another log: it has not seen this producer
		for b := pt.head; b != nil; b = b.next {
			b.possiblyWritten = false // not in this one
		}
	}
	pt.gone, pt.layout = false, view.layout
	if md.Leader != pt.leader || md.LeaderEpoch != pt.leaderEpoch || recreated {
		pt.leader, pt.leaderEpoch = md.Leader, md.LeaderEpoch
		pt.retryAt = 0 // whatever the pause was for, the new leader may do better
	}
	drain := pt.claimLocked()
	pt.mu.Unlock()
	if drain {
		pt.p.sender.hand(pt)
	}
}
