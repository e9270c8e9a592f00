package consumer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/stratalog/strata/share"
)

// unacked returns the records of recs that the application has not acknowledged.
func (s *Share) unacked(recs []ShareRecord) (unacked []ShareRecord) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range recs {
		if _, ok := s.given[shareOffset{r.tp, r.Offset}]; ok {
			unacked = append(unacked, r)
		}
	}
	return unacked
}

// outstanding returns the records handed to the application that it has not acknowledged.
func (s *Share) outstanding() (all []ShareRecord) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.given {
		all = append(all, r)
	}
	return all
}

// Accept marks records as done: they are not delivered again. It returns when that is durable. The
// error matches ErrNotAcquired if this member no longer holds one of them; the others are still
// accepted. After other errors, or when ctx ends, some may be accepted.
func (s *Share) Accept(ctx context.Context, recs ...ShareRecord) error {
	return s.acknowledge(ctx, share.Accept, recs)
}

// Release returns records to the group for delivery to any member, unless this was their last
// delivery. It returns, and fails, as Accept does.
func (s *Share) Release(ctx context.Context, recs ...ShareRecord) error {
	return s.acknowledge(ctx, share.Release, recs)
}

// Reject marks records as not processable: they are not delivered again. It returns, and fails, as
// Accept does.
func (s *Share) Reject(ctx context.Context, recs ...ShareRecord) error {
	return s.acknowledge(ctx, share.Reject, recs)
}

// Renew locks records of this member for another share.Config.LockDuration from now, so that it can
// continue to process them. It fails as Accept does, and with share.ErrRenewalDisabled if the group
// does not permit renewal.
func (s *Share) Renew(ctx context.Context, recs ...ShareRecord) error {
	return s.acknowledge(ctx, share.Renew, recs)
}

// acknowledge sends the same acknowledgement for records, in ranges of their partitions.
func (s *Share) acknowledge(ctx context.Context, t share.AckType, recs []ShareRecord) error {
	recs = slices.Clone(recs)
	slices.SortFunc(recs, func(a, b ShareRecord) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition), slices.Compare(a.tp.TopicID[:], b.tp.TopicID[:]), cmp.Compare(a.Offset, b.Offset))
	})
	var errs []error
	for len(recs) > 0 {
		tp, n := recs[0].tp, 1
		if tp.Topic == "" {
			return fmt.Errorf("%w: a record that no Poll has returned", ErrNotAcquired)
		}
		acks := []share.Ack{{First: recs[0].Offset, Last: recs[0].Offset, Types: []share.AckType{t}}}
		for ; n < len(recs) && recs[n].tp == tp; n++ {
			switch last := &acks[len(acks)-1]; recs[n].Offset {
			case last.Last:
			case last.Last + 1:
				last.Last++
			default:
				acks = append(acks, share.Ack{First: recs[n].Offset, Last: recs[n].Offset, Types: []share.AckType{t}})
			}
		}
		if t != share.Renew {
			s.mu.Lock()
			for _, r := range recs[:n] {
				delete(s.given, shareOffset{tp, r.Offset})
			}
			s.mu.Unlock()
		}
		errs = append(errs, s.sendAcks(ctx, tp, acks))
		recs = recs[n:]
	}
	return errors.Join(errs...)
}

// sendAcks acknowledges ranges of a partition. If this member does not hold some of the records, it
// retries in smaller parts, so that the rest is acknowledged.
func (s *Share) sendAcks(ctx context.Context, tp share.TopicPartition, acks []share.Ack) error {
	err := s.sendAck(ctx, tp, acks)
	if !errors.Is(err, ErrNotAcquired) || errors.Is(err, share.ErrRenewalDisabled) {
		return err
	}
	if k := len(acks) / 2; k > 0 {
		return errors.Join(s.sendAcks(ctx, tp, acks[:k]), s.sendAcks(ctx, tp, acks[k:]))
	}
	a := acks[0]
	if a.First == a.Last {
		return err
	}
	middle := a.First + (a.Last-a.First)/2
	return errors.Join(s.sendAcks(ctx, tp, []share.Ack{{First: a.First, Last: middle, Types: a.Types}}), s.sendAcks(ctx, tp, []share.Ack{{First: middle + 1, Last: a.Last, Types: a.Types}}))
}

// sendAck acknowledges ranges of a partition, all or none, and waits until that is durable.
func (s *Share) sendAck(ctx context.Context, tp share.TopicPartition, acks []share.Ack) error {
	stored, err := s.m.Acknowledge(ctx, tp, acks)
	if err != nil {
		return err
	}
	return stored(ctx)
}

// shareCloseTimeout bounds the duration of Close.
const shareCloseTimeout = 10 * time.Second

// Close releases the records that this member holds, so that other members get them immediately. It
// returns when that is durable, within ten seconds; any remaining locks time out. Records of the
// last Poll that were not acknowledged are released, too.
//
// A loop of Records on another goroutine ends. Close waits for its body within the same ten
// seconds, and its current record is accepted. Called from inside that loop, Close does not wait
// for it, and the current record is released. Close is idempotent.
func (s *Share) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), shareCloseTimeout)
	defer cancel()
	s.mu.Lock()
	again, loop := s.once, s.loop
	s.once = true
	s.mu.Unlock()
	s.end()
	if again {
		return nil
	}
	if loop != nil && loop.goroutine != goroutineID() {
		select {
		case <-loop.ended:
		case <-ctx.Done():
		}
	}
	s.mu.Lock()
	clear(s.given)
	s.mu.Unlock()
	return s.leave()
}

// leave releases all records that this member holds.
func (s *Share) leave() error {
	ctx, cancel := context.WithTimeout(context.Background(), shareCloseTimeout)
	defer cancel()
	return s.m.Leave(ctx)
}
