package consumer

import (
	"github.com/stratalog/strata/group"
)

// memberState identifies this member to the coordinator.
type memberState struct {
	id         string
	generation int32 // -1: in no generation
}

// member is the membership in the form shared with other goroutines. Guarded by Consumer.mu.
type member struct {
	memberState
	changed chan struct{} // closed and replaced when the state changes

	// unanswered is the last Join if it has no response yet; nil: it has. The group may then be one
	// generation ahead of memberState, with this member in it.
	unanswered *group.JoinRequest

	// trouble is the last error that interrupted the membership; nil if there was none since the
	// member was last in a generation.
	trouble error

	pollExceeded bool          // the partitions were lost because the application did not poll
	enforce      bool          // EnforceRebalance or Subscribe was called
	kick         chan struct{} // signals the membership goroutine; capacity 1
}

func (c *Consumer) setMember(id string, generation int32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.member.memberState, c.member.unanswered = memberState{id, generation}, nil
	if generation >= 0 {
		c.member.trouble = nil
	}
	close(c.member.changed)
	c.member.changed = make(chan struct{})
}

// Metadata returns the current membership, for offset commits made elsewhere (in transactions).
// Generation is -1 outside a generation; with ProtocolConsumer it is the member epoch.
func (c *Consumer) Metadata() group.Metadata {
	c.mu.Lock()
	defer c.mu.Unlock()
	return group.Metadata{Group: c.cfg.Group, MemberID: c.member.id, InstanceID: c.cfg.InstanceID, Generation: c.member.generation}
}

// EnforceRebalance makes the group rebalance although nothing changed. It does not wait. For a free
// consumer it does nothing. With ProtocolConsumer it only sends a heartbeat: the coordinator
// decides whether partitions move.
func (c *Consumer) EnforceRebalance() {
	c.mu.Lock()
	c.member.enforce = true
	c.mu.Unlock()
	c.kickMember()
}

// kickMember makes the membership goroutine check its state.
func (c *Consumer) kickMember() {
	select {
	case c.member.kick <- struct{}{}:
	default:
	}
}
