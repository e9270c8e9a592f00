package group

import (
	"context"
	"errors"
	"maps"
	"time"

	"github.com/stratalog/strata/record"
)

// Join asks for membership and waits until all members of the group have joined: for as long as the longest rebalance timeout. It returns
// ErrInvalidGroupID, ErrInvalidSessionTimeout, ErrUnknownMember, ErrFencedInstance, ErrInconsistentProtocol, ErrGroupMaxSize, a
// *MemberIDRequiredError, or an error to retry: ErrRebalanceInProgress, ErrNotCoordinator, ErrCoordinatorNotAvailable.
//
// If ctx ends first, a member that never had an answer is gone again, others stay members until their session ends.
func (c *Coordinator) Join(ctx context.Context, r JoinRequest) (JoinResponse, error) {
	if err := c.checkJoin(&r); err != nil {
		return JoinResponse{}, err
	}
	s, err := c.shard(ctx, r.Group, r.MemberID == "")
	if err != nil {
		return JoinResponse{}, err
	}
	if s == nil {
		return JoinResponse{}, ErrUnknownMember
	}
	v, err := s.do(ctx, r.Group, func(now time.Time, t Ticket) (after hooked) {
		if s.groups[r.Group] == nil && r.MemberID != "" {
			s.refuse(t, ErrUnknownMember) // joining under an old id makes no group
			return nil
		}
		e := s.entryLocked(r.Group, now)
		if e.State() == Dead {
			after = s.step(e, now, EventCreate{})
		}
		ev := EventJoin{JoinRequest: &r, To: t}
		if r.MemberID == "" {
			prefix := r.ClientID
			if r.InstanceID != "" {
				prefix = r.InstanceID
			}
			ev.NewID = newMemberID(prefix)
		}
		return append(after, s.step(e, now, ev)...)
	})
	resp, _ := v.(JoinResponse)
	return resp, err
}

func (c *Coordinator) checkJoin(r *JoinRequest) error {
	if err := checkID(r.Group, true); err != nil {
		return err
	}
	if r.SessionTimeout < c.cfg.MinSessionTimeout || r.SessionTimeout > c.cfg.MaxSessionTimeout {
		return ErrInvalidSessionTimeout
	}
	// 100 bytes are left for what goes before or behind a client's name in a member id.
	long := tooLongForString(r.ClientID+longestIDSuffix) || tooLongForString(r.ClientHost) || tooLongForString(r.InstanceID+longestIDSuffix) || tooLongForString(r.ProtocolType)
	for _, p := range r.Protocols {
		long = long || tooLongForString(p.Name)
	}
	if long {
		return errFieldTooLong
	}
	r.RebalanceTimeout = min(r.RebalanceTimeout, maxRebalanceTimeout)
	return nil
}

const (
	longestIDSuffix     = "-00000000-0000-0000-0000-000000000000"
	maxRebalanceTimeout = (1<<31 - 1) * time.Millisecond // what a record can hold
)

// refuse answers a request that needs no group.
func (s *shard) refuse(t Ticket, err error) {
	s.calls[t].result <- result{err: err}
	delete(s.calls, t)
}

// Sync hands in the group leader's assignments or waits for them, and returns the member's own share once it is stored. Errors:
// ErrUnknownMember, ErrFencedInstance, ErrIllegalGeneration, ErrInconsistentProtocol; ErrRebalanceInProgress: join again; or one to retry.
func (c *Coordinator) Sync(ctx context.Context, r SyncRequest) (SyncResponse, error) {
	v, err := c.request(ctx, r.Group, func(t Ticket) Event { return EventSync{&r, t} })
	resp, _ := v.(SyncResponse)
	return resp, err
}

// Heartbeat tells that a member is alive. It never waits for a disk, and answers nil while the groups are being loaded, as Kafka does. Errors:
// ErrUnknownMember, ErrFencedInstance, ErrIllegalGeneration, ErrRebalanceInProgress (the member is alive, but must join again).
func (c *Coordinator) Heartbeat(ctx context.Context, r HeartbeatRequest) error {
	if err := checkID(r.Group, true); err != nil {
		return err
	}
	s, err := c.shard(ctx, r.Group, false)
	if err != nil {
		return err
	}
	if s == nil {
		return ErrUnknownMember
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch s.state {
	case closed:
		return ErrClosed
	case unloaded:
		if s.loadErr == nil || !time.Now().Before(s.retryAt) {
			s.startLoadLocked()
		}
		return nil
	case loading:
		return nil
	}
	e := s.groups[r.Group]
	if e == nil {
		return ErrUnknownMember
	}
	eff := e.Step(time.Now(), EventHeartbeat{HeartbeatRequest: &r})
	e.wakeAt = eff.WakeAt
	s.alarm.By(e.wakeAt)
	return eff.Replies[0].Err
}

// Leave takes members out of a group, which rebalances. The result has an error or nil for each member named, in order.
func (c *Coordinator) Leave(ctx context.Context, r LeaveRequest) ([]error, error) {
	v, err := c.request(ctx, r.Group, func(t Ticket) Event { return EventLeave{r.Members, t} })
	if errors.Is(err, ErrUnknownMember) { // no such group
		errs := make([]error, len(r.Members))
		for i := range errs {
			errs[i] = ErrUnknownMember
		}
		return errs, nil
	}
	errs, _ := v.([]error)
	return errs, err
}

// request steps a group that must exist.
func (c *Coordinator) request(ctx context.Context, group string, event func(Ticket) Event) (any, error) {
	if err := checkID(group, true); err != nil {
		return nil, err
	}
	return c.existing(ctx, group, ErrUnknownMember, event)
}

// existing steps a group; absent is the answer if there is none.
func (c *Coordinator) existing(ctx context.Context, group string, absent error, event func(Ticket) Event) (any, error) {
	s, err := c.shard(ctx, group, false)
	if err != nil {
		return nil, err
	}
	if s == nil {
		return nil, absent
	}
	return s.do(ctx, group, func(now time.Time, t Ticket) hooked {
		if e := s.groups[group]; e != nil {
			return s.step(e, now, event(t))
		}
		s.refuse(t, absent)
		return nil
	})
}

// CommitOffsets stores offsets durably. The map has an entry for each offset: nil if it is stored, ErrUnknownTopicOrPartition or a
// *MetadataTooLargeError if not. An error for the whole request stored nothing that is known of: ErrUnknownMember, ErrFencedInstance,
// ErrIllegalGeneration; ErrRebalanceInProgress between a member's join and sync; ErrTooLarge; or one to retry. The map then tells of the
// partitions that do not exist, and if none of them does, the group is not asked at all (as in Kafka). A commit with generation -1 by nobody is
// ErrUnknownMember while the group has members. Offsets are not checked against the log, negative ones neither.
func (c *Coordinator) CommitOffsets(ctx context.Context, r CommitRequest) (map[record.TopicPartition]error, error) {
	if err := checkID(r.Group, false); err != nil {
		return nil, err
	}
	topics, err := c.lookup(ctx, maps.Keys(r.Offsets))
	if err == nil && otherTopics(r.TopicIDs, topics) {
		topics, err = c.lookupNow(ctx, maps.Keys(r.Offsets)) // perhaps what the watcher saw is old
	}
	if err != nil {
		return nil, err
	}
	all, unknown := r.Offsets, make(map[record.TopicPartition]error)
	r.Offsets = make(map[record.TopicPartition]record.Committed, len(all))
	for tp, o := range all {
		id, checked := r.TopicIDs[tp.Topic]
		if known(topics, tp) && (!checked || id == topics[tp.Topic].ID) {
			r.Offsets[tp] = o
		} else {
			unknown[tp] = ErrUnknownTopicOrPartition
		}
	}
	if len(r.Offsets) == 0 && len(all) > 0 {
		return unknown, nil
	}
	v, err := c.creating(ctx, r.Group, func(t Ticket) Event {
		return EventCommit{CommitRequest: &r, TopicIDs: topicIDs(topics, maps.Keys(r.Offsets)), To: t}
	})
	if err != nil {
		return unknown, err
	}
	errs := v.(map[record.TopicPartition]error)
	maps.Copy(errs, unknown)
	return errs, nil
}

// otherTopics reports whether one of the topics has another id than the one given.
func otherTopics(ids map[string][16]byte, topics map[string]TopicInfo) bool {
	for name, id := range ids {
		if topics[name].ID != id {
			return true
		}
	}
	return false
}

// creating steps a group, which is made if there is none.
func (c *Coordinator) creating(ctx context.Context, group string, event func(Ticket) Event) (any, error) {
	s, err := c.shard(ctx, group, true)
	if err != nil {
		return nil, err
	}
	return s.do(ctx, group, func(now time.Time, t Ticket) hooked {
		return s.step(s.entryLocked(group, now), now, event(t))
	})
}

// FetchOffsets returns the committed offsets of tps, nil: of all partitions that have one. Offset is -1 where there is none, whether
// or not group and partition exist. Only what is committed in the offsets topic is returned.
func (c *Coordinator) FetchOffsets(ctx context.Context, group string, tps []record.TopicPartition) (map[record.TopicPartition]record.Committed, error) {
	out := make(map[record.TopicPartition]record.Committed, len(tps))
	for _, tp := range tps {
		out[tp] = record.Committed{Offset: -1, LeaderEpoch: -1}
	}
	stored, err := c.offsets(ctx, group)
	if err != nil {
		return nil, err
	}
	if tps != nil {
		maps.DeleteFunc(stored, func(tp record.TopicPartition, _ OffsetValue) bool { _, asked := out[tp]; return !asked })
	}
	topics, err := c.lookupNow(ctx, maps.Keys(stored))
	if err != nil {
		return nil, err
	}
	for tp, v := range stored {
		if id := topics[tp.Topic].ID; id != [16]byte{} && v.TopicID != [16]byte{} && v.TopicID != id {
			continue // of an earlier topic of that name
		}
		out[tp] = record.Committed{Offset: v.Offset, LeaderEpoch: v.LeaderEpoch, Metadata: v.Metadata}
	}
	return out, nil
}

// offsets returns a copy of a group's offsets once they are committed.
func (c *Coordinator) offsets(ctx context.Context, group string) (map[record.TopicPartition]OffsetValue, error) {
	v, err := c.read(ctx, group, func(e *entry) any { return maps.Clone(e.offsets) })
	stored, _ := v.(map[record.TopicPartition]OffsetValue)
	return stored, err
}

// read returns what view sees of a group once all that it may see is committed; nil if there is no such group.
func (c *Coordinator) read(ctx context.Context, group string, view func(*entry) any) (any, error) {
	s, err := c.shard(ctx, group, false)
	if err != nil || s == nil {
		return nil, err
	}
	return s.do(ctx, group, func(_ time.Time, t Ticket) hooked {
		if e := s.groups[group]; e != nil {
			s.answer(e, Reply{To: t, Value: view(e)})
		} else {
			s.refuse(t, nil)
		}
		return nil
	})
}
