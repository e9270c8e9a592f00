package consumer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/stratalog/strata/share"
)

// Records yields records for this member until ctx is done, without an error, or Close is called.
// Unless Config.Explicit, a record is accepted when the loop has gone on to the next one, in groups
// of what one Poll returned; the one at which the loop ends, and those of its group behind it, are
// released. An error of Poll is yielded with a zero record, and the loop may go on.
func (s *Share) Records(ctx context.Context) iter.Seq2[ShareRecord, error] {
	return func(yield func(ShareRecord, error) bool) {
		for {
			recs, err := s.Poll(ctx)
			switch {
			case err != nil && ctx.Err() != nil, errors.Is(err, ErrClosed):
				return
			case err != nil:
				if !yield(ShareRecord{}, err) {
					return
				}
			}
			for i, r := range recs {
				if ctx.Err() == nil && yield(r, nil) {
					continue
				}
				if !s.cfg.Explicit {
					s.finish(recs[:i], recs[i:])
				}
				return
			}
			if ctx.Err() != nil && !s.cfg.Explicit {
				s.finish(recs, nil)
				return
			}
		}
	}
}

// finish accepts what a loop is through with, and gives back what it has not begun or has ended at.
// What cannot be said any more is given back when its lock passes.
func (s *Share) finish(done, left []ShareRecord) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.ctx), shareCloseTimeout)
	defer cancel()
	_ = s.acknowledge(ctx, share.Accept, s.unsaid(done))
	_ = s.acknowledge(ctx, share.Release, s.unsaid(left))
}

// unsaid returns those of recs that the application has said nothing of.
func (s *Share) unsaid(recs []ShareRecord) (unsaid []ShareRecord) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range recs {
		if _, ok := s.given[shareOffset{r.tp, r.Offset}]; ok {
			unsaid = append(unsaid, r)
		}
	}
	return unsaid
}

// outstanding returns what the application was given and has said nothing of.
func (s *Share) outstanding() (all []ShareRecord) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.given {
		all = append(all, r)
	}
	return all
}

// Accept says that records are done: they are handed out to nobody any more. It returns when that
// is durable. The error matches ErrNotAcquired if one of them is not this member's any more; the
// others are accepted all the same. With other errors, or when ctx ends, some may be accepted.
func (s *Share) Accept(ctx context.Context, recs ...ShareRecord) error {
	return s.acknowledge(ctx, share.Accept, recs)
}

// Release gives records back, to be handed out to anybody, unless it was their last delivery. It
// returns, and fails, as Accept does.
func (s *Share) Release(ctx context.Context, recs ...ShareRecord) error {
	return s.acknowledge(ctx, share.Release, recs)
}

// Reject says that records are not to be handed out again, although they were not done. It returns,
// and fails, as Accept does.
func (s *Share) Reject(ctx context.Context, recs ...ShareRecord) error {
	return s.acknowledge(ctx, share.Reject, recs)
}

// Renew locks records that this member has for another share.Config.LockDuration from now: it goes
// on with them. It fails as Accept does, and with share.ErrRenewalDisabled if the group does not
// renew.
func (s *Share) Renew(ctx context.Context, recs ...ShareRecord) error {
	return s.acknowledge(ctx, share.Renew, recs)
}

// acknowledge says the same of records, in ranges of their partitions.
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
		errs = append(errs, s.say(ctx, tp, acks))
		recs = recs[n:]
	}
	return errors.Join(errs...)
}

// say acknowledges ranges of a partition. If some of it is not this member's, it is tried again in
// smaller parts, so that the rest counts.
func (s *Share) say(ctx context.Context, tp share.TopicPartition, acks []share.Ack) error {
	err := s.c.Acknowledge(ctx, s.cfg.Group, s.cfg.MemberID, tp, acks)
	if !errors.Is(err, ErrNotAcquired) || errors.Is(err, share.ErrRenewalDisabled) {
		return err
	}
	if k := len(acks) / 2; k > 0 {
		return errors.Join(s.say(ctx, tp, acks[:k]), s.say(ctx, tp, acks[k:]))
	}
	a := acks[0]
	if a.First == a.Last {
		return err
	}
	middle := a.First + (a.Last-a.First)/2
	return errors.Join(s.say(ctx, tp, []share.Ack{{First: a.First, Last: middle, Types: a.Types}}), s.say(ctx, tp, []share.Ack{{First: middle + 1, Last: a.Last, Types: a.Types}}))
}

// shareCloseTimeout bounds how long Close takes.
const shareCloseTimeout = 10 * time.Second

// Close gives back what this member has, so that others get it at once, and returns when that is
// durable, within ten seconds: what is then left is given back when its locks pass. What the last
// Poll has returned, and nothing was said of, is given back, too. It is idempotent.
func (s *Share) Close() error {
	s.mu.Lock()
	again := s.once
	s.once = true
	clear(s.given)
	s.mu.Unlock()
	s.end()
	if again {
		return nil
	}
	return s.leave()
}

// leave gives back what this member has.
func (s *Share) leave() error {
	ctx, cancel := context.WithTimeout(context.Background(), shareCloseTimeout)
	defer cancel()
	if err := s.c.Leave(ctx, s.cfg.Group, s.cfg.MemberID); err != nil && !errors.Is(err, share.ErrClosed) {
		return err
	}
	return nil
}
