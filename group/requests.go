package group

import (
	"context"
	"errors"
	"maps"
	"time"

	"github.com/stratalog/strata/group/internal/classic"
	"github.com/stratalog/strata/group/internal/kinds"
	"github.com/stratalog/strata/group/internal/modern"
	"github.com/stratalog/strata/internal/machine"
	"github.com/stratalog/strata/internal/memory"
	"github.com/stratalog/strata/internal/offsets"
	"github.com/stratalog/strata/record"
)

// Join requests membership and waits until all members of the group have joined, at most for the
// longest rebalance timeout. Errors: ErrInvalidGroupID, ErrInvalidSessionTimeout, ErrUnknownMember,
// ErrFencedInstance, ErrInconsistentProtocol, ErrGroupMaxSize, a *MemberIDRequiredError, or an
// error to retry: ErrRebalanceInProgress, ErrNotCoordinator, ErrCoordinatorNotAvailable. With an
// error the response only has the member id that Kafka's would have: the request's, or none in a
// group of the newer protocol.
//
// If ctx ends first, a member that never got a response is removed. Others stay members until their
// session times out.
func (c *Coordinator) Join(ctx context.Context, r JoinRequest) (JoinResponse, error) {
	refused := JoinResponse{MemberID: r.MemberID}
	if err := c.checkJoin(&r); err != nil {
		return refused, err
	}
	known := question{group: r.Group, create: r.MemberID == "", absent: ErrUnknownMember}
	v, err := c.matching(ctx, r.Owner, r.Describes, func(m *modern.Matches) (any, error) {
		return c.withTopics(ctx, known, func(q *request, topics *modern.Topics) { c.join(q, &r, topics, m) })
	})
	if resp, ok := v.(JoinResponse); ok {
		return resp, err
	}
	return refused, err
}

// join steps the group, of any kind, or creates it. A group of the newer protocol uses topics and
// m. Each is nil if it has not been read or computed yet.
func (c *Coordinator) join(q *request, r *JoinRequest, topics *modern.Topics, m *modern.Matches) {
	g, ok := q.Get(r.Group)
	if !ok && r.MemberID != "" {
		q.Answer(nil, ErrUnknownMember) // a join with an old member id creates no group
		return
	}
	if ok && g.Type() == Consumer && !g.Vacant() {
		if topics == nil {
			q.Answer(nil, errTopicsNeeded)
			return
		}
		q.Step(r.Group, modern.EventJoin{JoinRequest: r, NewID: newUUID(), Topics: topics, Matches: m, To: q.Ticket})
		return
	}
	anew := ok && g.Type() != Classic && g.Vacant()
	if !ok || g.State() == Dead || anew {
		q.Step(r.Group, classic.EventCreate{Anew: anew})
	}
	ev := classic.EventJoin{JoinRequest: r, To: q.Ticket}
	if r.MemberID == "" {
		prefix := r.ClientID
		if r.InstanceID != "" {
			prefix = r.InstanceID
		}
		ev.NewID = newMemberID(prefix)
	}
	q.Step(r.Group, ev)
}

func (c *Coordinator) checkJoin(r *JoinRequest) error {
	if err := checkID(r.Group, true); err != nil {
		return err
	}
	if r.SessionTimeout < c.cfg.MinSessionTimeout || r.SessionTimeout > c.cfg.MaxSessionTimeout {
		return ErrInvalidSessionTimeout
	}
	// 100 bytes are left for the prefix or suffix of a client's name in a member id.
	long := tooLong(r.ClientID+longestIDSuffix) || tooLong(r.ClientHost) || tooLong(r.InstanceID+longestIDSuffix) || tooLong(r.ProtocolType)
	for _, p := range r.Protocols {
		long = long || tooLong(p.Name)
	}
	if long {
		return errFieldTooLong
	}
	if r.ClientHost == "" {
		r.ClientHost = c.core.Classic.Process
	}
	r.RebalanceTimeout = min(r.RebalanceTimeout, maxRebalanceTimeout)
	return nil
}

const (
	longestIDSuffix     = "-00000000-0000-0000-0000-000000000000"
	maxRebalanceTimeout = (1<<31 - 1) * time.Millisecond // the largest in a record
)

// Sync submits the group leader's assignments, or waits for them as another member. It returns the
// member's own assignment once it is stored. Errors: ErrUnknownMember, ErrFencedInstance,
// ErrIllegalGeneration, ErrInconsistentProtocol; ErrRebalanceInProgress if the member must join
// again; or one to retry.
func (c *Coordinator) Sync(ctx context.Context, r SyncRequest) (SyncResponse, error) {
	if err := checkID(r.Group, true); err != nil {
		return SyncResponse{}, err
	}
	v, err := c.withTopics(ctx, question{group: r.Group, absent: ErrUnknownMember}, func(q *request, topics *modern.Topics) {
		g, ok := q.Get(r.Group)
		switch {
		case !ok:
			q.Answer(nil, ErrUnknownMember)
		case g.Type() == Consumer && topics == nil:
			q.Answer(nil, errTopicsNeeded)
		case g.Type() == Consumer:
			q.Step(r.Group, modern.EventSync{SyncRequest: &r, Topics: topics, To: q.Ticket})
		default:
			q.Step(r.Group, classic.EventSync{SyncRequest: &r, To: q.Ticket})
		}
	})
	resp, _ := v.(SyncResponse)
	return resp, err
}

// Heartbeat reports that a member is alive. It never waits for a disk, and returns nil while the
// groups are being loaded, as Kafka does. Errors: ErrUnknownMember, ErrFencedInstance,
// ErrIllegalGeneration, and ErrRebalanceInProgress (the session is extended, but the member must
// join again).
func (c *Coordinator) Heartbeat(ctx context.Context, r HeartbeatRequest) error {
	if err := checkID(r.Group, true); err != nil {
		return err
	}
	for {
		s, err := c.shard(ctx, r.Group, false)
		if err != nil {
			return err
		}
		if s == nil {
			return ErrUnknownMember
		}
		reply, found, loaded, err := s.Now(r.Group, classic.EventHeartbeat{HeartbeatRequest: &r})
		switch {
		case c.asksAgain(question{}, err): // this shard has ended: there is another, or no leader
			continue
		case err != nil:
			return err
		case !loaded:
			return nil
		case !found:
			return ErrUnknownMember
		}
		return reply.Err
	}
}

// Leave removes members from a group, which then rebalances. The result has an error or nil for
// each named member, in order.
func (c *Coordinator) Leave(ctx context.Context, r LeaveRequest) ([]error, error) {
	v, err := c.member(ctx, r.Group, func(t machine.Ticket) kinds.Event { return classic.EventLeave{Members: r.Members, To: t} })
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

// member steps a group that must exist.
func (c *Coordinator) member(ctx context.Context, group string, event func(machine.Ticket) kinds.Event) (any, error) {
	if err := checkID(group, true); err != nil {
		return nil, err
	}
	return c.existing(ctx, question{group: group, absent: ErrUnknownMember}, event)
}

// errTopicsNeeded is the reply to a request of the classic protocol for a group of the newer one.
// Such a group needs the existing topics; a classic group does not.
var errTopicsNeeded = errors.New("group: topics are needed")

// withTopics runs begin at the group's shard with the current topics, or with nil if there is no
// current snapshot. If the result is errTopicsNeeded, it reads the topics and runs begin again.
func (c *Coordinator) withTopics(ctx context.Context, q question, begin func(*request, *modern.Topics)) (any, error) {
	topics := c.snapshot.Load()
	if topics != nil && !c.current(topics.Version) {
		topics = nil
	}
	v, err := c.ask(ctx, q, func(r *request) { begin(r, topics) })
	if !errors.Is(err, errTopicsNeeded) {
		return v, err
	}
	all, err := c.store.Topics(ctx)
	if err != nil {
		return nil, err
	}
	topics = c.keepSnapshot(all)
	return c.ask(ctx, q, func(r *request) { begin(r, topics) })
}

// existing steps a group; q.absent is the answer if there is none.
func (c *Coordinator) existing(ctx context.Context, q question, event func(machine.Ticket) kinds.Event) (any, error) {
	return c.ask(ctx, q, func(r *request) {
		if _, ok := r.Get(q.group); ok {
			r.Step(q.group, event(r.Ticket))
		} else {
			r.Answer(nil, q.absent)
		}
	})
}

// CommitOffsets stores offsets durably. The map has an entry for each offset: nil if it is stored,
// otherwise ErrUnknownTopicOrPartition, a *MetadataTooLargeError or ErrOffsetsFull.
//
// After an error for the whole request no offset is known to be stored: ErrUnknownMember,
// ErrFencedInstance, ErrIllegalGeneration; ErrRebalanceInProgress between a member's join and sync;
// ErrTooLarge; or one to retry. The map then has the partitions that do not exist. If none of the
// partitions exists, the group is not checked (as in Kafka). A commit with generation -1 and no
// member id fails with ErrUnknownMember while the group has members. Offsets, even negative ones,
// are not checked against the log.
func (c *Coordinator) CommitOffsets(ctx context.Context, r CommitRequest) (map[record.TopicPartition]error, error) {
	if err := checkID(r.Group, false); err != nil {
		return nil, err
	}
	topics, unknown, err := c.committable(ctx, &r)
	if err != nil || len(r.Offsets) == 0 && len(unknown) > 0 {
		return unknown, err
	}
	v, err := c.creating(ctx, question{group: r.Group}, func(t machine.Ticket) kinds.Event {
		return classic.EventCommit{CommitRequest: &r, TopicIDs: topicIDs(topics, maps.Keys(r.Offsets)), Bound: memory.BoundOf(ctx), To: t}
	})
	return c.committed(v, unknown, err)
}

// committable leaves in r the offsets of partitions that exist, and returns their topics; unknown
// has the others.
func (c *Coordinator) committable(ctx context.Context, r *CommitRequest) (topics map[string]TopicInfo, unknown map[record.TopicPartition]error, err error) {
	topics, err = c.lookup(ctx, maps.Keys(r.Offsets))
	if err == nil && otherTopics(r.TopicIDs, topics) {
		topics, err = c.lookupNow(ctx, maps.Keys(r.Offsets)) // the watcher's topics may be out of date
	}
	if err != nil {
		return nil, nil, err
	}
	all := r.Offsets
	unknown, r.Offsets = make(map[record.TopicPartition]error), make(map[record.TopicPartition]record.Committed, len(all))
	for tp, o := range all {
		id, checked := r.TopicIDs[tp.Topic]
		if known(topics, tp) && (!checked || id == topics[tp.Topic].ID) {
			r.Offsets[tp] = o
		} else {
			unknown[tp] = ErrUnknownTopicOrPartition
		}
	}
	return topics, unknown, nil
}

// committed counts the offsets that v, the reply to a commit, reports as stored, and adds unknown.
func (c *Coordinator) committed(v any, unknown map[record.TopicPartition]error, err error) (map[record.TopicPartition]error, error) {
	if err != nil {
		return unknown, err
	}
	errs := v.(map[record.TopicPartition]error)
	for _, err := range errs {
		if err == nil {
			c.commits.Add(1)
		}
	}
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

// creating steps a group, and creates it if there is none.
func (c *Coordinator) creating(ctx context.Context, q question, event func(machine.Ticket) kinds.Event) (any, error) {
	q.create = true
	return c.ask(ctx, q, func(r *request) { r.Step(q.group, event(r.Ticket)) })
}

// FetchOffsets returns the committed offsets of tps, or of all partitions with an offset if tps is
// nil. Offset is -1 for a partition without one, whether or not group and partition exist. Offsets
// in an open transaction are not included, only the ones committed before: FetchStableOffsets
// reports such partitions.
func (c *Coordinator) FetchOffsets(ctx context.Context, group string, tps []record.TopicPartition) (map[record.TopicPartition]record.Committed, error) {
	stored, err := c.offsets(ctx, group)
	if err != nil {
		return nil, err
	}
	return c.present(ctx, tps, stored)
}

// present returns the stored offsets of tps, or all if tps is nil, as FetchOffsets does.
func (c *Coordinator) present(ctx context.Context, tps []record.TopicPartition, stored map[record.TopicPartition]offsets.OffsetValue) (map[record.TopicPartition]record.Committed, error) {
	out := make(map[record.TopicPartition]record.Committed, len(tps))
	for _, tp := range tps {
		out[tp] = record.Committed{Offset: -1, LeaderEpoch: -1}
	}
	if tps != nil {
		maps.DeleteFunc(stored, func(tp record.TopicPartition, _ offsets.OffsetValue) bool { _, asked := out[tp]; return !asked })
	}
	topics, err := c.lookupNow(ctx, maps.Keys(stored))
	if err != nil {
		return nil, err
	}
	for tp, v := range stored {
		if otherTopic(v.TopicID, topics[tp.Topic].ID) {
			continue // of an earlier topic of that name
		}
		out[tp] = record.Committed{Offset: v.Offset, LeaderEpoch: v.LeaderEpoch, Metadata: v.Metadata}
	}
	return out, nil
}

// offsets returns a copy of a group's offsets once they are committed.
func (c *Coordinator) offsets(ctx context.Context, group string) (map[record.TopicPartition]offsets.OffsetValue, error) {
	v, err := c.read(ctx, group, func(g *kinds.Group) any { return maps.Clone(g.Offsets()) })
	stored, _ := v.(map[record.TopicPartition]offsets.OffsetValue)
	return stored, err
}

// read returns the result of view for a group, once all state that view could read is committed;
// nil if there is no such group.
func (c *Coordinator) read(ctx context.Context, group string, view func(*kinds.Group) any) (any, error) {
	return c.ask(ctx, question{group: group}, func(q *request) {
		if g, ok := q.Get(group); ok {
			q.AnswerCommitted(group, view(g))
		} else {
			q.Answer(nil, nil)
		}
	})
}
