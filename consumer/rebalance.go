package consumer

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/stratalog/strata/group"
	"github.com/stratalog/strata/record"
)

// join enters the group, or its next generation, and returns when all members have.
func (m *membership) join(ctx context.Context) (group.JoinResponse, error) {
	c := m.c
	s := c.state()
	owned := slices.SortedFunc(maps.Keys(m.owned), compareTP)
	req := group.JoinRequest{
		Group: c.cfg.Group, MemberID: s.id, InstanceID: c.cfg.InstanceID, ClientID: c.cfg.ClientID,
		ProtocolType: "consumer", SessionTimeout: c.cfg.SessionTimeout, RebalanceTimeout: c.cfg.RebalanceTimeout,
	}
	for _, a := range c.cfg.Assignors {
		req.Protocols = append(req.Protocols, group.Protocol{
			Name: a.Name(), Metadata: group.SubscriptionFor(a, c.cfg.Topics, owned, s.generation, c.cfg.Rack),
		})
	}
	resp, err := c.groups.Join(ctx, req)
	var required *group.MemberIDRequiredError
	if errors.As(err, &required) {
		req.MemberID = required.MemberID
		resp, err = c.groups.Join(ctx, req)
	}
	switch {
	case err == nil:
	case errors.Is(err, group.ErrUnknownMember), errors.Is(err, group.ErrIllegalGeneration):
		return resp, fmt.Errorf("%w: %w", errGone, err)
	default:
		return resp, fmt.Errorf("join: %w", err)
	}
	// The member id is known from here on; commits of what is still held go under the new generation.
	c.setMember(resp.MemberID, resp.Generation)
	m.lastBeat = time.Now()
	return resp, nil
}

// sync exchanges the leader's assignment for this member's part of it.
func (m *membership) sync(ctx context.Context, join group.JoinResponse) ([]record.TopicPartition, error) {
	c := m.c
	req := group.SyncRequest{
		Group: c.cfg.Group, MemberID: join.MemberID, InstanceID: c.cfg.InstanceID, Generation: join.Generation,
		ProtocolType: "consumer", ProtocolName: join.ProtocolName,
	}
	m.leading = nil
	if join.Leader == join.MemberID && !join.SkipAssignment {
		assignments, err := m.assign(ctx, join)
		if err != nil {
			return nil, err
		}
		req.Assignments = assignments
	}
	resp, err := c.groups.Sync(ctx, req)
	switch {
	case err == nil:
	case errors.Is(err, group.ErrRebalanceInProgress):
		return nil, errRejoin
	case errors.Is(err, group.ErrUnknownMember), errors.Is(err, group.ErrIllegalGeneration):
		return nil, fmt.Errorf("%w: %w", errGone, err)
	default:
		return nil, fmt.Errorf("sync: %w", err)
	}
	m.lastBeat = time.Now()
	if len(resp.Assignment) == 0 {
		return nil, nil
	}
	a, err := group.ParseAssignment(resp.Assignment)
	if err != nil {
		return nil, fmt.Errorf("sync: %w", err)
	}
	return a.Partitions, nil
}

// assign is the group leader's work.
func (m *membership) assign(ctx context.Context, join group.JoinResponse) (map[string][]byte, error) {
	c := m.c
	i := slices.IndexFunc(c.cfg.Assignors, func(a group.Assignor) bool { return a.Name() == join.ProtocolName })
	if i < 0 {
		return nil, fmt.Errorf("assign: group chose %q, which this member does not have: %w", join.ProtocolName, group.ErrInconsistentProtocol)
	}
	topics := map[string]bool{}
	for _, member := range join.Members {
		s, err := group.ParseSubscription(member.Metadata)
		if err != nil {
			return nil, fmt.Errorf("assign: subscription of %s: %w", member.MemberID, err)
		}
		for _, t := range s.Topics {
			topics[t] = true
		}
	}
	counts, err := c.partitionCounts(ctx, slices.Sorted(maps.Keys(topics)))
	if err != nil {
		return nil, fmt.Errorf("assign: %w", err)
	}
	m.leading = counts
	assignments, err := group.AssignAll(c.cfg.Assignors[i], join.Members, counts)
	if err != nil {
		return nil, fmt.Errorf("assign: %w", err)
	}
	return assignments, nil
}

// partitionCounts returns the number of partitions of each topic; 0 for those that do not exist.
func (c *Consumer) partitionCounts(ctx context.Context, topics []string) (map[string]int32, error) {
	md, err := c.logs.Metadata(ctx, topics...)
	if err != nil {
		return nil, err
	}
	counts := make(map[string]int32, len(topics))
	for _, t := range topics {
		counts[t] = 0
		if tm, ok := md.Topics[t]; ok && tm.Err == nil {
			counts[t] = int32(len(tm.Partitions))
		}
	}
	return counts, nil
}

// watchPartitions returns a channel that is closed when the topics that this member assigned as leader have other partitions than then.
func (m *membership) watchPartitions(ctx context.Context, on bool) (changed <-chan struct{}, stop func()) {
	if !on || m.leading == nil {
		return nil, func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	ch, ended := make(chan struct{}), make(chan struct{})
	leading := m.leading
	m.c.wg.Go(func() {
		defer close(ended)
		if m.c.awaitCounts(ctx, leading) {
			close(ch)
		}
	})
	return ch, func() {
		cancel()
		<-ended
	}
}

// awaitCounts waits until the topics in counts have other numbers of partitions. It returns false if ctx is done first.
func (c *Consumer) awaitCounts(ctx context.Context, counts map[string]int32) bool {
	topics := slices.Sorted(maps.Keys(counts))
	version := int64(-1)
	for backoff := minBackoff; ctx.Err() == nil; {
		v, err := c.logs.WaitMetadata(ctx, version)
		if err == nil {
			version = v
			var now map[string]int32
			if now, err = c.partitionCounts(ctx, topics); err == nil && !maps.Equal(now, counts) {
				return true
			}
		}
		if err == nil {
			backoff = minBackoff
			continue
		}
		t := time.NewTimer(backoff)
		backoff = min(2*backoff, maxBackoff)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
		}
	}
	return false
}

// runTopicWatch keeps a free consumer of whole topics assigned to all of their partitions, also to those that come later.
func (c *Consumer) runTopicWatch(ctx context.Context) {
	known := map[string]int32{}
	for _, t := range c.cfg.Topics {
		known[t] = 0
	}
	for c.awaitCounts(ctx, known) {
		now, err := c.partitionCounts(ctx, c.cfg.Topics)
		if err != nil {
			continue
		}
		var added, gone []record.TopicPartition
		for t, n := range now {
			for p := known[t]; p < n; p++ {
				added = append(added, record.TopicPartition{Topic: t, Partition: p})
			}
			for p := n; p < known[t]; p++ {
				gone = append(gone, record.TopicPartition{Topic: t, Partition: p})
			}
		}
		slices.SortFunc(added, compareTP)
		slices.SortFunc(gone, compareTP)
		if len(gone) > 0 {
			c.tell(lost, gone)
		}
		if len(added) > 0 {
			c.tell(assigned, added)
		}
		known = now
	}
}
