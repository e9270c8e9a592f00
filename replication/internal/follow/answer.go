package follow

import (
	"errors"
	"time"

	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/record"
)

// answer is a leader's response to a fetch request.
type answer struct {
	p   *Place
	ask partition.ReplicaFetch
	buf *buffer
	got partition.ReplicaRead
	err error

	heldUntil time.Time // zero if no batches were left out
}

func (p *Place) read(ask partition.ReplicaFetch) answer {
	a := answer{p: p, ask: ask, buf: getBuffer()}
	ask.Buf = a.buf.data[:0]
	p.told = told(ask)
	a.got, a.err = p.Source.Read(ask)
	if held, ok := errors.AsType[*HeldBack](a.err); ok {
		a.err, a.heldUntil = nil, held.Until
	}
	return a
}

// apply processes the leader's response.
func (f *Fetcher) apply(a *answer) {
	p := a.p
	if a.err != nil {
		a.buf.put()
		f.refused(a)
		return
	}
	if a.got.Diverging != nil {
		a.buf.put()
		f.done(p, outcome{err: p.Target.Converge(a.ask, *a.got.Diverging), again: true})
		return
	}
	if err := p.align(a); err != nil {
		a.buf.put()
		f.done(p, outcome{err: err})
		return
	}
	size := len(a.got.Bytes)
	// the leader has to get the new log start
	moved := p.leaderStart > a.ask.LogStart
	if size == 0 && a.got.HighWatermark <= p.hw {
		a.buf.put()
		f.done(p, outcome{again: moved, heldUntil: a.heldUntil})
		return
	}
	if size > 0 {
		a.buf.data = a.got.Bytes
	}
	f.mu.Lock()
	f.inFlight += size
	f.mu.Unlock()
	hw, buf, held := a.got.HighWatermark, a.buf, a.heldUntil
	p.Target.CopyFrom(&partition.Copy{
		Epoch: p.Epoch, Offset: a.ask.Offset, Batches: a.got.Bytes, HighWatermark: hw, LogStart: a.got.LogStart,
		Done: func(err error) {
			buf.put()
			if err == nil {
				p.hw = hw
			}
			f.done(p, outcome{err: err, again: size > 0 || moved, heldUntil: held, bytes: size})
		},
	})
}

// align moves the log start to the leader's. The leader's may be in the middle of a batch. An
// empty log then begins with that batch, and with the producer state that the leader sent for it.
func (p *Place) align(a *answer) error {
	if a.got.LogStart > p.leaderStart {
		if err := p.Target.AdvanceStart(p.Epoch, a.got.LogStart); err != nil {
			return err
		}
		p.leaderStart = a.got.LogStart
	}
	offset := a.ask.Offset
	if len(a.got.Bytes) > 0 {
		first, err := record.ParseUnverified(a.got.Bytes)
		if err != nil {
			return err
		}
		offset = min(offset, first.BaseOffset)
	}
	switch {
	case a.got.Producers != nil:
		if err := p.Target.Seed(a.ask, offset, a.got.Producers); err != nil {
			return err
		}
	// the log begins in the middle of a batch: start again
	case offset < a.ask.Offset:
		return errors.Join(errBegunElsewhere, p.Target.StartAt(a.ask, a.ask.Offset, a.ask.Purged))
	}
	if offset < a.ask.Offset {
		a.ask.Offset, p.leaderStart, p.startDue = offset, 0, a.got.LogStart
	}
	return nil
}

var errBegunElsewhere = errors.New("follow: the log does not begin where a batch of the leader's does")

// refused handles an error of the leader's Read.
func (f *Fetcher) refused(a *answer) {
	p := a.p
	if errors.Is(a.err, partition.ErrPurged) || errors.Is(a.err, partition.ErrOffsetOutOfRange) && a.ask.Offset < a.got.LogStart {
		f.done(p, outcome{err: p.Target.StartAt(a.ask, a.got.LogStart, a.got.Purged), again: true})
		return
	}
	f.done(p, outcome{err: a.err, awaits: awaitsLeader(a.err)})
}

// awaitsLeader reports whether the leader wakes the follower when the cause of err has ended.
func awaitsLeader(err error) bool {
	for _, e := range []error{ErrNotReady, partition.ErrNotLeader, partition.ErrFencedLeaderEpoch, partition.ErrUnknownLeaderEpoch, partition.ErrClosed} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}
