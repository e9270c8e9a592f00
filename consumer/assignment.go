package consumer

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/stratalog/strata/internal/retriable"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/topic"
)

// An assignment is the set of partitions that a consumer reads. It is a value: each one replaces
// the previous one as a whole.
type assignment struct {
	// membership counts the times that the consumer became a member of its group. Partitions held
	// in an earlier membership may have another owner already: they are lost, whatever the new
	// assignment contains.
	membership int64
	partitions map[record.TopicPartition]topic.ID
}

// A change leads from one assignment to the next. Its parts take effect in this order, each sorted.
type change struct {
	// no longer ours: from an earlier membership, or of a deleted topic
	lost    []record.TopicPartition
	revoked []record.TopicPartition // ours until given up
	added   []record.TopicPartition
}

// to compares the held assignment a with next. Joining, leaving and losing partitions are all this
// one function.
func (a assignment) to(next target) (ch change) {
	for tp, id := range a.partitions {
		nextID, stays := next.partitions[tp]
		switch {
		case a.membership != next.membership, next.isGone(tp, id), stays && nextID != id:
			ch.lost = append(ch.lost, tp)
		case !stays:
			ch.revoked = append(ch.revoked, tp)
		}
	}
	for tp := range next.partitions {
		if _, held := a.partitions[tp]; !held {
			ch.added = append(ch.added, tp)
		}
	}
	slices.SortFunc(ch.lost, compareTP)
	slices.SortFunc(ch.revoked, compareTP)
	slices.SortFunc(ch.added, compareTP)
	return ch
}

// without returns a less the given partitions.
func (a assignment) without(tps []record.TopicPartition) assignment {
	left := maps.Clone(a.partitions)
	for _, tp := range tps {
		delete(left, tp)
	}
	return assignment{a.membership, left}
}

// A target is the assignment that the polling goroutine is to adopt.
type target struct {
	assignment
	wanted
	version int64 // counts targets
	// partitions of topics, by id, that do not exist any more
	gone    map[record.TopicPartition]topic.ID
	waiting []chan struct{} // closed when the target, or a later one, is adopted
}

// wanted is the input of a target: partitions that may or may not exist.
type wanted struct {
	names []record.TopicPartition // sorted
	// ids of the topics that names refer to; nil: any topic with that name
	ids map[string]topic.ID
}

func (w wanted) equal(o wanted) bool {
	return slices.Equal(w.names, o.names) && maps.Equal(w.ids, o.ids)
}

func (t target) isGone(tp record.TopicPartition, id topic.ID) bool {
	gone, ok := t.gone[tp]
	return ok && gone == id
}

// assignLocked replaces the target. The channel is closed when the polling goroutine has adopted
// it.
func (c *Consumer) assignLocked(next target) (adopted <-chan struct{}) {
	ch := make(chan struct{})
	next.waiting = append(c.target.waiting, ch)
	next.version = c.target.version + 1
	c.target = next
	// Lost partitions have another owner soon: cancel handlers before the polling goroutine
	// notices.
	if c.runner != nil {
		for _, p := range c.order {
			if !c.ownsLocked(p) {
				c.runner.lose(p, c.member.pollExceeded)
			}
		}
	}
	c.wakeLocked()
	return ch
}

// assigned holds a consumer's target and the partitions it reads at present. Guarded by
// Consumer.mu.
type assigned struct {
	target   target
	held     assignment
	revoking []record.TopicPartition         // held, being given up
	parts    map[record.TopicPartition]*part // of the held partitions
	order    []*part                         // the values of parts, in the order of fetching
	// seeks of partitions that were given up in a rebalance, until their next owner is known
	sought map[record.TopicPartition]openSeek
}

// An openSeek is a seek that has not returned a record yet.
type openSeek struct {
	id         topic.ID
	membership int64
	offset     int64 // or a Start constant
}

// keepSeeksLocked saves open seeks of partitions that are being given up.
func (c *Consumer) keepSeeksLocked(tps []record.TopicPartition) {
	if c.groups == nil {
		return
	}
	for _, p := range c.partsLocked(tps) {
		offset, ok := p.d.open()
		if c.runner != nil && p.d.sought && c.runner.nothingDone(p) {
			offset, ok = p.d.begin.Load(), true
		}
		if ok {
			c.sought[p.tp] = openSeek{p.id, p.membership, offset}
		}
	}
}

// dropSeeks discards open seeks, except those of partitions that this member was assigned in two
// consecutive generations: no other member had them in between.
func (c *Consumer) dropSeeks(before, now lastAssignment) {
	c.mu.Lock()
	defer c.mu.Unlock()
	kept := map[record.TopicPartition]openSeek{}
	if now.generation == before.generation+1 && len(c.sought) > 0 {
		had := make(map[record.TopicPartition]bool, len(before.parts))
		for _, tp := range before.parts {
			had[tp] = true
		}
		for _, tp := range now.parts {
			if s, ok := c.sought[tp]; ok && had[tp] {
				kept[tp] = s
			}
		}
	}
	c.sought = kept
}

// adoptStep makes one step from the held partitions to the target, and reports whether there may be
// more to do. It runs on the polling goroutine between two records, so no loop body is active. Each
// step reads the target again, since it may have been replaced during the previous step's callback.
func (c *Consumer) adoptStep(ctx context.Context) (more bool, err error) {
	c.mu.Lock()
	ch := c.held.to(c.target)
	switch {
	case len(ch.lost) > 0:
		c.dropLocked(ch.lost)
		r, exceeded := c.runner, c.member.pollExceeded
		c.mu.Unlock()
		if r != nil && exceeded {
			r.awaitCalls()
		}
		c.callback(ctx, c.cfg.OnLost, ch.lost)
		return true, nil
	case len(ch.revoked) > 0:
		parts, r := c.partsLocked(ch.revoked), c.runner
		c.revoking = ch.revoked
		c.mu.Unlock()
		if r != nil {
			r.drain(parts)
		}
		return true, c.giveUp(ctx, r, ch.revoked)
	case len(ch.added) > 0:
		c.takeLocked(ch.added)
		c.mu.Unlock()
		c.callback(ctx, c.cfg.OnAssigned, ch.added)
		return true, nil
	}
	c.held.membership = c.target.membership
	for _, waiting := range c.target.waiting {
		close(waiting)
	}
	c.target.waiting = nil
	c.mu.Unlock()
	return false, nil
}

// giveUp hands over partitions that are owned until then. If ctx or r's drain time ends before the
// commit, they stay until the next poll.
func (c *Consumer) giveUp(ctx context.Context, r *runner, tps []record.TopicPartition) error {
	defer func() { // also if OnRevoked does not return: it is then called again
		c.mu.Lock()
		defer c.mu.Unlock()
		c.revoking = nil
	}()
	commit := ctx
	if r != nil {
		var stop context.CancelFunc
		commit, stop = r.untilOver(ctx)
		defer stop()
	}
	if err := c.commitBeforeHandover(commit, tps); err != nil {
		if commit.Err() != nil {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.dirty.Store(true)
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return cmp.Or(c.interruptionLocked(), ErrWakeup)
		}
		c.cfg.Logger.Warn("commit before giving partitions up failed", "group", c.cfg.Group, "err", err)
		if retriable.Final(err) {
			c.fail(fmt.Errorf("consumer: group %s: %w", c.cfg.Group, err))
		}
	}
	c.callback(ctx, c.cfg.OnRevoked, tps)
	if _, err := c.awaitQueued(commit); err != nil { // commits that the callback has queued
		c.cfg.Logger.Warn("queued commits were not sent before partitions were given up", "group", c.cfg.Group, "err", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.keepSeeksLocked(tps)
	c.dropLocked(tps)
	return nil
}

// callback runs one of the application's callbacks.
func (c *Consumer) callback(ctx context.Context, fn func(context.Context, []record.TopicPartition), tps []record.TopicPartition) {
	if fn == nil {
		return
	}
	id := goroutineID()
	c.mu.Lock()
	before := c.loop
	c.loop = id
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.loop = before
	}()
	fn(ctx, tps)
}

func (c *Consumer) partsLocked(tps []record.TopicPartition) (parts []*part) {
	for _, tp := range tps {
		if p := c.parts[tp]; p != nil {
			parts = append(parts, p)
		}
	}
	return parts
}

// takeLocked adds partitions of the target to the held ones.
func (c *Consumer) takeLocked(tps []record.TopicPartition) {
	held := maps.Clone(c.held.partitions)
	if held == nil {
		held = map[record.TopicPartition]topic.ID{}
	}
	for _, tp := range tps {
		id := c.target.partitions[tp]
		first, known := c.first[tp.Topic]
		recreated := known && first.id != id
		start, ok := c.cfg.Assign[tp]
		if !ok || recreated { // an offset of Assign applies only to the topic that existed then
			start = StartReset
		}
		p := newPart(tp, id, c.target.membership, start)
		p.newborn = !known || recreated || tp.Partition >= first.partitions
		if s, ok := c.sought[tp]; ok && s.id == id && s.membership == p.membership {
			p.seek(s.offset)
		}
		delete(c.sought, tp)
		held[tp] = id
		c.parts[tp] = p
		c.order = append(c.order, p)
	}
	c.held = assignment{c.target.membership, held}
}

// dropLocked removes partitions from the held ones.
func (c *Consumer) dropLocked(tps []record.TopicPartition) {
	c.held = c.held.without(tps)
	for _, tp := range tps {
		if p := c.parts[tp]; p != nil && c.runner != nil {
			c.runner.ignore(p)
		}
		delete(c.parts, tp)
	}
	c.order = slices.DeleteFunc(c.order, func(p *part) bool { return c.parts[p.tp] != p })
}

// ownsLocked reports whether the consumer owns p: it is not lost, even if the polling goroutine has
// not noticed yet. A partition being revoked is owned until it is given up.
func (c *Consumer) ownsLocked(p *part) bool {
	if p == nil || c.parts[p.tp] != p || p.membership != c.target.membership || c.target.isGone(p.tp, p.id) {
		return false
	}
	id, stays := c.target.partitions[p.tp]
	return !stays || id == p.id
}

// Assignment returns the partitions that this consumer currently reads, sorted.
func (c *Consumer) Assignment() []record.TopicPartition {
	c.mu.Lock()
	defer c.mu.Unlock()
	tps := make([]record.TopicPartition, 0, len(c.parts))
	for tp, p := range c.parts {
		if c.ownsLocked(p) {
			tps = append(tps, tp)
		}
	}
	slices.SortFunc(tps, compareTP)
	return tps
}
