package replication

import (
	"errors"
	"log/slog"
	"slices"
	"sync"

	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/replication/internal/follow"
)

// several is what a replica has that is one of several.
type several struct {
	// Guarded by replica.mu:
	settling chan struct{} // closed when who settles is through; nil: nobody does
	again    bool          // who settles looks at the metadata once more
	failed   error         // why it does not lead, though the metadata says so

	// Of who settles:
	held   *partition.Partition // that was settled last
	epoch  int32                // leader epoch that it follows in; -1: it does not
	source int32                // whom it is copied from; 0: nobody

	// mu guards places: the followers to be woken. Replaced, never written to.
	mu     sync.Mutex
	places []*follow.Place
}

func (s *several) watch(p *follow.Place) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.places = append(slices.Clone(s.places), p)
}

func (s *several) unwatch(p *follow.Place) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.places = slices.DeleteFunc(slices.Clone(s.places), func(q *follow.Place) bool { return p == q })
}

// wake has the followers ask what is new.
func (s *several) wake() {
	s.mu.Lock()
	places := s.places
	s.mu.Unlock()
	for _, p := range places {
		p.Wake()
	}
}

// several returns what r has as one of several replicas.
func (r *replica) several() *several {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.severalLocked()
}

func (r *replica) severalLocked() *several {
	if r.shared == nil {
		r.shared = &several{epoch: -1}
	}
	return r.shared
}

// hold makes p, which is open and that nobody finds yet, the partition that settle is about.
func (r *replica) hold(p *partition.Partition) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fresh = p
}

// partition returns the partition if it is open, also if nobody finds it yet.
func (r *replica) partition() *partition.Partition {
	if p := r.readable.Load(); p != nil {
		return p
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.fresh
}

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
	case leader == n.id:
		n.unfollow(r, s)
		err = n.leadAs(r, s, &role)
		s.wake()
	case leader < 0:
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
		return nil
	}
	st := &role.state
	l := partition.Leadership{
		Epoch: st.LeaderEpoch, Broker: n.id, PartitionEpoch: st.PartitionEpoch, Replicas: st.Replicas, InSync: st.ISR, Followers: role.followers,
		Ask: func(p partition.InSyncProposal) { n.wish(wish{r, st.LeaderEpoch, p}) }, Wake: s.wake,
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
	if role.leaderNode == nil {
		n.unfollow(r, s)
		return
	}
	f := n.fetcher(st.Leader)
	if f == nil {
		return
	}
	s.source = st.Leader
	leader := role.leaderNode.place(r.tp, r.id)
	f.Follow(follow.Following{Partition: r.tp, Epoch: st.LeaderEpoch, Source: leaderSide{leader, leader.several()}, Target: followerSide{r}})
	if s.held != nil {
		n.startCleaner()
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

// leaderSide is a leader's replica, as its followers reach it.
type leaderSide struct {
	r *replica
	s *several
}

func (l leaderSide) Watch(p *follow.Place)   { l.s.watch(p) }
func (l leaderSide) Unwatch(p *follow.Place) { l.s.unwatch(p) }

// Read answers a follower. A leader that was never written has nothing to say, unless the follower
// has something that it has not, or is to join those in sync: only an open partition knows who may.
func (l leaderSide) Read(ask partition.ReplicaFetch) (partition.ReplicaRead, error) {
	p, err := l.r.state()
	switch {
	case p != nil:
		return p.ReadReplica(ask)
	case err != nil:
		return partition.ReplicaRead{}, err
	case ask.Offset == 0 && l.r.node.metadata.isInSync(l.r, ask.Broker):
		return partition.ReplicaRead{}, nil
	}
	l.r.with(func(_ *partition.Partition, err error) {
		if err == nil {
			l.s.wake()
		}
	})
	return partition.ReplicaRead{}, follow.ErrNotReady
}

// followerSide is a follower's replica. Its directory is made when there is something to copy.
type followerSide struct{ r *replica }

func (f followerSide) Position() partition.ReplicaFetch {
	if p := f.r.partition(); p != nil {
		return p.Position()
	}
	return partition.ReplicaFetch{LastEpoch: -1}
}

func (f followerSide) CopyFrom(c *partition.Copy) {
	if p := f.r.partition(); p == nil && len(c.Batches) == 0 {
		c.Done(nil)
		return
	}
	f.r.with(func(p *partition.Partition, err error) {
		if err != nil {
			c.Done(err)
			return
		}
		p.CopyFrom(c)
	})
}

func (f followerSide) Converge(d partition.Divergence) error {
	p := f.r.partition()
	if p == nil {
		return errNotOpen
	}
	lost, err := p.Converge(d)
	if lost > 0 {
		f.r.node.logger.Error("records below the high watermark are gone: an unclean leader did not have them",
			slog.String("topic", f.r.tp.Topic), slog.Int("partition", int(f.r.tp.Partition)), slog.Int("broker", int(f.r.node.id)), slog.Int64("records", lost))
	}
	return err
}

func (f followerSide) StartAt(offset int64) error {
	done := make(chan error, 1)
	f.r.with(func(p *partition.Partition, err error) { done <- err })
	if err := <-done; err != nil {
		return err
	}
	return f.r.partition().StartAt(offset)
}

func (f followerSide) AdvanceStart(offset int64) error {
	if p := f.r.partition(); p != nil {
		return p.AdvanceStart(offset)
	}
	return nil
}

var errNotOpen = errors.New("replication: the replica is not open")
