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

// A Reassignment requests other replicas of a partition: the brokers that are to have it, the
// preferred leader first. nil Replicas cancel the reassignment in progress.
type Reassignment = image.Reassignment

// An OngoingReassignment is a partition whose reassignment is in progress. Meanwhile the partition
// has all of Replicas, the requested ones first. Adding are the replicas that have to catch up, and
// Removing are the replicas that are deleted then.
type OngoingReassignment = image.Ongoing

// ErrNoReassignment rejects the cancellation of a reassignment that is not in progress.
var ErrNoReassignment = image.ErrNoReassignment

// AlterPartitionReassignments moves partitions to other brokers, changes their number of replicas,
// or cancels that, for each partition independently: errs[i] is why all[i] is rejected. When it
// returns, the reassignments have begun: added brokers create their replicas and copy from the
// leader. WaitReassigned waits for the end. A reassignment that needs no copying is done at once. A
// new request replaces the reassignment in progress. The requested brokers need not be serving.
//
// A reassignment ends with the change of the ISR in which all added replicas are in sync. From then
// on the partition has exactly the requested replicas. Another leader is elected if the present one
// is not among them, and removed brokers delete their replicas.
//
// Copies are made as fast as possible. To limit them, set a rate with AlterBrokerConfig and the
// affected replicas with AlterTopicConfig (* for all) first, and unset both afterwards:
//
//	leader.replication.throttled.rate=10000000      follower.replication.throttled.rate=10000000
//	leader.replication.throttled.replicas=*         follower.replication.throttled.replicas=*
//
// The rates may be changed meanwhile.
//
// A cancelled partition has its old replicas again, in the order of the merged list, as in Kafka.
//
// Errors: ErrNoReassignment; ErrUnknownTopic; ErrInvalidReplicationFactor with SameFactor;
// ErrInvalidAssignment for no replicas, for a broker or partition that occurs twice, for an unknown
// broker (it matches ErrUnknownBroker too), and for a cancellation if no earlier replica can lead.
// An error of the metadata change, ErrClosed and the context's error are returned for each
// partition; after the context's error the change may still happen. Kafka:
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

// PartitionReassignments returns the reassignments in progress, by topic and number. It does not
// block. Kafka: ListPartitionReassignments.
func (c *Cluster) PartitionReassignments() ([]OngoingReassignment, error) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if c.closed {
		return nil, ErrClosed
	}
	return c.image.Reassignments(), nil
}

// WaitReassigned waits until no reassignment is in progress in any of the partitions, of all if
// none is given. When it returns, the brokers have completed all of it. It does not poll.
// Partitions that do not exist are ignored. Errors: ErrClosed, and the context's error.
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

// depart makes brokers give up replicas, before the others settle: a removed leader has stopped
// leading when the next one begins. If a broker's disk is slow to close the files, depart waits
// for it as any other change does.
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

// giveUp ends a replica that the metadata has removed from the broker: it serves no call any more.
// Its files are left for putAway. ok is false if the broker has none. It does not block.
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
