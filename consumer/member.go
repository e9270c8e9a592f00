package consumer

import (
	"github.com/stratalog/strata/group"
)

// memberState is what the coordinator knows this member by.
type memberState struct {
	id         string
	generation int32 // -1: in no generation
}

// member is the membership as others see it. Guarded by Consumer.mu.
type member struct {
	memberState
	changed chan struct{} // closed and replaced when the state changes

	// unanswered is the last Join if its answer did not come (yet); nil: it did. The group may be
	// one generation further than memberState then, with this member in it.
	unanswered *group.JoinRequest

	pollExceeded bool          // the partitions were lost because the application stayed away
	enforce      bool          // EnforceRebalance or Subscribe was called
	kick         chan struct{} // tells the membership goroutine; capacity 1
}

func (c *Consumer) setMember(id string, generation int32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.member.memberState, c.member.unanswered = memberState{id, generation}, nil
	close(c.member.changed)
	c.member.changed = make(chan struct{})
}

// Metadata returns the membership as it is now, for commits made elsewhere (transactions).
// Generation is -1 outside of a generation; with ProtocolConsumer it is the member epoch.
func (c *Consumer) Metadata() group.Metadata {
	c.mu.Lock()
	defer c.mu.Unlock()
	return group.Metadata{Group: c.cfg.Group, MemberID: c.member.id, InstanceID: c.cfg.InstanceID, Generation: c.member.generation}
}

// EnforceRebalance makes the group rebalance although nothing changed. It does not wait. For a free
// consumer it does nothing, and with ProtocolConsumer no more than send a heartbeat: whether
// partitions move is up to the coordinator.
func (c *Consumer) EnforceRebalance() {
	c.mu.Lock()
	c.member.enforce = true
	c.mu.Unlock()
	c.kickMember()
}

// kickMember makes the membership goroutine look around.
func (c *Consumer) kickMember() {
	select {
	case c.member.kick <- struct{}{}:
	default:
	}
}
