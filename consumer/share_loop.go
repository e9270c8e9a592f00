package consumer

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/stratalog/strata/internal/retriable"
	"github.com/stratalog/strata/share"
)

// Records yields records for this member until ctx is done, without an error, or Close is called.
//
// Unless Config.Explicit is set, a record is accepted when the loop requests the next one; the
// record at which the loop ends is released. The acceptance is durable soon afterwards, at the
// latest when the loop has ended. An error of Poll, or of an acceptance, is yielded with a zero
// record, and the loop may continue. A final error of Poll ends the loop: see Retriable.
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
				if !yield(ShareRecord{}, err) || retriable.Final(err) {
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
			_ = l.s.acknowledge(ctx, share.Release, l.left) // other members may hold some of them
			l.left = nil
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

// accept accepts the record that the body has processed, without waiting for the disk, unless the
// application has acknowledged it or Config.Explicit is set.
func (l *shareLoop) accept(ctx context.Context) error {
	recs := l.current
	l.current = nil
	if l.s.cfg.Explicit {
		return nil
	}
	if recs = l.s.unacked(recs); len(recs) == 0 {
		return nil
	}
	r := recs[0]
	l.s.mu.Lock()
	delete(l.s.given, shareOffset{r.tp, r.Offset})
	l.s.mu.Unlock()
	wait, err := l.s.m.Acknowledge(ctx, r.tp, []share.Ack{{First: r.Offset, Last: r.Offset, Types: []share.AckType{share.Accept}}})
	switch {
	case err == nil:
		l.unstored = append(l.unstored, wait)
	case ctx.Err() != nil:
		l.done = append(l.done, recs...)
		return nil
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
