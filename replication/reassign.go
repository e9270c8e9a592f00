package replication

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"

	"github.com/stratalog/strata/internal/metarecord"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/replication/internal/image"
)

// A Reassignment asks for other replicas of a partition: the brokers that are to have it, the
// preferred leader first. nil Replicas cancel the one that is under way.
type Reassignment = image.Reassignment

// An OngoingReassignment is a partition that is on its way to other replicas. It has all of
// Replicas meanwhile, those that are wanted first; Adding have to catch up, and Removing go then.
type OngoingReassignment = image.Ongoing

// ErrNoReassignment refuses to cancel a reassignment that is not under way.
var ErrNoReassignment = image.ErrNoReassignment

// AlterPartitionReassignments moves partitions to other brokers, changes how many replicas they
// have, or cancels that, each partition by itself: errs[i] is why all[i] is refused. When it
// returns the reassignments have begun: brokers that are added make their replicas and copy from
// the leader. The change of the in-sync set that has all of them ends it: the replicas are those
// that were asked for, another leader is elected if the one before is not among them, and the
// brokers that are not any more delete what they had. WaitReassigned waits for that. What needs no
// copying is done at once. Asking again replaces what is under way; the brokers that are to have a
// partition need not serve at the time.
//
// Copies are made as fast as they can. To spare the brokers, limit them first, by a rate with
// AlterBrokerConfig and the replicas that it is about with AlterTopicConfig (* for all), and unset
// both afterwards:
//
//	leader.replication.throttled.rate=10000000      follower.replication.throttled.rate=10000000
//	leader.replication.throttled.replicas=*         follower.replication.throttled.replicas=*
//
// The rates may be changed on the way.
//
// A cancelled partition has its old replicas again, in the order of the merged list, as in Kafka.
//
// Errors: ErrInvalidAssignment (no replicas, a broker twice or, with ErrUnknownBroker, that is no
// member; a cancellation when nobody who can lead had the partition before), ErrNoReassignment,
// ErrInvalidReplicationFactor with SameFactor, ErrUnknownTopic. An error of the change of the
// metadata, ErrClosed and that of ctx are told for each; with ctx's it may still happen. Kafka:
// AlterPartitionReassignments (KIP-455).
func (c *Cluster) AlterPartitionReassignments(ctx context.Context, all ...Reassignment) (errs []error) {
	var refused []error // read only when the change has been made
	err := c.change(ctx, func(img *image.Image) (recs []metarecord.Record, _ error) {
		recs, refused = img.Reassign(all, c.rules)
		return recs, nil
	})
	if err == nil {
		return refused
	}
	errs = make([]error, len(all))
	for i, a := range all {
		errs[i] = fmt.Errorf("reassign %s-%d: %w", a.Partition.Topic, a.Partition.Partition, err)
	}
	return errs
}

// PartitionReassignments returns the reassignments that are under way, by topic and number. It does
// not block. Kafka: ListPartitionReassignments.
func (c *Cluster) PartitionReassignments() ([]OngoingReassignment, error) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if c.closed {
		return nil, ErrClosed
	}
	return c.image.Reassignments(), nil
}

// WaitReassigned waits until no reassignment is under way in any of the partitions, of all if none
// is given: the brokers have done all of it when it returns. It does not poll. Partitions that are
// not there are not waited for. Errors: ErrClosed, ctx's.
func (c *Cluster) WaitReassigned(ctx context.Context, tps ...record.TopicPartition) error {
	for {
		version := c.MetadataVersion()
		under, err := c.PartitionReassignments()
		if err != nil {
			return fmt.Errorf("wait for reassignments: %w", err)
		}
		under = slices.DeleteFunc(under, func(o OngoingReassignment) bool { return len(tps) > 0 && !slices.Contains(tps, o.Partition) })
		if len(under) == 0 {
			return c.inEffect(ctx)
		}
		if _, err := c.WaitMetadata(ctx, version); err != nil {
			return fmt.Errorf("wait for %d reassignments, %s-%d for one: %w", len(under), under[0].Partition.Topic, under[0].Partition.Partition, err)
		}
	}
}

// A departure is a replica that its broker has no longer.
type departure struct {
	place  placeOf
	broker int32
}

// departuresLocked returns the replicas that recs take from brokers. The image is still as it was
// before recs. Callers hold mu.
func (c *Cluster) departuresLocked(recs []metarecord.Record) (gone []departure) {
	for _, rec := range recs {
		ch, ok := rec.(*metarecord.PartitionChange)
		if !ok || ch.Replicas == nil {
			continue
		}
		t := c.image.ByID[ch.TopicID]
		if t == nil {
			continue
		}
		for _, id := range missing(t.Partitions[ch.Partition].Replicas, ch.Replicas) {
			gone = append(gone, departure{placeOf{t, ch.Partition}, id})
		}
	}
	return gone
}

// depart has brokers give up replicas. It comes before the others settle: a leader that goes leads
// no longer when the next one begins. A broker whose disk does not get on with the closing is
// waited for as in any other change.
func (c *Cluster) depart(gone []departure) {
	serving := c.serving()
	of := map[*node][]ending{}
	for _, d := range gone {
		if n := serving[d.broker]; n != nil { // else its directory is put aside when it is back
			if e, ok := n.giveUp(d.place); ok {
				of[n] = append(of[n], e)
			}
		}
	}
	nodes := slices.SortedFunc(maps.Keys(of), func(a, b *node) int { return cmp.Compare(a.id, b.id) })
	_ = c.heed(nodes, func(n *node, step func()) error {
		return forEach(of[n], func(_ int, e ending) error {
			if err := n.putAway(e); err != nil {
				c.logger.Warn("replica that was moved away leaves files behind until the next start of its broker", slog.Int("broker", int(n.id)),
					slog.String("topic", e.r.tp.Topic), slog.Int("partition", int(e.r.tp.Partition)), slog.Any("err", err))
			}
			step()
			return nil
		})
	})
}

// giveUp ends a replica that the metadata has taken from the broker: it serves nobody any more. Its
// files are left for putAway. ok is false if the broker has none. It does not block.
func (n *node) giveUp(p placeOf) (e ending, ok bool) {
	tp := p.tp()
	n.mu.Lock()
	r := n.replicas[tp]
	if r == nil || r.id != p.topic.ID || n.closed != nil {
		n.mu.Unlock()
		return e, false
	}
	e = n.endingLocked(r)
	n.mu.Unlock()
	if part := r.dismiss(notLedBy(tp, n.id)); part != nil { // before it is closed: callers look for the next leader
		part.Resign()
		part.BecomeFollower()
	}
	return e, true
}

// putAway closes a replica that the broker has given up, and deletes its directory.
func (n *node) putAway(e ending) (err error) {
	defer e.done()
	n.forget(e.r)
	if part := e.r.retire(notLedBy(e.r.tp, n.id)); part != nil {
		part.Resign()
		err = part.Close()
	}
	e.r.awaitDirectory()
	return errors.Join(err, n.putOut(e.r))
}
