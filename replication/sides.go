package replication

import (
	"errors"
	"log/slog"

	"github.com/stratalog/strata/log"
	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/replication/internal/follow"
)

// leaderSide is a leader's replica, as its followers reach it.
type leaderSide struct {
	r        *replica
	s        *several
	follower *node // the broker that reaches the leader
}

func (l leaderSide) Watch(p *follow.Place) { l.s.watch(p) }

func (l leaderSide) Unwatch(p *follow.Place) { l.s.unwatch(p) }

func (l leaderSide) Read(ask partition.ReplicaFetch) (partition.ReplicaRead, error) {
	if rates := l.r.node.metadata.c.rates.Load(); rates != nil {
		return l.readThrottled(ask, rates)
	}
	return l.read(ask)
}

// read serves the fetch of a follower. A leader without records has no response, unless the
// follower has records that the leader lacks, or is to join the ISR: only an open partition
// determines that.
func (l leaderSide) read(ask partition.ReplicaFetch) (partition.ReplicaRead, error) {
	p, err := l.r.state()
	switch {
	case p != nil:
		return p.ReadReplica(ask)
	case err != nil:
		return partition.ReplicaRead{}, err
	case ask.Offset == 0 && l.r.node.metadata.isInSync(l.r, ask.Broker):
		return partition.ReplicaRead{}, nil
	}
	l.r.with(func(*partition.Partition, error) {}) // which wakes the followers
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

func (f followerSide) Converge(ask partition.ReplicaFetch, d partition.Divergence) error {
	p := f.r.partition()
	if p == nil {
		return errNotOpen
	}
	from := p.LogEndOffset()
	lost, err := p.Converge(ask, d)
	if errors.Is(err, partition.ErrFencedLeaderEpoch) || errors.Is(err, partition.ErrOffsetOutOfRange) {
		return err // nothing was cut
	}
	if to := p.LogEndOffset(); to < from { // nothing is copied meanwhile
		f.r.node.metadata.c.tell(Event{Kind: LogTruncated, Partition: f.r.tp, Broker: f.r.node.id, From: from, To: to, Lost: lost})
	}
	if lost > 0 {
		f.r.node.metadata.c.stats.recordsLost.Add(lost)
		f.r.node.logger.Error("records below the high watermark are gone: an unclean leader did not have them",
			slog.String("topic", f.r.tp.Topic), slog.Int("partition", int(f.r.tp.Partition)), slog.Int("broker", int(f.r.node.id)), slog.Int64("records", lost))
	}
	return err
}

func (f followerSide) StartAt(ask partition.ReplicaFetch, offset int64, purged log.Purged) error {
	done := make(chan error, 1)
	f.r.with(func(p *partition.Partition, err error) { done <- err })
	if err := <-done; err != nil {
		return err
	}
	p := f.r.partition()
	if from := p.LogEndOffset(); from > offset {
		f.r.node.logger.Info("replica begins anew: compaction has taken from the leader's log what it lacks",
			slog.String("topic", f.r.tp.Topic), slog.Int("partition", int(f.r.tp.Partition)), slog.Int("broker", int(f.r.node.id)), slog.Int64("from", from), slog.Int64("to", offset))
	}
	return p.StartAt(ask, offset, purged)
}

func (f followerSide) Seed(ask partition.ReplicaFetch, offset int64, producers []byte) error {
	p := f.r.partition()
	if p == nil {
		return errNotOpen
	}
	return p.Seed(ask, offset, producers)
}

func (f followerSide) AdvanceStart(epoch int32, offset int64) error {
	if p := f.r.partition(); p != nil {
		return p.AdvanceStart(epoch, offset)
	}
	return nil
}

var errNotOpen = errors.New("replication: the replica is not open")
