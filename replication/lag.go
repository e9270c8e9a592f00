package replication

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/stratalog/strata/partition"
)

// watchLag has the followers looked at, by and by, as long as this broker leads any.
func (n *node) watchLag() { n.lag.After(n.base.MaxLag / 2) }

// checkLag checks which followers have fallen behind, for the partitions that this broker leads. It
// also checks the broker's own disk, which Kafka does not. A leader whose log has become read-only
// gives way to others. A leader whose disk has failed every request since the check before the
// previous one is compared with other replicas. If a leader makes no progress, a change of the
// metadata probes its disk, and all others.
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
			if r.openings.Failing() {
				s.wake() // followers that wait for the partition's files have them made
			}
		}
		if s == nil || p == nil || p.LeaderEpoch() < 0 {
			continue
		}
		leads = true
		p.CheckLag()
		r.examineAgain(p)
		s.wake() // a replica whose request was rejected may repeat it
		stalled, err := p.Ailing()
		stalls = stalls || stalled
		if err != nil && !errors.Is(err, partition.ErrCorrupt) && n.othersMayLead(r) {
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

// othersMayLead reports whether there is a serving broker that could lead without the leader: its
// replica is in sync, or eligible, which has all acknowledged records.
func (n *node) othersMayLead(r *replica) bool { return len(n.mayLead(r)) > 0 }

// mayLead returns these brokers.
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
