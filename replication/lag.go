package replication

import (
	"fmt"
	"slices"
	"time"
)

// watchLag has the followers looked at, by and by, as long as this broker leads any.
func (n *node) watchLag() { n.lag.After(n.base.MaxLag / 2) }

// checkLag looks which followers of the partitions that this broker leads have fallen behind. It
// also looks how the broker's own disk does, which Kafka does not: a leader whose log has become
// read-only gives way to others, one whose disk has failed all that was asked of it since the look
// before the last is compared with them, and one that gets nowhere has its disk, and all others,
// tried by a change of the metadata.
func (n *node) checkLag() {
	if n.ended() != nil {
		return
	}
	leads, stalls := false, false
	var readOnly, trouble error
	var struggles *replica // trouble is with this one's disk
	for _, r := range n.all() {
		r.mu.Lock()
		s := r.shared
		r.mu.Unlock()
		p := r.readable.Load()
		if s != nil && p == nil {
			if err := r.openings.Look(); err != nil && n.leads(r) && n.othersMayLead(r) {
				struggles, trouble = r, err
			}
		}
		if s == nil || p == nil || p.LeaderEpoch() < 0 {
			continue
		}
		leads = true
		p.CheckLag()
		s.wake() // who asked for something in vain may do so again
		stalled, err := p.Ailing()
		stalls = stalls || stalled
		if err != nil && n.othersMayLead(r) {
			readOnly = fmt.Errorf("%w: %w", errReadOnly, err)
		}
		if err := p.Struggles(); err != nil && n.othersMayLead(r) {
			struggles, trouble = r, err
		}
	}
	switch {
	case readOnly != nil:
		n.metadata.c.fence(n.id, readOnly)
	case struggles != nil:
		n.compareDisks(struggles, trouble)
	case stalls:
		n.metadata.c.probe()
	}
	if leads {
		n.lag.By(time.Now().Add(n.base.MaxLag / 2))
	}
}

// othersMayLead reports whether somebody else's broker serves who could lead without the leader:
// one in sync, or one that is eligible, which has what was acknowledged.
func (n *node) othersMayLead(r *replica) bool { return len(n.mayLead(r)) > 0 }

// mayLead returns who they are.
func (n *node) mayLead(r *replica) (others []int32) {
	role, ok := n.metadata.role(r.tp, r.id)
	if !ok {
		return nil
	}
	s := role.state.State()
	for _, f := range role.followers {
		if f.Alive && (slices.Contains(s.InSync, f.Broker) || slices.Contains(s.Eligible, f.Broker)) {
			others = append(others, f.Broker)
		}
	}
	return others
}

// leads reports whether the broker leads the partition, whose files it may not have yet.
func (n *node) leads(r *replica) bool {
	role, ok := n.metadata.role(r.tp, r.id)
	return ok && role.state.Leader == n.id
}
