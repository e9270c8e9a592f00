package share

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/share/internal/inflight"
)

// What a member is told. The names in brackets are Kafka's error codes.
var (
	ErrInvalidRequest     = inflight.ErrInvalidRequest // INVALID_REQUEST
	ErrInvalidRecordState = inflight.ErrInvalidState   // INVALID_RECORD_STATE

	// ErrRenewalDisabled says that a group does not renew (Config.NoRenewal). It matches
	// ErrInvalidRecordState, too.
	ErrRenewalDisabled = fmt.Errorf("%w: the group does not renew", ErrInvalidRecordState)
)

// renews reports whether some of it is a renewal.
func renews(a Ack) bool { return slices.Contains(a.Types, Renew) }

// An Ack is what a member says of a range of records.
type Ack = inflight.Ack

// AckType is what can be said.
type AckType = inflight.AckType

// The types of acknowledgement.
const (
	Gap     = inflight.Gap     // there is no record with this offset
	Accept  = inflight.Accept  // it is done
	Release = inflight.Release // hand it out again, to anybody, unless that was its last delivery
	Reject  = inflight.Reject  // do not hand it out again
	Renew   = inflight.Renew   // the member goes on with it: another lock from now
)

// CheckAcks says what is wrong with what a member says, whatever it has: ErrInvalidRequest.
func CheckAcks(acks []Ack) error { return inflight.Check(acks) }

// Acknowledge takes what a member says of records of a partition, all of it or nothing; it is
// durable when Acknowledge returns. acks are by offset and do not overlap.
//
// It returns ErrInvalidRequest if acks make no sense; ErrInvalidRecordState for records that the
// member does not have, or not any more: its lock has passed, or the partition has another leader;
// ErrRenewalDisabled if the group does not renew. With other errors, or when ctx ends, it counts
// for as long as the partition keeps its leader, but may not be durable: the member may say the
// same again, for as long as a lock lasts.
func (c *Coordinator) Acknowledge(ctx context.Context, group, member string, tp TopicPartition, acks []Ack) error {
	if err := inflight.Check(acks); err != nil { // before it is looked whether there is anything to acknowledge, as in Kafka
		return err
	}
	l, err := c.leader(ctx, group, tp, beginning{partition.Earliest, true})
	if errors.Is(err, ErrNotInitialized) {
		return fmt.Errorf("%w: nothing is acquired: %w", ErrInvalidRecordState, err)
	}
	if err != nil {
		return err
	}
	say := func(now time.Time) error {
		if slices.ContainsFunc(acks, renews) && c.cfg.limits(group).NoRenewal {
			return ErrRenewalDisabled
		}
		return l.p.Acknowledge(now, member, acks)
	}
	return l.change(ctx, changing{do: say, doubted: func(now time.Time) { l.p.Doubt(now, member, acks) }})
}

// Leave gives back what a member of a group has, so that others get it at once; these deliveries do
// not count. It returns when that is durable.
func (c *Coordinator) Leave(ctx context.Context, group, member string) error {
	c.mu.Lock()
	var its []*leader
	for key, l := range c.leaders {
		if key.Group == group {
			its = append(its, l)
		}
	}
	c.mu.Unlock()
	return each(ctx, its, func(l *leader, now time.Time) { l.p.Leave(now, member) })
}

// Expire gives back what a member of a group has of some partitions, so that others get it at once,
// as if its locks had passed: the deliveries count, for one of the records may be what the member
// died of. It returns when that is durable. Kafka: SharePartition.releaseAcquiredRecords.
func (c *Coordinator) Expire(ctx context.Context, group, member string, tps []TopicPartition) error {
	c.mu.Lock()
	var its []*leader
	for _, tp := range tps {
		if l := c.leaders[Key{Group: group, TopicID: tp.TopicID, Partition: tp.Partition}]; l != nil {
			its = append(its, l)
		}
	}
	c.mu.Unlock()
	return each(ctx, its, func(l *leader, now time.Time) { l.p.Expire(now, member) })
}

// each changes share-partitions: all of them at once, and then it waits until that is stored.
func each(ctx context.Context, its []*leader, f func(l *leader, now time.Time)) error {
	var waits []func(context.Context) error
	for _, l := range its {
		waits = append(waits, l.begin(changing{do: func(now time.Time) error {
			f(l, now)
			return nil
		}}))
	}
	var errs []error
	for _, wait := range waits {
		errs = append(errs, wait(ctx))
	}
	return errors.Join(errs...)
}
