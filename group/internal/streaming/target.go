package streaming

import (
	"maps"
	"slices"
	"time"

	"github.com/stratalog/strata/group/internal/protocol"
	"github.com/stratalog/strata/internal/offsets"
)

// assign returns the target of the member that sends the heartbeat, and the target's epoch. If the
// group's epoch is newer, it computes new targets of all members. It does not while the assignment
// interval lasts, or a new group waits for more members. Kafka: maybeUpdateStreamsTargetAssignment.
func (b *beat) assign() (*target, int32) {
	g, now := b.g, b.now
	delayed := g.delayed
	if len(g.members) == 0 && b.settings.Delay > 0 && delayed.IsZero() {
		delayed = now.Add(b.settings.Delay)
		g.after = append(g.after, func() { g.delayed = delayed })
		g.wake(delayed)
	}
	last := g.target[b.member.id]
	if last == nil {
		last = &target{}
	}
	ms := now.UnixMilli()
	due := g.assignedMs == 0 || ms >= g.assignedMs+b.settings.Assignment.Milliseconds() || ms < g.assignedMs
	switch {
	case !delayed.IsZero():
		b.say(protocol.AssignmentDelayed, "Assignment delayed due to the configured initial rebalance delay.")
		return &target{}, g.assignmentEpoch
	case b.epoch <= g.assignmentEpoch:
		return last, g.assignmentEpoch
	case !due:
		b.say(protocol.AssignmentDelayed, "Assignment delayed due to the configured assignment interval.")
		return last, g.assignmentEpoch
	}
	members := maps.Clone(g.members)
	members[b.member.id] = b.member
	return g.compute(now, members, b.configured, b.epoch)[b.member.id], b.epoch
}

// compute emits the targets of members in an epoch, and returns them. While topics are missing,
// targets are empty.
func (g *Group) compute(now time.Time, members map[string]*member, c *configured, epoch int32) map[string]*target {
	targets := make(map[string]*target, len(members))
	if c.ready() {
		targets = assign(members, g.target, c.topology, c.tasks, g.settings().Standbys)
	}
	for _, id := range slices.Sorted(maps.Keys(members)) {
		if targets[id] == nil {
			targets[id] = &target{}
		}
		if old := g.target[id]; old == nil || !old.equal(targets[id]) {
			g.put(offsets.KeyStreamsTargetMember, id, &offsets.StreamsTargetMemberValue{StreamsTaskRoles: targets[id].record()})
		}
	}
	g.put(offsets.KeyStreamsTarget, "", &offsets.TargetAssignmentValue{AssignmentEpoch: epoch, TimestampMs: now.UnixMilli()})
	return targets
}
