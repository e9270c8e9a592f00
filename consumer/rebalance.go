package consumer

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/stratalog/strata/group"
	"github.com/stratalog/strata/group/assignor"
	"github.com/stratalog/strata/internal/retriable"
	"github.com/stratalog/strata/record"
)

// join enters the group, or its next generation, and returns when all members have joined.
func (m *classicMember) join(ctx context.Context) (group.JoinResponse, error) {
	c := m.c
	known := c.state()
	req := c.joinRequest(known, m.subscribed, m)
	req.Reason = m.reason
	c.noteJoin(req)
	resp, err := c.groups.Join(ctx, req)
	var required *group.MemberIDRequiredError
	if errors.As(err, &required) {
		req.MemberID = required.MemberID
		c.noteJoin(req)
		resp, err = c.groups.Join(ctx, req)
	}
	switch {
	case err == nil:
	case errors.Is(err, group.ErrUnknownMember), errors.Is(err, group.ErrIllegalGeneration):
		return resp, fmt.Errorf("%w: %w", errGone, err)
	default:
		return resp, fmt.Errorf("join: %w", err)
	}
	if known.missed(resp.Generation) {
		m.disown(false)
	}
	// The member id is known from here on; commits of partitions that are still held use the new
	// generation.
	c.setMember(resp.MemberID, resp.Generation)
	m.lastBeat = time.Now()
	m.noteReturn(known, resp)
	m.reason = ""
	return resp, nil
}

// noteJoin stores req until its response arrives.
func (c *Consumer) noteJoin(req group.JoinRequest) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.member.unanswered = &req
}

// missed reports whether the group had a generation between s and the given one. It is unknown
// whether this member owned anything in it: the other members' claims were newer, so that its
// partitions may have owners among them.
func (s memberState) missed(generation int32) bool {
	return s.generation >= 0 && generation > s.generation+1
}

// sync exchanges the leader's assignment for this member's part of it.
func (m *classicMember) sync(ctx context.Context, join group.JoinResponse) ([]record.TopicPartition, error) {
	c := m.c
	req := c.syncRequest(join)
	m.leading, m.reviewed = nil, nil
	if join.Leader == join.MemberID {
		counts, err := m.lead(ctx, join)
		if err != nil {
			return nil, err
		}
		if !join.SkipAssignment { // else the group has an assignment, and keeps it for now: see inspect
			if req.Assignments, err = m.assign(join, counts); err != nil {
				return nil, err
			}
		}
	}
	resp, err := c.groups.Sync(ctx, req)
	switch {
	case err == nil:
		m.outrun = false
	case errors.Is(err, group.ErrRebalanceInProgress) && !retriable.Final(err):
		if m.outrun { // the group uses the newer protocol, where joins do not wait, and is behind
			pause(ctx, minBackoff)
		}
		m.outrun = true
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
	a, err := assignor.ParseAssignment(resp.Assignment)
	if err != nil {
		return nil, fmt.Errorf("sync: %w", err)
	}
	return a.Partitions, nil
}

// lead starts the group leader's watch of all members' topics, and returns their partition counts.
func (m *classicMember) lead(ctx context.Context, join group.JoinResponse) (map[string]int32, error) {
	topics := map[string]bool{}
	for _, member := range join.Members {
		s, err := assignor.ParseSubscription(member.Metadata)
		if err != nil {
			return nil, fmt.Errorf("assign: subscription of %s: %w", member.MemberID, err)
		}
		for _, t := range s.Topics {
			topics[t] = true
		}
	}
	counts, err := m.c.partitionCounts(ctx, slices.Sorted(maps.Keys(topics)))
	if err != nil {
		return nil, fmt.Errorf("assign: %w", err)
	}
	m.leading = counts
	return counts, nil
}

// assign does the group leader's work.
func (m *classicMember) assign(join group.JoinResponse, counts map[string]int32) (map[string][]byte, error) {
	c := m.c
	i := slices.IndexFunc(c.cfg.Assignors, func(a assignor.Assignor) bool { return a.Name() == join.ProtocolName })
	if i < 0 {
		return nil, fmt.Errorf("assign: group chose %q, which this member does not have: %w", join.ProtocolName, group.ErrInconsistentProtocol)
	}
	assignments, err := assignor.AssignAll(c.cfg.Assignors[i], join.Members, counts)
	if err != nil {
		return nil, fmt.Errorf("assign: %w", err)
	}
	return assignments, nil
}

// partitionCounts returns the number of partitions of each topic; 0 if the topic does not exist.
func (c *Consumer) partitionCounts(ctx context.Context, topics []string) (map[string]int32, error) {
	md, err := c.logs.Metadata(ctx, topics...)
	if err != nil {
		return nil, err
	}
	counts := make(map[string]int32, len(topics))
	for _, t := range topics {
		counts[t] = 0
		tm, ok := md.Topics[t]
		if err := undecided(t, tm); err != nil {
			return nil, err
		}
		if ok && tm.Err == nil {
			counts[t] = int32(len(tm.Partitions))
		}
	}
	return counts, nil
}

// joinRequest returns the join request of a member; with a nil m it lists no owned partitions.
func (c *Consumer) joinRequest(s memberState, topics []string, m *classicMember) group.JoinRequest {
	req := group.JoinRequest{
		Group: c.cfg.Group, MemberID: s.id, InstanceID: c.cfg.InstanceID, ClientID: c.cfg.ClientID,
		ProtocolType: group.ProtocolTypeConsumer, SessionTimeout: c.cfg.SessionTimeout, RebalanceTimeout: c.cfg.RebalanceTimeout,
		SkipAssignment: true,
	}
	for _, a := range c.cfg.Assignors {
		var owned []record.TopicPartition
		generation := s.generation
		switch {
		case m == nil:
		case !m.eager:
			owned = m.parts
		case !assignor.AllCooperative([]assignor.Assignor{a}):
			// in user data, if it is sticky; a cooperative assignor would hold moving partitions
			// back
			owned, generation = m.last.parts, m.last.generation
		}
		req.Protocols = append(req.Protocols, assignor.Protocol{Name: a.Name(), Metadata: assignor.SubscriptionFor(a, topics, owned, generation, c.cfg.Rack)})
	}
	return req
}

func (c *Consumer) syncRequest(join group.JoinResponse) group.SyncRequest {
	return group.SyncRequest{
		Group: c.cfg.Group, MemberID: join.MemberID, InstanceID: c.cfg.InstanceID, Generation: join.Generation,
		ProtocolType: group.ProtocolTypeConsumer, ProtocolName: join.ProtocolName,
	}
}
