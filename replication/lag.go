package replication

import (
	"fmt"
	"slices"
	"time"

	"github.com/stratalog/strata/partition"
)

// watchLag has the followers looked at, by and by, as long as this broker leads any.
func (n *node) watchLag() { n.lag.After(n.base.MaxLag / 2) }

// checkLag looks which followers of the partitions that this broker leads have fallen behind. It
// also looks how the broker's own disk does, which Kafka does not: a leader whose log has become
// read-only gives way to others, and one that gets nowhere has its disk, and all others,
// tried by a change of the metadata.
func (n *node) checkLag() {
	if n.ended() != nil {
		return
	}
	leads, stalls := false, false
	var readOnly error
	for _, r := range n.all() {
		r.mu.Lock()
		s := r.shared
		r.mu.Unlock()
		p := r.readable.Load()
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
	}
	switch {
	case readOnly != nil:
		n.metadata.c.fence(n.id, readOnly)
	case stalls:
		n.metadata.c.probe()
	}
	if leads {
		n.lag.By(time.Now().Add(n.base.MaxLag / 2))
	}
}

// othersMayLead reports whether somebody else's broker serves who could lead without the leader:
// one in sync, or one that is eligible, which has what was acknowledged.
func (n *node) othersMayLead(r *replica) bool {
	role, ok := n.metadata.role(r.tp, r.id)
	if !ok {
		return false
	}
	s := role.state.State()
	return slices.ContainsFunc(role.followers, func(f partition.Follower) bool {
		return f.Alive && (slices.Contains(s.InSync, f.Broker) || slices.Contains(s.Eligible, f.Broker))
	})
}
