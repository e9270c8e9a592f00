package replication

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/replication/internal/byid"
	"github.com/stratalog/strata/replication/internal/follow"
)

// settle gives a replica its role from the metadata: leader, follower or neither. When it returns
// the replica has the role of the metadata in effect before the call. It blocks for the disk.
func (n *node) settle(r *replica) {
	r.mu.Lock()
	s := r.severalLocked()
	if ch := s.settling; ch != nil {
		s.again = true
		r.mu.Unlock()
		<-ch
		return
	}
	s.settling, s.again = make(chan struct{}), true
	for s.again {
		s.again = false
		r.mu.Unlock()
		unled, unfollowed := n.settleOnce(r, s)
		r.mu.Lock()
		s.failed, s.unfollowed = unled, unfollowed
	}
	close(s.settling)
	s.settling = nil
	r.mu.Unlock()
}

// settlePause is the pause before a replica is settled again whose disk failed.
const settlePause = time.Second

// settleLater has the replicas settled again that could not be.
func (n *node) settleLater() { n.unsettled.After(settlePause) }

// settleFailed settles the replicas again whose disk failed before. A leader that cannot begin its
// epoch gives way, if others may lead: at once if its log accepts nothing until it is opened again,
// otherwise when its disk has failed for two pauses while another replica's works.
func (n *node) settleFailed() {
	if n.ended() != nil {
		return
	}
	var broken, trouble error
	var struggles *replica
	for _, r := range n.all() {
		r.mu.Lock()
		unsettled := r.shared != nil && (r.shared.failed != nil || r.shared.unfollowed != nil)
		r.mu.Unlock()
		if !unsettled {
			continue
		}
		n.settle(r)
		if r.why() == nil || !n.othersMayLead(r) {
			continue
		}
		if err := r.openings.Look(); err != nil {
			struggles, trouble = r, err
		}
		if p := r.readable.Load(); p != nil && p.Broken() != nil && !errors.Is(p.Broken(), partition.ErrCorrupt) {
			broken = fmt.Errorf("%w: %w", errReadOnly, p.Broken())
		}
	}
	switch {
	case broken != nil:
		n.metadata.c.fence(n.id, broken)
	case struggles != nil:
		n.compareDisks(struggles, trouble)
	}
}

// settleOnce returns why a replica does not lead, or does not follow, although the metadata
// requires it.
func (n *node) settleOnce(r *replica, s *several) (unled, unfollowed error) {
	p := r.partition()
	if s.held != p {
		s.held, s.epoch = p, -1
	}
	role, ok := n.metadata.role(r.tp, r.id)
	switch leader := role.state.Leader; {
	case !ok || n.ended() != nil:
		n.unfollow(r, s)
	case leader == n.id && !role.fenced:
		n.unfollow(r, s)
		if unled = n.leadAs(r, s, &role); unled == nil {
			s.wake()
		}
	case leader < 0 || leader == n.id || p != nil && r.loss() != nil: // or it is about to be replaced
		n.unfollow(r, s)
		s.epoch = -1
		if p != nil {
			p.BecomeFollower()
		}
		r.wakeWatches()
	default:
		unfollowed = n.followAs(r, s, &role)
		r.wakeWatches()
	}
	return unled, unfollowed
}

// why returns why a replica does not lead, although it is the leader in the metadata.
func (r *replica) why() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.shared == nil { // it is the only one
		return nil
	}
	return r.shared.failed
}

// leadAs makes a replica leader, or passes the changes to it if it leads already.
func (n *node) leadAs(r *replica, s *several, role *role) error {
	s.epoch = -1
	p := s.held
	if p == nil {
		if role.unsynced { // only an open partition knows that
			r.with(func(*partition.Partition, error) {})
		}
		return nil
	}
	st := &role.state
	l := partition.Leadership{
		Epoch: st.LeaderEpoch, Broker: n.id, PartitionEpoch: st.PartitionEpoch, Replicas: st.Replicas, InSync: st.ISR, Unsynced: role.unsynced,
		Followers: role.followers,
		Ask:       func(p partition.InSyncProposal) { n.wish(wish{r, st.LeaderEpoch, p}) }, Wake: s.wake,
	}
	if p.LeaderEpoch() == st.LeaderEpoch {
		p.Reassure(l)
		return nil
	}
	if err := p.Lead(l); err != nil {
		if n.ended() == nil && s.failed == nil {
			n.logger.Error("partition cannot be led", slog.String("topic", r.tp.Topic), slog.Int("partition", int(r.tp.Partition)),
				slog.Int("broker", int(n.id)), slog.Any("err", err))
		}
		r.openFailed(err)
		n.settleLater()
		return err
	}
	r.openings.Worked()
	n.startCleaner()
	n.watchLag()
	n.watchEvidence()
	return nil
}

// followAs makes a replica a follower.
func (n *node) followAs(r *replica, s *several, role *role) error {
	st := &role.state
	if p := s.held; p != nil && s.epoch != st.LeaderEpoch {
		if err := p.Follow(st.LeaderEpoch); err != nil {
			if n.ended() == nil && s.unfollowed == nil {
				n.logger.Error("partition cannot be followed", slog.String("topic", r.tp.Topic), slog.Int("partition", int(r.tp.Partition)),
					slog.Int("broker", int(n.id)), slog.Any("err", err))
			}
			n.unfollow(r, s)
			n.settleLater()
			return err
		}
		s.epoch = st.LeaderEpoch
	}
	if s.source != st.Leader {
		n.unfollow(r, s)
	}
	if role.leader == nil {
		n.unfollow(r, s)
		return nil
	}
	f := n.fetcher(st.Leader)
	if f == nil {
		return nil
	}
	s.source = st.Leader
	source := leaderSide{role.leader, role.leader.several(), n}
	f.Follow(follow.Following{Partition: r.tp, Epoch: st.LeaderEpoch, Source: source, Target: followerSide{r}})
	if s.held != nil {
		n.startCleaner()
		n.watchEvidence()
		if !slices.Contains(st.ISR, n.id) {
			s.held.WakeReaders() // the leader has the records that they wait for
		}
	}
	return nil
}

// unfollow stops copying a replica from its present source.
func (n *node) unfollow(r *replica, s *several) {
	if s.source == 0 {
		return
	}
	n.mu.RLock()
	f := n.fetchers[s.source]
	n.mu.RUnlock()
	if f != nil {
		f.Forget(r.tp)
	}
	s.source = 0
}

// report makes a replica report its position to its leader, if it follows one.
func (n *node) report(r *replica) {
	n.mu.RLock()
	fetchers := byid.Values(n.fetchers)
	n.mu.RUnlock()
	for _, f := range fetchers {
		f.Wake(r.tp)
	}
}

// fetcher returns the one that copies from a leader, making it; nil: the broker is closed.
func (n *node) fetcher(leader int32) *follow.Fetcher {
	n.mu.Lock()
	defer n.mu.Unlock()
	if f := n.fetchers[leader]; f != nil || n.closed != nil {
		return f
	}
	f := follow.New(follow.Config{
		Broker: n.id, Leader: leader, Incarnation: n.metadata.incarnationEpoch, Network: n.metadata.c.Network(), Logger: n.logger,
	})
	n.fetchers[leader] = f
	n.wg.Go(func() { f.Run(n.closing) })
	return f
}

// forget stops copying a replica that is about to be removed.
func (n *node) forget(r *replica) {
	r.mu.Lock()
	shared := r.shared
	r.mu.Unlock()
	if shared != nil {
		n.settle(r) // the metadata does not know it any more
	}
}
