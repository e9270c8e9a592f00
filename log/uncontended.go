package log

import (
	"github.com/stratalog/strata/internal/segment"
	"github.com/stratalog/strata/record"
)

// appendUncontended writes a batch p of the log's own in one function, if there is no other writer
// and only a write is needed: no sync, no owner, no new segment. b has p's size and largest
// timestamp. If done is false nothing was done, and p has to be submitted in the usual way.
//
// Skips round bookkeeping: beside a write of 100 bytes the number of calls and returns counts. 1.0
// against 0.7 of the limit's rate (docs/explanation/append-rounds.md).
func (l *Log) appendUncontended(p []byte, records int64, b segment.BatchInfo) (first int64, done bool, err error) {
	cfg := l.cfg.Load()
	if cfg.Sync == SyncOnAck || cfg.Owner != nil || int64(len(p)) > min(int64(cfg.MaxBatchBytes), cfg.SegmentBytes) {
		return 0, false, nil
	}
	t := &l.token
	t.mu.Lock()
	if t.held || l.durability.failure.Load() != nil || l.closing.Load() {
		t.mu.Unlock()
		return 0, false, nil
	}
	t.held = true
	t.mu.Unlock()
	w := &t.writer

	list := *l.segments.current.Load()
	active := list[len(list)-1]
	first = l.segments.end.Load()
	b.BaseOffset, b.LastOffset = first, first+records-1
	simple := cfg == l.cfg.Load() && w.marked && !w.cutPending && !l.epochs.unsure.Load() && first < maxEnd-records && first == active.NextOffset()
	if simple {
		roll, err := w.mustRoll(cfg, active, active.Size(), &b)
		simple = err == nil && !roll
	}
	if !simple {
		w.release()
		return 0, false, nil
	}
	record.SetBaseOffset(p, first)
	record.SetLeaderEpoch(p, w.epoch)
	if err = active.AppendOne(p, &b); err != nil {
		w.countCut() // as in writeAdmitted
		err = w.writeFailed(active, err)
		w.release()
		return 0, true, err
	}
	if l.tail.inUse() {
		l.tail.push(l.dir.tails, first, p, []segment.BatchInfo{b})
	}
	l.segments.end.Store(first + records)
	if cfg.Sync != SyncNever {
		w.armSync(cfg)
	}
	if l.followers.count.Load() != 0 {
		l.wake()
	}

	t.mu.Lock()
	t.counted.records += records
	t.counted.bytes += int64(len(p))
	t.counted.appends++
	t.counted.rounds++
	t.held = len(t.waiting) > 0 || t.appends.head != nil
	more := t.held
	t.mu.Unlock()
	if more {
		w.leadNext(1)
	}
	return first, true, nil
}
