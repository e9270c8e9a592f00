package replication

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/stratalog/strata/internal/alarm"
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

// asks has the requests of a broker's partitions. One request to the controller is in progress at
// a time; it has all requests that arrived before it. Kafka: AlterPartitionManager.
type asks struct {
	mu      sync.Mutex // guards the fields below
	waiting []wish
	asking  bool // a goroutine sends requests, and checks for more
	// unheard counts the consecutive requests that did not reach the controller, or whose outcome
	// is unknown. They are in waiting, and are sent again at retryAt.
	unheard int
	retryAt time.Time
	// declined has the partitions whose requests were rejected, and when they request again.
	declined map[*replica]time.Time

	again alarm.Alarm // askAgain, at the earliest of these times
}

// A request that was not received is repeated after a pause, which doubles each time.
const (
	firstRepeat = 10 * time.Millisecond
	maxRepeat   = time.Second
)

// wish requests another ISR from the controller. It does not block. The partition receives the
// change that the controller makes, or the rejection.
func (n *node) wish(a wish) {
	n.asks.mu.Lock()
	defer n.asks.mu.Unlock()
	n.asks.waiting = append(n.asks.waiting, a)
	n.startAskingLocked()
}

func (n *node) startAskingLocked() {
	if !n.asks.asking && len(n.asks.waiting) > 0 {
		n.asks.asking = n.run(n.askAll)
	}
}

// askAll sends requests until there are none, or the controller has not received one.
func (n *node) askAll() {
	for heard := true; ; {
		n.asks.mu.Lock()
		all := n.asks.waiting
		if len(all) == 0 || !heard || n.ended() != nil {
			n.asks.asking = false
			n.asks.mu.Unlock()
			return
		}
		n.asks.waiting = nil
		n.asks.mu.Unlock()
		if heard = n.askFor(all); !heard {
			n.repeat(all)
		}
	}
}

// repeat sends requests again, unchanged. The epoch of the partition shows whether the controller
// has accepted them.
func (n *node) repeat(all []wish) {
	n.asks.mu.Lock()
	defer n.asks.mu.Unlock()
	n.asks.waiting = append(all, n.asks.waiting...)
	n.asks.retryAt = time.Now().Add(min(firstRepeat<<min(n.asks.unheard, 10), maxRepeat))
	n.asks.unheard++
	n.asks.again.By(n.asks.retryAt)
}

// askAgain sends the unreceived requests again, and makes leaders check again whose request was
// rejected.
func (n *node) askAgain() {
	var due []*replica
	now := time.Now()
	n.asks.mu.Lock()
	if n.asks.retryAt.After(now) {
		n.asks.again.By(n.asks.retryAt)
	} else {
		n.startAskingLocked()
	}
	for r, at := range n.asks.declined {
		if at.After(now) {
			n.asks.again.By(at)
			continue
		}
		due = append(due, r)
		delete(n.asks.declined, r)
	}
	n.asks.mu.Unlock()
	for _, r := range due {
		if p := r.partition(); p != nil {
			p.AskAgain()
		}
	}
}

// decline passes a rejection to a leader, and makes it check again.
func (n *node) decline(a wish) {
	p := a.r.partition()
	if p == nil {
		return
	}
	pause := p.Declined(a.proposal)
	if pause == 0 { // it has received the change
		return
	}
	n.asks.mu.Lock()
	defer n.asks.mu.Unlock()
	if n.asks.declined == nil {
		n.asks.declined = map[*replica]time.Time{}
	}
	at := time.Now().Add(pause)
	n.asks.declined[a.r] = at
	n.asks.again.By(at)
}

// askFor sends all of them at once. It returns false if the controller has not received them, or
// the outcome is unknown.
func (n *node) askFor(all []wish) bool {
	c := n.metadata.c
	controller := c.Controller()
	if controller != n.id && c.network.Send(follow.Path{From: n.id, To: controller}, n.closing) != follow.Delivered {
		return false // another broker may be controller the next time
	}
	self := n.metadata.incarnationEpoch()
	wanted := make([]image.Proposal, len(all))
	for i, a := range all {
		wanted[i] = image.Proposal{Topic: a.r.id, Partition: a.r.tp.Partition, Request: election.Request{
			Leader: n.id, Incarnation: self, LeaderEpoch: a.epoch, Epoch: a.proposal.Epoch,
			InSync: a.proposal.InSync, Incarnations: a.proposal.Incarnations,
		}, Synced: a.proposal.Synced}
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
		return false
	}
	n.asks.mu.Lock()
	n.asks.unheard = 0
	n.asks.mu.Unlock()
	if err != nil {
		n.logger.Warn("in-sync sets were not changed", slog.Int("broker", int(n.id)), slog.Any("err", err))
	}
	for _, a := range all {
		n.decline(a)
	}
	for i := range answers {
		if answers[i].Err != nil {
			n.logger.Debug("in-sync set was refused", slog.String("topic", all[i].r.tp.Topic), slog.Int("partition", int(all[i].r.tp.Partition)),
				slog.Any("err", answers[i].Err))
		}
	}
	return true
}
