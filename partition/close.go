package partition

import (
	"errors"

	"github.com/stratalog/strata/log"
)

// Close refuses new calls with ErrClosed and wakes who waits for records, lets the appends under
// way end as they would have, writes a snapshot of the producer state and closes the log. What is
// not acknowledged by then fails with ErrClosed, or ErrNotLeaderAfterAppend after Resign. It may be
// called repeatedly and concurrently; every call returns when all is done, with the same error.
func (p *Partition) Close() error { return p.shut(p.log.Close) }

// Remove closes the partition and deletes its directory. After or during a Close it removes nothing
// and returns ErrClosed.
func (p *Partition) Remove() error {
	err := p.shut(p.log.Remove)
	// it was Close that closed the log
	if again := p.log.Remove(); errors.Is(again, log.ErrClosed) {
		return p.wrap("remove", again)
	}
	return err
}

func (p *Partition) shut(end func() error) error {
	e := &ending{done: make(chan struct{})}
	if !p.ending.CompareAndSwap(nil, e) {
		e = p.ending.Load()
		<-e.done
		return e.err
	}
	p.closing.Store(true)
	p.mu.Lock()
	p.closed = true
	d := due{watches: p.allWatchesLocked()}
	waiting := p.state.takeWaiting()
	p.mu.Unlock()
	d.run()
	releaseGuards(waiting, p.notLeading())

	e.err = end() // completes all appends: the high watermark still moves

	p.mu.Lock()
	p.leaderEpoch.Store(-1)
	p.lowMovedLocked()
	p.leading = leading{}
	cause := ErrClosed
	if p.resigned.Load() {
		cause = ErrNotLeaderAfterAppend
	}
	d = p.releaseLocked(cause)
	p.timeouts.Stop()
	p.mu.Unlock()
	d.run()
	p.timeouts.Wait()
	close(e.done)
	return e.err
}
