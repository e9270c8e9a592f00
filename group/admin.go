package group

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/stratalog/strata/record"
)

// Admin is what tools and tests do with groups.
type Admin interface {
	Groups(ctx context.Context) ([]Info, error)                                                                          // all, by id; without offsets
	Group(ctx context.Context, id string) (Info, error)                                                                  // everything about one
	WaitGroup(ctx context.Context, id string, pred func(Info) bool) (Info, error)                                        // waits until pred holds
	ResetOffsets(ctx context.Context, id string, to record.Offsets) error                                                // of a group without members
	DeleteGroup(ctx context.Context, id string) error                                                                    // one without members
	DeleteOffsets(ctx context.Context, id string, tps ...record.TopicPartition) (map[record.TopicPartition]error, error) // of topics it does not read
}

var _ Admin = (*Coordinator)(nil)

// Info describes a group.
type Info struct {
	ID           string
	State        State
	ProtocolType string // "": a group of offsets only
	Protocol     string // the assignor chosen; "": none
	Generation   int32
	Leader       string                               // member id of the group leader; "": none
	Members      []MemberInfo                         // in the order they joined
	Offsets      map[record.TopicPartition]OffsetInfo // nil in Groups
}

// MemberInfo describes a member of a group.
type MemberInfo struct {
	ID, InstanceID       string // InstanceID "": dynamic member
	ClientID, ClientHost string
	Topics               []string                // what it subscribes to; consumer groups only
	Assignment           []record.TopicPartition // what it has; consumer groups only, empty unless the group is Stable

	// The same as the protocol carries it, for any protocol type; nil unless the group is Stable. They must not be written to.
	SubscriptionData, AssignmentData []byte
}

// OffsetInfo is where a group stands in a partition.
type OffsetInfo struct {
	record.Committed
	End int64 // next offset to be written; -1: the partition does not exist
	Lag int64 // End - Offset, at least 0; -1: unknown
}

// Lag returns the sum of the known lags.
func (i Info) Lag() (total int64) {
	for _, o := range i.Offsets {
		total += max(o.Lag, 0)
	}
	return total
}

// StableWith returns a predicate for WaitGroup: the group is Stable and has n members.
func StableWith(n int) func(Info) bool {
	return func(i Info) bool { return i.State == Stable && len(i.Members) == n }
}

// Groups describes all groups, sorted by id, without offsets.
func (c *Coordinator) Groups(ctx context.Context) ([]Info, error) {
	shards, err := c.open(ctx, false)
	if err != nil {
		return nil, err
	}
	var out []Info
	for _, s := range shards {
		if err := s.lockLoaded(ctx); err != nil {
			return nil, err
		}
		for _, e := range s.groups {
			out = append(out, e.info())
		}
		s.mu.Unlock()
	}
	slices.SortFunc(out, func(a, b Info) int { return cmp.Compare(a.ID, b.ID) })
	return out, nil
}

// Group describes a group with its offsets and lag. It returns ErrGroupNotFound if there is none of that id.
func (c *Coordinator) Group(ctx context.Context, id string) (Info, error) {
	type view struct {
		Info
		offsets map[record.TopicPartition]OffsetValue
	}
	v, err := c.read(ctx, id, func(e *entry) any { return view{e.info(), maps.Clone(e.offsets)} })
	if err != nil {
		return Info{}, err
	}
	seen, ok := v.(view)
	if !ok {
		return Info{}, fmt.Errorf("%w: %s", ErrGroupNotFound, id)
	}
	ends, err := c.store.EndOffsets(ctx, slices.Collect(maps.Keys(seen.offsets)))
	if err != nil {
		return Info{}, err
	}
	info := seen.Info
	info.Offsets = make(map[record.TopicPartition]OffsetInfo, len(seen.offsets))
	for tp, o := range seen.offsets {
		i := OffsetInfo{Committed: record.Committed{Offset: o.Offset, LeaderEpoch: o.LeaderEpoch, Metadata: o.Metadata}, End: -1, Lag: -1}
		if end, ok := ends[tp]; ok {
			i.End, i.Lag = end, max(end-o.Offset, 0)
		}
		info.Offsets[tp] = i
	}
	return info, nil
}

// Describe describes a group as Group does, but without its offsets. It returns ErrGroupNotFound if there is none of that id.
func (c *Coordinator) Describe(ctx context.Context, id string) (Info, error) {
	v, err := c.read(ctx, id, func(e *entry) any { return e.info() })
	if err != nil {
		return Info{}, err
	}
	info, ok := v.(Info)
	if !ok {
		return Info{}, fmt.Errorf("%w: %s", ErrGroupNotFound, id)
	}
	return info, nil
}

// OffsetsPartition returns the partition of the offsets topic that group's state is kept in: who leads it coordinates the group. If
// there is no offsets topic it is made if create is set; otherwise ErrNotCoordinator is returned, as nobody coordinates anything yet.
func (c *Coordinator) OffsetsPartition(ctx context.Context, group string, create bool) (int32, error) {
	s, err := c.shard(ctx, group, create)
	if err != nil {
		return 0, err
	}
	if s == nil {
		return 0, ErrNotCoordinator
	}
	return s.partition, nil
}

// info describes the group without its offsets.
func (g *Group) info() Info {
	i := Info{ID: g.id, State: g.state, ProtocolType: g.protocolType, Protocol: g.protocol, Generation: g.generation, Leader: g.leader}
	for _, m := range g.inOrder() {
		mi := MemberInfo{ID: m.id, InstanceID: m.instanceID, ClientID: m.clientID, ClientHost: m.clientHost}
		if g.state == Stable {
			mi.SubscriptionData, mi.AssignmentData = m.metadata(g.protocol), m.assignment
		}
		if g.protocolType == ProtocolTypeConsumer {
			protocol := g.protocol
			if g.state == PreparingRebalance && len(m.protocols) > 0 {
				protocol = m.protocols[0].Name
			}
			if s, err := ParseSubscription(m.metadata(protocol)); err == nil {
				mi.Topics = s.Topics
			}
			if a, err := ParseAssignment(m.assignment); err == nil && g.state == Stable {
				mi.Assignment = a.Partitions
			}
		}
		i.Members = append(i.Members, mi)
	}
	return i
}

// WaitGroup returns as soon as pred holds for the group; it looks again whenever the group changes, without polling. A group that does not
// exist is shown to pred as Dead. pred runs on the caller's goroutine.
func (c *Coordinator) WaitGroup(ctx context.Context, id string, pred func(Info) bool) (Info, error) {
	changed := make(chan struct{}, 1)
	s, err := c.shard(ctx, id, true) // the offsets topic is made: there would be nothing to wait at
	if err != nil {
		return Info{}, err
	}
	s.watch(id, changed)
	defer s.unwatch(id, changed)
	for {
		info, err := c.Group(ctx, id)
		switch {
		case errors.Is(err, ErrGroupNotFound):
			info = Info{ID: id, State: Dead}
		case errors.Is(err, ErrNotCoordinator), errors.Is(err, ErrCoordinatorNotAvailable):
			select { // being loaded again
			case <-time.After(retryLoadAfter):
				continue
			case <-ctx.Done():
				return Info{}, ctx.Err()
			}
		case err != nil:
			return Info{}, err
		}
		if pred(info) {
			return info, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return info, ctx.Err()
		case <-c.ctx.Done():
			return info, ErrClosed
		}
	}
}

func (s *shard) watch(group string, ch chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.watchers[group] == nil {
		s.watchers[group] = make(map[chan struct{}]struct{})
	}
	s.watchers[group][ch] = struct{}{}
}

func (s *shard) unwatch(group string, ch chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.watchers[group], ch)
	if len(s.watchers[group]) == 0 {
		delete(s.watchers, group)
	}
}

// ResetOffsets stores offsets for a group that has no members, which it creates if there is none; it returns when they are durable. It
// returns ErrNonEmptyGroup if it has members, and ErrUnknownTopicOrPartition, with nothing stored, if one of the partitions does not exist.
func (c *Coordinator) ResetOffsets(ctx context.Context, id string, to record.Offsets) error {
	if err := checkID(id, true); err != nil {
		return err
	}
	topics, err := c.lookup(ctx, maps.Keys(to))
	if err != nil {
		return err
	}
	for tp := range to {
		if !known(topics, tp) {
			return fmt.Errorf("reset offsets of group %s: %w: %s-%d", id, ErrUnknownTopicOrPartition, tp.Topic, tp.Partition)
		}
	}
	_, err = c.creating(ctx, id, func(t Ticket) Event { return EventReset{Offsets: to, TopicIDs: topicIDs(topics, maps.Keys(to)), To: t} })
	return err
}

// DeleteGroup removes a group and its offsets, durably. It returns ErrNonEmptyGroup if it has members, ErrGroupNotFound if there is none.
func (c *Coordinator) DeleteGroup(ctx context.Context, id string) error {
	_, err := c.existing(ctx, id, ErrGroupNotFound, func(t Ticket) Event { return EventDelete{t} })
	return err
}

// DeleteOffsets removes offsets of a group, durably. The map says ErrGroupSubscribedToTopic, ErrUnknownTopicOrPartition or nil for each partition;
// one without an offset is nil. It returns ErrGroupNotFound, or ErrNonEmptyGroup if the group has members that are no consumers.
func (c *Coordinator) DeleteOffsets(ctx context.Context, id string, tps ...record.TopicPartition) (map[record.TopicPartition]error, error) {
	topics, err := c.lookup(ctx, slices.Values(tps))
	if err != nil {
		return nil, err
	}
	errs := make(map[record.TopicPartition]error, len(tps))
	var exist []record.TopicPartition
	for _, tp := range tps {
		if known(topics, tp) {
			exist = append(exist, tp)
		} else {
			errs[tp] = ErrUnknownTopicOrPartition
		}
	}
	v, err := c.existing(ctx, id, ErrGroupNotFound, func(t Ticket) Event { return EventDeleteOffsets{exist, t} })
	if err != nil {
		return nil, err
	}
	maps.Copy(errs, v.(map[record.TopicPartition]error))
	return errs, nil
}

// GroupConfig returns what the coordinator was made with, its defaults filled in.
func (c *Coordinator) GroupConfig() Config { return c.cfg }
