package partition

import (
	"errors"
	"fmt"
	"log/slog"
	"time"
)

// snapshotCheckBytes is about how much of the log below a producer snapshot is compared with it.
const snapshotCheckBytes = 64 << 10

// contradiction returns why s, read from the snapshot at offset, is not the state there; "" if the
// batches below it agree. A contradiction shows a snapshot of another partition, or an earlier one
// under a later name. It returns errors of the log.
func (p *Partition) contradiction(s *producers, offset, now int64) (reason string, err error) {
	w := heldWindow{from: max(p.historyStart(offset, snapshotCheckBytes), p.log.HeldFrom()), to: offset, compacted: p.rules.Load().options.RequireKeys}
	held := p.newState()
	if err := p.replay(held, w.from, offset, now, nil); err != nil {
		return "", err
	}
	w.fresh = now - held.expiry
	return s.contradicts(held, w), nil
}

// A heldWindow has the offsets of the batches from which a state was built.
type heldWindow struct {
	from, to  int64
	compacted bool  // the log may lack batches
	fresh     int64 // ms: the state has all producers with later batches
}

// contradicts compares the state of a snapshot with held, which was built from the batches of w.
func (s *producers) contradicts(held *producers, w heldWindow) string {
	newest := int64(-1)
	for pid, e := range s.m {
		last, ok := e.last()
		newest = max(newest, last.lastOffset)
		switch {
		case last.lastOffset >= w.to:
			return fmt.Sprintf("producer %d has a batch at %d, beyond it", pid, last.lastOffset)
		case !ok || last.lastOffset < w.from || w.compacted:
			continue
		}
		if h := held.m[pid]; h == nil || h.n == 0 || h.window[h.n-1].lastOffset != last.lastOffset {
			return fmt.Sprintf("producer %d has no batch at %d, or a later one", pid, last.lastOffset)
		}
	}
	for pid, h := range held.m {
		e := s.m[pid]
		last, ok := h.last()
		switch {
		case e == nil:
			// Producers without a batch for long are dropped, but only when another one writes.
			if ok && last.lastOffset > newest && last.timestamp > w.fresh {
				return fmt.Sprintf("producer %d, which has a batch at %d, is missing", pid, last.lastOffset)
			}
		case e.epoch < h.epoch:
			return fmt.Sprintf("producer %d has epoch %d, and %d in the log", pid, e.epoch, h.epoch)
		case ok && e.epoch == h.epoch:
			if known, _ := e.last(); known.lastOffset != last.lastOffset || known.lastSeq != last.lastSeq {
				return fmt.Sprintf("producer %d has sequence %d at %d, and %d at %d in the log",
					pid, known.lastSeq, known.lastOffset, last.lastSeq, last.lastOffset)
			}
		}
	}
	return ""
}

// agrees returns an error if the log contradicts s. A log that cannot be read contradicts nothing.
func (p *Partition) agrees(s *producers, offset, now int64) error {
	if reason, err := p.contradiction(s, offset, now); err == nil && reason != "" {
		return errors.New(reason)
	}
	return nil
}

// checkSnapshot compares the snapshot at the end of the log, from which the partition was opened,
// with the log. The first append after an open calls it, on the goroutine that leads the round: an
// open reads no batches of a log that was closed in order. A state that the log contradicts is built
// again without the snapshot. After an error the next call tries again. A damaged log contradicts
// nothing.
func (p *Partition) checkSnapshot() error {
	offset, now := p.unchecked.Load(), time.Now().UnixMilli()
	p.mu.Lock()
	s := p.state // nothing was appended since
	p.mu.Unlock()
	from, doubt := int64(0), false
	reason, err := p.contradiction(s, offset, now)
	if reason != "" {
		doubt, err = true, p.dropSnapshot(offset, reason)
	}
	if doubt && err == nil {
		if s, from, err = p.loadSnapshot(offset, now); err == nil {
			err = p.replay(s, from, p.log.EndOffset(), now, nil)
		}
	}
	p.met(err)
	switch {
	case err != nil && (doubt || !errors.Is(err, ErrCorrupt)):
		return fmt.Errorf("check producer snapshot: %w", err)
	case err != nil, !doubt:
		p.unchecked.Store(0)
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	s.guards = p.state.guards
	if p.state = s; len(s.m) > 0 {
		s.unread = from
	}
	p.resume(p.hw.Load())
	p.unchecked.Store(0)
	return nil
}

// dropSnapshot removes a snapshot that is not the state of the log at its offset.
func (p *Partition) dropSnapshot(offset int64, reason any) error {
	p.logger.Warn("producer snapshot removed", slog.String("topic", p.tp.Topic), slog.Int("partition", int(p.tp.Partition)),
		slog.Int64("offset", offset), slog.Any("err", reason))
	return p.log.RemoveSnapshot(offset)
}
