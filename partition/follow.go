package partition

import (
	"errors"
	"fmt"

	"github.com/stratalog/strata/internal/progress"
	"github.com/stratalog/strata/log"
	"github.com/stratalog/strata/record"
)

// A Copy has the batches that a follower received from its leader.
type Copy struct {
	Epoch  int32 // the leader epoch of the response
	Offset int64 // the requested offset: the end of the follower's log
	// Batches has whole batches from Offset on. They are stored unchanged, and borrowed until Done.
	Batches []byte
	// HighWatermark and LogStart are the leader's at the time of the response.
	HighWatermark, LogStart int64
	// Done is called once, without locks, when the batches are as safe as the sync policy promises.
	// It must not block.
	Done func(error)

	appends  []log.Append
	requests []ProduceRequest
	run      []*log.Append
	admitted int   // of run; under mu, like the rest
	broken   bool  // an admitted append was not written
	open     int   // number of appends that are not done yet
	err      error // of the first append that failed
}

// Follow makes this replica a follower in the given leader epoch. The epoch must not be below one
// in which the replica has led or followed: ErrFencedLeaderEpoch. A leadership ends as with
// BecomeFollower. If the replica led an epoch without appending a record, it removes that epoch:
// the new leader may not have it, and may have records of older epochs after its start. Follow may
// block for the disk.
func (p *Partition) Follow(epoch int32) error {
	defer p.takeRole()()
	p.mu.Lock()
	if epoch < p.epoch {
		p.mu.Unlock()
		return p.wrap("follow", fmt.Errorf("%w: %d, it is %d", ErrFencedLeaderEpoch, epoch, p.epoch))
	}
	p.epoch = epoch
	p.mu.Unlock()
	p.BecomeFollower()
	end := p.log.EndOffset()
	if latest, ok := p.log.Epochs().Latest(); ok && latest != p.log.Epochs().At(end-1) {
		return p.truncateTo(end)
	}
	return nil
}

// Position returns the part of a ReplicaFetch that describes this follower's log. The caller adds
// the broker and the leader epoch.
func (p *Partition) Position() ReplicaFetch {
	at := p.position()
	ask := ReplicaFetch{Offset: at.End, Durable: at.Durable, LogStart: p.log.StartOffset(), LastEpoch: p.log.Epochs().At(at.End - 1), Purged: p.log.Purged()}
	ask.Unseeded = p.unseeded.Load() && p.isUnseeded(0)
	return ask
}

// Converge truncates a follower's log so that it agrees with its leader's, or comes closer; the
// follower fetches again from the new end. The leader responded with d to the given request.
// Nothing is truncated if this replica leads, or follows in another epoch by now
// (ErrFencedLeaderEpoch), or if its log ends elsewhere (ErrOffsetOutOfRange). lost is the number
// of removed offsets below the high watermark; only an unclean election can make it more than 0.
// Converge blocks for the disk.
func (p *Partition) Converge(ask ReplicaFetch, d Divergence) (lost int64, err error) {
	defer p.takeRole()()
	if err := p.answers(ask); err != nil {
		return 0, p.wrap("truncate", err)
	}
	to := progress.Cut(p.lineage(), p.log.EndOffset(), d)
	lost = max(p.hw.Load()-to, 0)
	return lost, p.truncateTo(max(to, p.log.StartOffset()))
}

// StartAt empties a follower's log, which continues at offset. That is the leader's log start, if
// the leader has no record of this log any more (ErrOffsetOutOfRange) or has purged records that
// it lacks (ErrPurged). purged is the leader's Purged, and becomes this log's. The leader
// responded to the given request. Errors are those of Converge. StartAt blocks for the disk.
func (p *Partition) StartAt(ask ReplicaFetch, offset int64, purged log.Purged) error {
	defer p.takeRole()()
	if err := p.answers(ask); err != nil {
		return p.wrap("follow", err)
	}
	return p.cut(offset, func() error { return p.log.TruncateFullyFrom(offset, purged) })
}

// answers returns the reason why a leader's response to a request does not apply to this replica's
// log any more, or nil.
func (p *Partition) answers(ask ReplicaFetch) error {
	p.mu.Lock()
	err := p.followsLocked(ask.LeaderEpoch)
	p.mu.Unlock()
	if end := p.log.EndOffset(); err == nil && end != ask.Offset {
		err = fmt.Errorf("%w: an answer for %d, the log ends at %d", ErrOffsetOutOfRange, ask.Offset, end)
	}
	return err
}

// takeRole waits until no other goroutine changes the role of this replica, or truncates its log. A
// truncation belongs to the leader epoch of its request: between the check of the epoch and the
// truncation the role must not change. It is held while waiting for the disk, without any lock.
func (p *Partition) takeRole() (release func()) {
	p.role.Lock()
	return p.role.Unlock
}

// AdvanceStart moves a follower's log start to offset, the log start of its leader in the given
// epoch, at most to the end of its own log. It blocks for the disk. It returns ErrFencedLeaderEpoch
// as Converge does.
func (p *Partition) AdvanceStart(epoch int32, offset int64) error {
	defer p.takeRole()()
	p.mu.Lock()
	err := p.followsLocked(epoch)
	p.mu.Unlock()
	if err != nil {
		return p.wrap("follow", err)
	}
	if err := p.log.DeleteRecords(min(offset, p.log.EndOffset())); err != nil {
		return p.wrap("follow", err)
	}
	return nil
}

// CopyFrom appends the batches that the leader has sent. It does not block. Errors passed to
// Copy.Done: ErrOffsetOutOfRange if the batches do not begin at the end of the log;
// ErrFencedLeaderEpoch if the replica leads or follows another leader by now; ErrCorrupt if the
// batches are damaged; and errors of the log. After an error, some batches before the failed one
// may be appended.
func (p *Partition) CopyFrom(c *Copy) {
	err := p.prepareCopy(c)
	if err == nil && len(c.run) > 0 {
		p.log.SubmitRun(c.run)
		return
	}
	if err == nil {
		p.followTo(c)
	}
	c.Done(err)
}

// prepareCopy splits the batches up and checks them. Sizes, times and keys are the leader's
// responsibility: a follower must not reject batches that the leader has accepted.
func (p *Partition) prepareCopy(c *Copy) error {
	p.mu.Lock()
	err := p.followsLocked(c.Epoch)
	p.mu.Unlock()
	if err != nil {
		return p.wrap("copy", err)
	}
	n, err := countBatches(c.Batches)
	if err != nil {
		return p.wrap("copy", err)
	}
	c.appends, c.requests, c.run = make([]log.Append, n), make([]ProduceRequest, n), make([]*log.Append, n)
	c.open = n
	rest := c.Batches
	for i := range n {
		b, size, err := record.Parse(rest)
		if err != nil {
			return p.wrap("copy", err)
		}
		a, req := &c.appends[i], &c.requests[i]
		req.copy = c
		*a = log.Append{Batch: rest[:size:size], Info: *b, KeepOffsets: true, User: req, Done: p.copied}
		if b.IsControl() {
			if m, ok, err := readMarker(&a.Info); err != nil {
				return p.wrap("copy", err)
			} else if ok {
				req.marker = &m
			}
		}
		c.run[i], rest = a, rest[size:]
	}
	return nil
}

// countBatches returns how many batches p holds.
func countBatches(p []byte) (n int, err error) {
	for len(p) > 0 {
		b, err := record.ParseUnverified(p)
		if err != nil {
			return 0, err
		}
		if b.Size() > len(p) {
			return 0, fmt.Errorf("%w: %w", ErrCorrupt, errSplit)
		}
		p = p[b.Size():]
		n++
	}
	return n, nil
}

// admitCopy decides about a batch from the leader whose turn has come: all before it in its run
// must have been admitted, or a hole would be left.
func (p *Partition) admitCopy(req *ProduceRequest, a *log.Append) error {
	c := req.copy
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.followsLocked(c.Epoch); err != nil {
		return err
	}
	switch {
	case c.broken || c.run[c.admitted] != a:
		return errors.New("a batch before it was not appended")
	case c.admitted == 0 && c.Offset != p.log.EndOffset():
		return fmt.Errorf("%w: batches behind %d, the log ends at %d", ErrOffsetOutOfRange, c.Offset, p.log.EndOffset())
	}
	c.admitted++
	return nil
}

// followsLocked returns why this replica takes nothing from the leader of an epoch.
func (p *Partition) followsLocked(epoch int32) error {
	if p.leaderEpoch.Load() >= 0 || epoch != p.epoch {
		return fmt.Errorf("%w: %d, it is %d", ErrFencedLeaderEpoch, epoch, p.epoch)
	}
	return nil
}

// onCopied is the log's word on a batch from the leader.
func (p *Partition) onCopied(a *log.Append) {
	c := a.User.(*ProduceRequest).copy
	p.mu.Lock()
	if a.Err != nil && c.err == nil {
		c.err = p.wrap("copy", a.Err)
	}
	c.open--
	last, err := c.open == 0, c.err
	p.mu.Unlock()
	if !last {
		return
	}
	p.met(err)
	if err == nil {
		p.followTo(c)
	}
	c.Done(err)
}

// followTo moves a follower's high watermark with its leader's, up to the records that the leader
// has as well. The log may end behind them: an append of this replica's own leadership that was
// admitted before is written after the request.
func (p *Partition) followTo(c *Copy) {
	end := c.Offset
	if n := len(c.run); n > 0 {
		end = c.run[n-1].LastOffset + 1
	}
	p.mu.Lock()
	var d due
	if p.leaderEpoch.Load() < 0 && c.Epoch == p.epoch {
		d = p.advanceLocked(min(c.HighWatermark, end, p.safeEnd()))
	}
	p.mu.Unlock()
	d.run()
	p.publish()
}
