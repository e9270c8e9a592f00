package consumer

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/stratalog/strata/share"
)

// Records yields records for this member until ctx is done, without an error, or Close is called.
//
// Unless Config.Explicit is set, a record is accepted when the loop requests the next one; the
// record at which the loop ends is released. The acceptance is durable soon afterwards, at the
// latest when the loop has ended. An error of Poll, or of an acceptance, is yielded with a zero
// record, and the loop may continue.
//
// The loop acquires records ahead: at most ShareConfig.MaxRecords, and at most about one second of
// work. The delivery of a record begins when it is yielded: its lock then lasts for a whole
// share.Config.LockDuration. A record that another member holds by then is skipped. Records that
// were not yielded are released when the loop ends, and when its body takes longer than expected;
// these do not count as delivered.
func (s *Share) Records(ctx context.Context) iter.Seq2[ShareRecord, error] {
	return func(yield func(ShareRecord, error) bool) {
		l := &shareLoop{s: s, goroutine: goroutineID(), ended: make(chan struct{}), limit: 1}
		s.mu.Lock()
		s.loop = l
		s.mu.Unlock()
		defer l.end()
		for {
			recs, err := s.take(ctx, l.limit)
			switch {
			case err != nil && ctx.Err() != nil, errors.Is(err, ErrClosed):
				return
			case err != nil:
				if !yield(ShareRecord{}, err) {
					return
				}
			}
			if !l.work(ctx, recs, yield) {
				return
			}
		}
	}
}

// aheadTime is about the time that a loop needs for the records it has locked ahead, and so bounds
// the time for which idle workers cannot get them.
const aheadTime = time.Second

// A shareLoop is a running Records. Its fields belong to the goroutine of the loop, except ended.
type shareLoop struct {
	s         *Share
	goroutine int64
	ended     chan struct{} // closed when the loop has ended

	limit    int           // limit of records acquired ahead
	current  []ShareRecord // record that the body works on; at most one
	left     []ShareRecord // acquired ahead, not begun
	done     []ShareRecord // to be accepted by end: the context had ended
	unstored []stored      // acceptances that may not be durable yet
}

// stored waits until an acknowledgement is durable.
type stored func(context.Context) error

// work calls the loop's body for records that were acquired ahead. It reports whether the loop
// continues.
func (l *shareLoop) work(ctx context.Context, recs []ShareRecord, yield func(ShareRecord, error) bool) bool {
	before := len(l.unstored)
	began := time.Now()
	l.left = recs
	for i := 0; len(l.left) > 0; i++ {
		if ctx.Err() != nil || l.s.ctx.Err() != nil {
			return false
		}
		if i > 0 && time.Since(began) > aheadTime {
			l.limit = i
			l.release(ctx)
			break
		}
		l.current, _ = l.s.begin(ctx, l.left[:1:1]) // the next take returns the cause of an error
		l.left = l.left[1:]
		if len(l.current) == 0 {
			continue
		}
		if !yield(l.current[0], nil) {
			return false
		}
		if err := l.accept(ctx); err != nil && l.s.ctx.Err() == nil && !yield(ShareRecord{}, err) {
			return false
		}
	}
	if len(recs) == l.limit && time.Since(began) < aheadTime/2 {
		l.limit = min(2*l.limit, l.s.cfg.MaxRecords)
	} else {
		before = len(l.unstored) // there is time to wait for the disk
	}
	err := l.wait(ctx, before)
	return err == nil || yield(ShareRecord{}, err)
}

// accept accepts the record that the body has processed, unless the application has acknowledged it
// or Config.Explicit is set.
func (l *shareLoop) accept(ctx context.Context) error {
	recs := l.current
	l.current = nil
	if l.s.cfg.Explicit {
		return nil
	}
	if recs = l.s.unacked(recs); len(recs) == 0 {
		return nil
	}
	err := l.submit(ctx, share.Accept, recs[0], recs[0].Offset)
	if err != nil && ctx.Err() != nil {
		l.done = append(l.done, recs...)
		return nil
	}
	return err
}

// release releases the records acquired ahead.
func (l *shareLoop) release(ctx context.Context) {
	for len(l.left) > 0 {
		n := 1
		for n < len(l.left) && l.left[n].Offset == l.left[n-1].Offset+1 {
			n++
		}
		if err := l.submit(ctx, share.Release, l.left[0], l.left[n-1].Offset); err != nil {
			_ = l.s.acknowledge(ctx, share.Release, l.left) // other members may hold some of them
			l.left = nil
			return
		}
		l.left = l.left[n:]
	}
}

// submit acknowledges the records from r to the one at offset last, without waiting for the disk.
func (l *shareLoop) submit(ctx context.Context, t share.AckType, r ShareRecord, last int64) error {
	s := l.s
	s.mu.Lock()
	delete(s.given, shareOffset{r.tp, r.Offset})
	s.mu.Unlock()
	wait, err := s.c.Submit(ctx, s.cfg.Group, s.cfg.MemberID, r.tp, []share.Ack{{First: r.Offset, Last: last, Types: []share.AckType{t}}})
	if err == nil {
		l.unstored = append(l.unstored, wait)
	}
	return err
}

// wait waits until the first n acknowledgements are durable. Those not durable when ctx is done are
// left to end.
func (l *shareLoop) wait(ctx context.Context, n int) error {
	var errs []error
	for ; n > 0; n-- {
		err := l.unstored[0](ctx)
		if err != nil && ctx.Err() != nil {
			break
		}
		errs = append(errs, err)
		l.unstored = l.unstored[1:]
	}
	return errors.Join(errs...)
}

// end releases the records that the loop has not processed, and waits, at most for
// shareCloseTimeout, until that is durable. Locks of the remaining records time out.
func (l *shareLoop) end() {
	s := l.s
	ctx, cancel := context.WithTimeout(context.Background(), shareCloseTimeout)
	defer cancel()
	if !s.cfg.Explicit {
		l.left = append(s.unacked(l.current), l.left...)
	}
	_ = s.acknowledge(ctx, share.Accept, l.done)
	_ = s.acknowledge(ctx, share.Release, l.left)
	_ = l.wait(ctx, len(l.unstored))
	s.mu.Lock()
	if s.loop == l {
		s.loop = nil
	}
	s.mu.Unlock()
	close(l.ended)
}
