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

// Errors for members. The comments name Kafka's error codes.
var (
	ErrInvalidRequest     = inflight.ErrInvalidRequest // INVALID_REQUEST
	ErrInvalidRecordState = inflight.ErrInvalidState   // INVALID_RECORD_STATE

	// ErrRenewalDisabled is returned when the group does not permit renewal (Config.NoRenewal). It
	// also matches ErrInvalidRecordState.
	ErrRenewalDisabled = fmt.Errorf("%w: the group does not renew", ErrInvalidRecordState)
)

// renews reports whether a renews records.
func renews(a Ack) bool { return slices.Contains(a.Types, Renew) }

// An Ack is a member's acknowledgement of a range of records.
type Ack = inflight.Ack

// AckType is the type of an acknowledgement.
type AckType = inflight.AckType

// The types of acknowledgement.
const (
	Gap     = inflight.Gap     // no record has this offset
	Accept  = inflight.Accept  // the record is done
	Release = inflight.Release // deliver the record again, to any member, unless this was its last delivery
	Reject  = inflight.Reject  // do not deliver the record again
	Renew   = inflight.Renew   // keep the record locked for the member: a new lock begins now
)

// CheckAcks returns ErrInvalidRequest if acks are invalid for any member.
func CheckAcks(acks []Ack) error { return inflight.Check(acks) }

// Acknowledge applies a member's acknowledgements of a partition, all or none. They are durable
// when it returns. acks are sorted by offset and do not overlap.
//
// It returns ErrInvalidRequest if acks are invalid; ErrInvalidRecordState for records that the
// member does not hold, for example because the lock has timed out or the partition has a new
// leader; and ErrRenewalDisabled if the group does not permit renewal. After other errors, or when
// ctx ends, the acknowledgements are in effect while the partition keeps its leader, but may not be
// durable: the member may repeat them until the lock times out.
func (c *Coordinator) Acknowledge(ctx context.Context, group, member string, tp TopicPartition, acks []Ack) error {
	stored, err := c.Submit(ctx, group, member, tp, acks)
	if err != nil {
		return err
	}
	return stored(ctx)
}

// Submit is Acknowledge without the wait: acks are in effect when it returns, and stored waits
// until they are durable. Submit returns the errors of rejected acks, stored the errors of storing
// them. A caller that does not call stored does not learn whether they are durable.
func (c *Coordinator) Submit(ctx context.Context, group, member string, tp TopicPartition, acks []Ack) (stored func(context.Context) error, err error) {
	if err := inflight.Check(acks); err != nil { // before other checks, as in Kafka
		return nil, err
	}
	l, err := c.acquired(ctx, group, tp)
	if err != nil {
		return nil, err
	}
	say := func(now time.Time) error {
		if slices.ContainsFunc(acks, renews) && c.cfg.limits(group).NoRenewal {
			return ErrRenewalDisabled
		}
		return l.p.Acknowledge(now, member, acks)
	}
	return l.begin(changing{do: say, doubted: func(now time.Time) { l.p.Doubt(now, member, acks) }})
}

// acquired returns the leader of a share-partition of which a member has acquired records.
func (c *Coordinator) acquired(ctx context.Context, group string, tp TopicPartition) (*leader, error) {
	l, err := c.leader(ctx, group, tp, beginning{partition.Earliest, true})
	if errors.Is(err, ErrNotInitialized) {
		return nil, fmt.Errorf("%w: nothing is acquired: %w", ErrInvalidRecordState, err)
	}
	return l, err
}

// Begin starts the delivery of the records from first to last, both inclusive, which a member has
// fetched with FetchRequest.BeginLater. They are locked for Config.LockDuration from now, and the
// delivery is counted. It does not wait for a disk. If the member no longer holds one of them, it
// returns ErrInvalidRecordState and changes nothing.
func (c *Coordinator) Begin(ctx context.Context, group, member string, tp TopicPartition, first, last int64) error {
	l, err := c.acquired(ctx, group, tp)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over != nil {
		return fmt.Errorf("%w: %w", ErrInvalidRecordState, l.over)
	}
	l.lookLocked()
	if err := l.p.Begin(time.Now(), member, first, last); err != nil {
		return err
	}
	if at := l.p.Deadline(); !at.IsZero() {
		l.alarm.By(at) // it also wakes waiters for locks that have just passed
	}
	return nil
}

// Leave releases all records that a member of a group holds, so that other members get them
// immediately; these deliveries are not counted. It returns when that is durable.
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

// Expire releases the records of some partitions that a member of a group holds, so that other
// members get them immediately, as if their locks had timed out. The deliveries are counted, since
// one of the records may have crashed the member. It returns when that is durable. Kafka:
// SharePartition.releaseAcquiredRecords.
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
	var errs []error
	for _, l := range its {
		wait, err := l.begin(changing{do: func(now time.Time) error {
			f(l, now)
			l.left = true
			return nil
		}})
		if errors.Is(err, errUnused) {
			continue // there are no records to release
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		waits = append(waits, wait)
	}
	for _, wait := range waits {
		errs = append(errs, wait(ctx))
	}
	return errors.Join(errs...)
}
