package partition

import (
	"errors"
	"slices"
	"time"

	"github.com/stratalog/strata/log"
)

// owner is a Partition as its log uses it. Admit, Written and Refused are called by the goroutine
// that leads a round of appends, one at a time.
type owner Partition

// Admit decides about an append whose turn has come.
func (o *owner) Admit(a *log.Append) error {
	p := (*Partition)(o)
	req := a.User.(*ProduceRequest)
	if p.unchecked.Load() > 0 {
		if err := p.checkSnapshot(); err != nil && a.Info.HasProducerID() { // a repeated batch would not be noticed
			req.refused = true
			return err
		}
	}
	if req.copy != nil {
		return p.admitCopy(req, a)
	}
	// The leadership may end after this check, and the batch is written all the same. p.mu would not
	// help, since it is not held until then. That is harmless:
	//   - The batch is not acknowledged: acknowledged reads the epoch again, and no epoch returns.
	//   - It is not behind a later epoch: Lead begins its epoch in the log first, and the log rejects
	//     batches of earlier epochs from then on (see fail).
	//   - Truncations wait until this round of appends ends. Batches of the next leader are
	//     rejected if they do not fit behind this one. Until the follower's next fetch truncates it,
	//     this one is above the high watermark (see followTo).
	var err error
	if epoch := p.leaderEpoch.Load(); epoch < 0 || a.LeaderEpoch != epoch {
		err = p.notLeading()
	} else if a.Info.HasProducerID() {
		err = p.admit(req, a)
		if errors.Is(err, ErrOutOfOrderSequence) {
			switch found, failed := p.readHistory(); {
			case failed != nil: // it is unknown whether the batch is a duplicate
				err = failed
			case found:
				err = p.admit(req, a)
			}
		}
	}
	req.refused = err != nil
	return err
}

// admit decides by the state of the producer.
func (p *Partition) admit(req *ProduceRequest, a *log.Append) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if req.marker != nil {
		if err := p.state.checkMarker(&p.round, *req.marker); err != nil {
			return err
		}
		p.inRound++
		return nil
	}
	if req.Coordinator {
		if err := p.state.checkCoordinated(&p.round, &a.Info); err != nil {
			return err
		}
		p.inRound++
		return nil
	}
	dup, err := p.state.check(&p.round, &a.Info, req.guard)
	switch err {
	case nil:
		p.inRound++
	case errDuplicate:
		p.stats.duplicates.Add(1)
		req.lastOffset, req.written = dup.lastOffset, true
		req.result.Duplicate, req.result.BaseOffset, req.result.LogAppendTimeMs = true, dup.baseOffset(), dup.timestamp
		req.result.LogStartOffset = p.log.StartOffset()
	}
	return err
}

// Written applies the appends that are in the file now.
func (o *owner) Written(as []*log.Append) {
	p := (*Partition)(o)
	p.disk.writes.Worked()
	now, start := time.Now().UnixMilli(), p.log.StartOffset()
	p.mu.Lock()
	for _, a := range as {
		req := a.User.(*ProduceRequest)
		req.lastOffset, req.written = a.LastOffset, true
		req.result.BaseOffset, req.result.LogStartOffset = a.BaseOffset, start
		p.growth.add(a.LastOffset+1, len(a.Batch))
		if a.Info.HasProducerID() {
			p.takeLocked(req, a, now)
			if req.copy == nil {
				p.inRound--
			}
		}
	}
	if p.inRound == 0 {
		p.round.reset()
	}
	var d due
	wake := p.wake
	if p.progress != nil { // a follower's high watermark moves with its leader's
		p.progress.Moved(p.position())
		d = p.advanceLocked(p.progress.HighWatermark())
	}
	if hw := p.hw.Load(); as[len(as)-1].LastOffset >= hw {
		for _, a := range as {
			if a.LastOffset >= hw {
				p.expireLocked(a.User.(*ProduceRequest))
			}
		}
	}
	p.mu.Unlock()
	d.run()
	p.publish()
	if wake != nil {
		wake()
	}
}

// takeLocked brings the producer state up to a written append.
func (p *Partition) takeLocked(req *ProduceRequest, a *log.Append, now int64) {
	switch {
	case req.marker == nil && a.Info.IsControl():
		p.state.fence(&a.Info, now)
		return
	case req.marker == nil:
		p.state.apply(&a.Info, a.BaseOffset, now)
		return
	}
	m := *req.marker
	m.offset = a.BaseOffset
	if txn, ok := p.state.mark(m, now); ok && txn.aborted {
		p.recordAborted(txn)
	}
}

// Refused undoes the admission of appends that were not written, or that are to be admitted again.
func (o *owner) Refused(as []*log.Append, err error) {
	p := (*Partition)(o)
	p.disk.writeFailed(err)
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, a := range slices.Backward(as) { // newest first: a batch depends on the earlier ones
		if c := a.User.(*ProduceRequest).copy; c != nil {
			c.broken = true // nothing of its run comes behind a hole
		} else if a.Info.HasProducerID() {
			p.round.drop(a.Info.ProducerID)
			p.inRound--
		}
	}
	if p.inRound == 0 {
		p.round.reset()
	}
}

// Durable raises the high watermark of a leader under SyncOnAck. It may come before Open has
// returned.
func (o *owner) Durable(int64) {
	p := (*Partition)(o)
	if p.durable != nil {
		p.durable()
	}
	if !p.syncOnAck.Load() || p.leaderEpoch.Load() < 0 {
		return
	}
	p.mu.Lock()
	var d due
	was, wake := p.hw.Load(), p.wake
	var w want
	if p.progress != nil {
		// offset is below that, or belongs to a log that was cut in the meantime
		p.progress.Moved(p.position())
		d = p.advanceLocked(p.progress.HighWatermark())
		w = p.proveLocked()
	}
	moved := p.hw.Load() > was
	p.mu.Unlock()
	d.run()
	p.publish()
	if moved && wake != nil {
		// The followers had all records before, so only this wakes them to fetch the high
		// watermark.
		wake()
	}
	w.run()
}

// Snapshot returns the producer state as of offset, which is where the next append goes; nil if it
// is not known. The log has put all of the transaction index below on stable storage before.
func (o *owner) Snapshot(int64) []byte {
	p := (*Partition)(o)
	p.mu.Lock()
	defer p.mu.Unlock()
	// It could not be rebuilt, or not yet. The snapshot on the disk is better.
	if p.state == nil || p.stale {
		return nil
	}
	return p.state.appendSnapshot(nil)
}

// LastStableOffset and ProducerLast return the bounds that compaction must respect.
func (o *owner) LastStableOffset() int64 { return (*Partition)(o).LastStableOffset() }

// ProducerLast returns the last append of a known producer.
func (o *owner) ProducerLast(pid int64) (log.ProducerLast, bool) {
	p := (*Partition)(o)
	p.mu.Lock()
	defer p.mu.Unlock()
	e := p.state.m[pid]
	if e == nil {
		return log.ProducerLast{}, false
	}
	last, _ := e.last()
	return log.ProducerLast{Offset: last.lastOffset, Epoch: e.epoch}, true
}

var (
	_ log.Owner       = (*owner)(nil)
	_ log.Snapshotter = (*owner)(nil)
	_ log.Producers   = (*owner)(nil)
)
