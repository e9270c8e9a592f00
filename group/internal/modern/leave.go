package modern

import (
	"slices"
	"strings"
	"time"

	"github.com/stratalog/strata/group/internal/classic"
	"github.com/stratalog/strata/group/internal/protocol"
	"github.com/stratalog/strata/internal/offsets"
)

// leave removes the member, or records that a static one will return.
func (e EventHeartbeat) leave(g *Group) (*protocol.ConsumerHeartbeatResponse, error) {
	if g.epoch == 0 {
		return nil, protocol.ErrGroupNotFound
	}
	m := g.members[e.MemberID]
	if e.InstanceID != "" {
		id, known := g.static[e.InstanceID]
		switch {
		case !known:
			return nil, protocol.ErrUnknownMember
		case id != e.MemberID:
			return nil, protocol.ErrFencedInstance
		}
	}
	if m == nil {
		return nil, protocol.ErrUnknownMember
	}
	resp := &protocol.ConsumerHeartbeatResponse{MemberID: m.id, MemberEpoch: e.MemberEpoch}
	if e.MemberEpoch == leaveStaticEpoch {
		away := *m
		away.epoch, away.state, away.revoking = leaveStaticEpoch, stable, []held{}
		v := away.record()
		for i := range v.Assigned {
			clear(v.Assigned[i].Epochs) // no commit is accepted from it
		}
		g.put(offsets.KeyCurrentAssignmentOfMember, m.id, v)
		return resp, nil
	}
	kind, reason := protocol.LeftBecause(e.Reason)
	g.note(protocol.Cause{Kind: kind, Reason: reason}, m)
	g.remove(m)
	return resp, nil
}

// remove removes members and begins a new group epoch. Their partitions are free.
func (g *Group) remove(gone ...*member) {
	if len(gone) == 0 {
		return
	}
	goes := make(map[*member]bool, len(gone))
	for _, m := range gone {
		goes[m] = true
	}
	if g.downgrade(g.epoch, slices.DeleteFunc(g.inOrder(), func(m *member) bool { return goes[m] }), true) {
		return
	}
	c := &change{g: g}
	left := make(map[string]int)
	names := subscription{}
	for _, m := range gone {
		g.removeMember(m.id)
		names.Topics = append(names.Topics, m.Topics...)
		if m.Regex != "" {
			left[m.Regex]++
		}
	}
	exprs := make([]string, 0, len(left))
	for expr, n := range left {
		if n >= g.users[expr] && g.patterns[expr] != nil {
			exprs = append(exprs, expr)
		}
	}
	slices.Sort(exprs)
	for _, expr := range exprs {
		c.drop(expr)
	}
	hash := g.hash
	if g.topics != nil {
		hash = g.topics.hash(c.topics(&names, nil))
	}
	g.put(offsets.KeyConsumerGroup, "", &offsets.ConsumerGroupValue{Epoch: g.epoch + 1, MetadataHash: hash})
}

// leaveAll removes the members that a LeaveGroup of an administrator names by id, instance id or
// both.
func (g *Group) leaveAll(members []protocol.LeaveMember) []error {
	errs := make([]error, len(members))
	var gone []*member
	for i, lm := range members {
		id := lm.MemberID
		if lm.InstanceID != "" {
			of, known := g.static[lm.InstanceID]
			switch {
			case !known:
				errs[i] = protocol.ErrUnknownMember
				continue
			case id == "":
				id = of
			case id != of:
				errs[i] = protocol.ErrFencedInstance
				continue
			}
		}
		switch m := g.members[id]; {
		case m == nil:
			errs[i] = protocol.ErrUnknownMember
		case !slices.Contains(gone, m):
			kind, reason := protocol.LeftBecause(lm.Reason)
			if lm.MemberID == "" {
				kind = protocol.CauseRemoved
			}
			g.note(protocol.Cause{Kind: kind, Reason: reason}, m)
			gone = append(gone, m)
		}
	}
	g.remove(gone...)
	return errs
}

// some returns as many of the first members of all as one step may remove.
func (g *Group) some(all []*member) []*member {
	return all[:g.cfg.AtOnce(g.ID(), len(all), func(i int) string { return all[i].id })]
}

// tick removes members whose session has ended, or that missed a deadline to revoke partitions,
// join again or sync.
func (g *Group) tick(now time.Time) {
	timers := []map[string]time.Time{g.sessions, g.revokes, g.joins, g.syncs}
	var gone []*member
	for _, m := range g.inOrder() {
		if slices.ContainsFunc(timers, func(of map[string]time.Time) bool { t, set := of[m.id]; return set && !now.Before(t) }) {
			gone = append(gone, m)
		}
	}
	gone = g.some(gone)
	for _, m := range gone {
		g.note(g.overdue(m, now), m)
	}
	g.remove(gone...)
	goes := make(map[string]bool, len(gone))
	for _, m := range gone {
		goes[m.id] = true
	}
	g.wakeAt = time.Time{}
	for _, of := range timers {
		for id, t := range of {
			if !goes[id] {
				g.wake(t) // in the past for members over the limit of one step
			}
		}
	}
}

// overdue returns why a member is removed whose deadline has passed.
func (g *Group) overdue(m *member, now time.Time) protocol.Cause {
	session := g.timeouts().Session
	if m.Classic != nil {
		session = m.classicSession()
	}
	late := func(of map[string]time.Time) bool { t, set := of[m.id]; return set && !now.Before(t) }
	rebalance := time.Duration(m.RebalanceTimeoutMs) * time.Millisecond
	switch {
	case late(g.sessions):
		return protocol.Cause{Kind: protocol.CauseSessionExpired, After: session}
	case late(g.revokes):
		g.History().WaitedFor(m.id)
		return protocol.Cause{Kind: protocol.CauseNotRevoked, After: rebalance}
	case late(g.joins):
		g.History().WaitedFor(m.id)
		return protocol.Cause{Kind: protocol.CauseNotRejoined, After: rebalance}
	}
	return protocol.Cause{Kind: protocol.CauseNotSynced, After: rebalance}
}

// loaded ends a recovery: members get a full session, and a new deadline to revoke partitions.
// Members of an earlier run of this process are removed.
func (g *Group) loaded(now time.Time) {
	var gone []*member
	for _, m := range g.inOrder() {
		if strings.HasPrefix(m.ClientHost, classic.InProcess) && m.ClientHost != g.cfg.Process {
			gone = append(gone, m)
			g.alive(m.id, now, 0) // at once, if one step cannot remove all
			continue
		}
		if m.Classic != nil {
			g.alive(m.id, now, m.classicSession())
			continue
		}
		g.alive(m.id, now, g.timeouts().Session)
		if m.state == unrevoked {
			g.revokes[m.id] = now.Add(time.Duration(m.RebalanceTimeoutMs) * time.Millisecond)
			g.wake(g.revokes[m.id])
		}
	}
	gone = g.some(gone)
	for _, m := range gone {
		g.note(protocol.Cause{Kind: protocol.CauseCoordinatorLoaded}, m)
	}
	g.remove(gone...)
}
