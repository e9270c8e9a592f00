package replication

import (
	"log/slog"
	"slices"

	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/replication/internal/byid"
	"github.com/stratalog/strata/replication/internal/follow"
)

// settle makes a replica what the metadata says: leader, follower or neither. When it returns that
// is done, for metadata that was in effect before. It blocks for the disk.
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
		err := n.settleOnce(r, s)
		r.mu.Lock()
		s.failed = err
	}
	close(s.settling)
	s.settling = nil
	r.mu.Unlock()
}

// settleOnce returns why a replica does not lead, though the metadata says so.
func (n *node) settleOnce(r *replica, s *several) (err error) {
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
		err = n.leadAs(r, s, &role)
		s.wake()
	case leader < 0 || leader == n.id:
		n.unfollow(r, s)
		s.epoch = -1
		if p != nil {
			p.BecomeFollower()
		}
		r.wakeWatches()
	default:
		n.followAs(r, s, &role)
		r.wakeWatches()
	}
	return err
}

// why returns why a replica does not lead, though the metadata says so.
func (r *replica) why() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.shared.failed
}

// leadAs makes a replica leader, or tells it what has changed if it leads already.
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
		if n.ended() == nil {
			n.logger.Error("partition cannot be led", slog.String("topic", r.tp.Topic), slog.Int("partition", int(r.tp.Partition)),
				slog.Int("broker", int(n.id)), slog.Any("err", err))
		}
		return err
	}
	n.startCleaner()
	n.watchLag()
	n.watchHighWatermarks()
	return nil
}

// followAs makes a replica a follower.
func (n *node) followAs(r *replica, s *several, role *role) {
	st := &role.state
	if p := s.held; p != nil && s.epoch != st.LeaderEpoch {
		if err := p.Follow(st.LeaderEpoch); err != nil {
			if n.ended() == nil {
				n.logger.Error("partition cannot be followed", slog.String("topic", r.tp.Topic), slog.Int("partition", int(r.tp.Partition)),
					slog.Int("broker", int(n.id)), slog.Any("err", err))
			}
			n.unfollow(r, s)
			return
		}
		s.epoch = st.LeaderEpoch
	}
	if s.source != st.Leader {
		n.unfollow(r, s)
	}
	if role.leader == nil {
		n.unfollow(r, s)
		return
	}
	f := n.fetcher(st.Leader)
	if f == nil {
		return
	}
	s.source = st.Leader
	source := leaderSide{role.leader, role.leader.several(), n}
	f.Follow(follow.Following{Partition: r.tp, Epoch: st.LeaderEpoch, Source: source, Target: followerSide{r}})
	if s.held != nil {
		n.startCleaner()
		n.watchHighWatermarks()
		if !slices.Contains(st.ISR, n.id) {
			s.held.WakeReaders() // the leader has what they wait for
		}
	}
}

// unfollow ends the copying of a replica from whoever it is copied from.
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

// report has a replica tell its leader how far it is, if it follows one.
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

// forget ends the copying of a replica that is about to be removed.
func (n *node) forget(r *replica) {
	r.mu.Lock()
	shared := r.shared
	r.mu.Unlock()
	if shared != nil {
		n.settle(r) // the metadata does not know it any more
	}
}
