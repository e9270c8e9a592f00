package replication

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/replication/internal/election"
	"github.com/stratalog/strata/replication/internal/follow"
	"github.com/stratalog/strata/replication/internal/image"
)

// wish is a leader's wish for another in-sync set.
type wish struct {
	r        *replica
	epoch    int32 // of the leader
	proposal partition.InSyncProposal
}

// asks are those of a broker's partitions. One question to the controller is under way at a time,
// with all that have come up before it. Kafka: AlterPartitionManager.
type asks struct {
	mu      sync.Mutex // guards the fields below
	waiting []wish
	asking  bool // somebody asks, and looks again
}

// wish asks the controller for another in-sync set. It does not block. The partition is told by the
// change that the controller makes, or that there is none.
func (n *node) wish(a wish) {
	n.asks.mu.Lock()
	defer n.asks.mu.Unlock()
	n.asks.waiting = append(n.asks.waiting, a)
	if !n.asks.asking {
		n.asks.asking = n.run(n.askAll)
	}
}

// askAll asks until there is nothing to be asked for.
func (n *node) askAll() {
	for {
		n.asks.mu.Lock()
		all := n.asks.waiting
		n.asks.waiting = nil
		if len(all) == 0 || n.ended() != nil {
			n.asks.asking = false
			n.asks.mu.Unlock()
			return
		}
		n.asks.mu.Unlock()
		n.askFor(all)
	}
}

// askFor asks for all of them at once.
func (n *node) askFor(all []wish) {
	c := n.metadata.c
	path := follow.Path{From: n.id, To: c.Controller()}
	if n.id != path.To && !c.network.Reach(path, n.closing) {
		return
	}
	self := n.metadata.incarnationEpoch()
	wanted := make([]image.Proposal, len(all))
	for i, a := range all {
		wanted[i] = image.Proposal{Topic: a.r.id, Partition: a.r.tp.Partition, Request: election.Request{
			Leader: n.id, Incarnation: self, LeaderEpoch: a.epoch, Epoch: a.proposal.Epoch,
			InSync: a.proposal.InSync, Incarnations: a.proposal.Incarnations,
		}}
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	n.wg.Go(func() {
		select {
		case <-n.closing:
			cancel()
		case <-ctx.Done():
		}
	})
	answers, err := c.alterPartitions(ctx, wanted)
	if n.ended() != nil || errors.Is(err, ErrMetadataReadOnly) {
		return // what became of it is not known, and nothing is changed any more
	}
	if err != nil {
		n.logger.Warn("in-sync sets were not changed", slog.Int("broker", int(n.id)), slog.Any("err", err))
	}
	for _, a := range all {
		if p := a.r.partition(); p != nil {
			p.Declined(a.proposal) // unless it was told of the change
		}
	}
	for i := range answers {
		if answers[i].Err != nil {
			n.logger.Debug("in-sync set was refused", slog.String("topic", all[i].r.tp.Topic), slog.Int("partition", int(all[i].r.tp.Partition)),
				slog.Any("err", answers[i].Err))
		}
	}
}

// watchLag has the followers looked at, by and by, as long as this broker leads any.
func (n *node) watchLag() { n.lag.After(n.base.MaxLag / 2) }

// checkLag looks which followers of the partitions that this broker leads have fallen behind.
func (n *node) checkLag() {
	if n.ended() != nil {
		return
	}
	leads := false
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
	}
	if leads {
		n.lag.By(time.Now().Add(n.base.MaxLag / 2))
	}
}
