package group

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/stratalog/strata/group/internal/classic"
	"github.com/stratalog/strata/group/internal/kinds"
	"github.com/stratalog/strata/group/internal/protocol"
	"github.com/stratalog/strata/internal/machine"
	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/record"
)

// A ResetTarget is a new position for RewindGroup: ToEarliest, ToLatest, ToTime, ToOffsets or
// ShiftBy.
type ResetTarget struct {
	at      partition.OffsetSpec // unless one of the others is set
	offsets record.Offsets
	shift   int64
	kind    resetKind
}

type resetKind uint8

const (
	resetNowhere resetKind = iota
	resetAt
	resetOffsets
	resetShift
)

// ToEarliest selects the start of the log. Kafka: --to-earliest.
func ToEarliest() ResetTarget { return ResetTarget{kind: resetAt, at: partition.Earliest} }

// ToLatest selects the end of the log. Kafka: --to-latest.
func ToLatest() ResetTarget { return ResetTarget{kind: resetAt, at: partition.Latest} }

// ToTime selects the first record with timestamp t or later, the end of the log if there is none.
// Kafka: --to-datetime.
func ToTime(t time.Time) ResetTarget { return ResetTarget{kind: resetAt, at: partition.At(t)} }

// ShiftBy selects the committed offset plus n, which may be negative. Partitions without a
// committed offset are not moved. Kafka: --shift-by.
func ShiftBy(n int64) ResetTarget { return ResetTarget{kind: resetShift, shift: n} }

// ToOffsets selects an offset for each partition. Kafka: --to-offset.
func ToOffsets(to record.Offsets) ResetTarget {
	return ResetTarget{kind: resetOffsets, offsets: maps.Clone(to)}
}

// ResetOffsets stores offsets for a group without members, and creates the group if it does not
// exist. It returns when they are durable. Offsets beyond either end of a log are moved to that
// end, as in Kafka's tool. It returns ErrNonEmptyGroup if the group has members. With nothing
// stored, it returns ErrUnknownTopicOrPartition if one of the partitions does not exist,
// replication.ErrNotLeader if one has no leader, and ErrInvalidOffset for a negative offset.
func (c *Coordinator) ResetOffsets(ctx context.Context, id string, to record.Offsets) error {
	_, err := c.reset(ctx, id, ToOffsets(to), slices.Collect(maps.Keys(to)), classic.EventReset{})
	return err
}

// RewindGroup moves the offsets of a group, with or without members. It returns the new offset of
// each partition once these are durable; offsets beyond either end of a log become that end, as in
// Kafka's tool. tps are the partitions to move. Without any, RewindGroup moves all partitions of
// topics in which the group has committed offsets or to which its members subscribe; with
// ToOffsets, the partitions named there.
//
// Members follow: all are removed from the group in the same batch as the move. Each gets
// ErrUnknownMember at its next heartbeat or commit, gives up its partitions, joins again and reads
// from the new offsets. Its commits until then are rejected, so that a commit in progress cannot
// undo the move. Records that it was processing are not committed. A group of the newer protocol or
// of streams may have more members, some thousands, than one batch can remove. The members that do
// not fit are removed in earlier batches, and again with the last one if they have already
// rejoined.
//
// On error nothing has moved. Errors: ErrGroupNotFound if the group does not exist and no partition
// is named, ErrUnknownTopicOrPartition if a partition does not exist, replication.ErrNotLeader if
// one has no leader, and ErrInvalidOffset for a negative offset or the zero ResetTarget.
func (c *Coordinator) RewindGroup(ctx context.Context, id string, to ResetTarget, tps ...record.TopicPartition) (record.Offsets, error) {
	if to.kind == resetOffsets && len(tps) == 0 {
		tps = slices.Collect(maps.Keys(to.offsets))
	}
	if len(tps) == 0 {
		info, err := c.Group(ctx, id)
		if err != nil {
			return nil, fmt.Errorf("rewind group %s: %w", id, err)
		}
		for tp, o := range info.Offsets {
			if !errors.Is(o.Err, ErrUnknownTopicOrPartition) {
				tps = append(tps, tp)
			}
		}
	}
	return c.reset(ctx, id, to, tps, classic.EventReset{Expel: true})
}

// reset moves tps of a group; ev describes the treatment of its members.
func (c *Coordinator) reset(ctx context.Context, id string, to ResetTarget, tps []record.TopicPartition, ev classic.EventReset) (record.Offsets, error) {
	if err := checkID(id, true); err != nil {
		return nil, err
	}
	topics, err := c.lookup(ctx, slices.Values(tps))
	if err != nil {
		return nil, err
	}
	for _, tp := range tps {
		if !known(topics, tp) {
			return nil, fmt.Errorf("reset offsets of group %s: %w: %s-%d", id, ErrUnknownTopicOrPartition, tp.Topic, tp.Partition)
		}
	}
	if err := c.resolve(ctx, to, tps, &ev); err != nil {
		return nil, fmt.Errorf("reset offsets of group %s: %w", id, err)
	}
	ev.TopicIDs = topicIDs(topics, slices.Values(tps))
	v, err := any(nil), error(classic.ErrMoreMembers)
	for errors.Is(err, classic.ErrMoreMembers) { // some are removed, and may return
		v, err = c.creating(ctx, question{group: id, once: true}, func(t machine.Ticket) kinds.Event {
			ev.To = t
			return ev
		})
	}
	stored, _ := v.(record.Offsets)
	c.commits.Add(int64(len(stored)))
	return stored, err
}

// resolve fills in where ev goes.
func (c *Coordinator) resolve(ctx context.Context, to ResetTarget, tps []record.TopicPartition, ev *classic.EventReset) error {
	if to.kind == resetNowhere {
		return fmt.Errorf("%w: no target", ErrInvalidOffset)
	}
	if to.kind == resetAt {
		at, unknown, err := c.store.ListOffsets(ctx, tps, to.at)
		if err != nil {
			return err
		}
		ev.Offsets = at
		return errOf(tps, bounds{starts: at, ends: at, unknown: unknown})
	}
	b, err := c.bounds(ctx, tps)
	if err != nil {
		return err
	}
	if err := errOf(tps, b); err != nil {
		return err
	}
	bounds := make(map[record.TopicPartition]protocol.Bounds, len(tps))
	for _, tp := range tps {
		bounds[tp] = protocol.Bounds{Start: b.starts[tp], End: b.ends[tp]}
	}
	if to.kind == resetShift {
		ev.Shift, ev.Bounds = to.shift, bounds
		return nil
	}
	ev.Offsets = make(record.Offsets, len(tps))
	for _, tp := range tps {
		offset, ok := to.offsets[tp]
		if !ok || offset < 0 {
			return fmt.Errorf("%w: %s-%d", ErrInvalidOffset, tp.Topic, tp.Partition)
		}
		ev.Offsets[tp] = bounds[tp].Clamp(offset)
	}
	return nil
}

// errOf returns why one of the partitions is not known.
func errOf(tps []record.TopicPartition, b bounds) error {
	for _, tp := range tps {
		if err := b.why(tp); err != nil {
			return err
		}
	}
	return nil
}
