package log

import (
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/segment"
)

// appendAlone is the short way of a batch p of the log's own that meets nobody and needs nothing but to be written: no sync, no owner, no new
// segment. b has its size and largest timestamp. If it is not that simple done is false: then nothing was done, and p goes the way of all others.
//
// What a small append costs beside the system call is what this function and those it calls take. After a system call the processor has forgotten
// where branches go, so that calls and returns count more than instructions: hence few of them, and no round.
func (l *Log) appendAlone(p []byte, records int64, b segment.BatchInfo) (first int64, done bool, err error) {
	cfg := l.cfg.Load()
	if cfg.Sync == SyncOnAck || cfg.Owner != nil || len(p) > cfg.MaxBatchBytes {
		return 0, false, nil
	}
	l.mu.Lock()
	if l.busy || l.broken != nil || l.closing.Load() {
		l.mu.Unlock()
		return 0, false, nil
	}
	l.busy = true
	l.mu.Unlock()

	list := *l.segments.Load()
	active := list[len(list)-1]
	first = l.end.Load()
	b.BaseOffset, b.LastOffset = first, first+records-1
	simple := cfg == l.cfg.Load() && l.marked && !l.epochs.unsure.Load()
	if simple {
		roll, err := l.mustRoll(cfg, active, active.Size(), &b)
		simple = err == nil && !roll
	}
	if !simple {
		l.giveTurn()
		return 0, false, nil
	}
	record.SetBaseOffset(p, first)
	record.SetLeaderEpoch(p, l.epoch)
	if err = active.AppendOne(p, &b); err != nil {
		err = l.writeFailed(active, err)
		l.giveTurn()
		return 0, true, err
	}
	if l.tail.inUse() {
		l.tail.push(l.dir.tails, first, p, []segment.BatchInfo{b})
	}
	l.end.Store(first + records)
	if cfg.Sync != SyncNever {
		l.armSync(cfg)
	}
	if l.waiters.Load() != 0 {
		l.wake()
	}

	l.mu.Lock()
	l.counted.records += records
	l.counted.bytes += int64(len(p))
	l.counted.appends++
	l.counted.rounds++
	l.busy = len(l.turns) > 0 || l.queue.head != nil
	more := l.busy
	l.mu.Unlock()
	if more {
		l.leadOn(1)
	}
	return first, true, nil
}
