package explore

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/stratalog/strata/log"
	"github.com/stratalog/strata/record"
)

// deleteRecords deletes args.part percent of the log.
func (w *world) deleteRecords(m *member, args Args) error {
	l := m.log.Load()
	before := l.StartOffset()
	before += (l.EndOffset() - before) * args.Int("part") / 100
	w.add(fact{kind: deleting, log: m.index, offset: before})
	err := l.DeleteRecords(before)
	if err == nil {
		w.add(fact{kind: deleted, log: m.index, offset: before})
	}
	if errors.Is(err, log.ErrOffsetOutOfRange) && w.overlap.Load() != 0 {
		err = nil // a truncation took place at the same time
	}
	return w.failed(m, err)
}

// clean applies retention, and compacts.
func (w *world) clean(m *member, args Args) error {
	l := m.log.Load()
	facts := w.known()
	e := expect(facts, len(facts), m.index, 0, true)
	m.mu.Lock()
	cfg := m.cfg
	m.mu.Unlock()
	w.add(fact{kind: cleaning, log: m.index, offset: w.youngest(m, e), shadows: cfg.Cleanup.Compacts() && args.Int("retain") == 0})
	var err error
	if args.Int("retain") > 0 {
		_, err = l.Retain(context.Background())
	} else {
		_, err = l.Clean(context.Background())
	}
	if err == nil && w.overlap.Load() == 0 {
		w.add(fact{kind: cleaned, log: m.index, offset: l.StartOffset()})
	} else {
		w.add(fact{kind: cleanFailed, log: m.index})
	}
	return w.failed(m, err)
}

// truncate cuts args.n records off the end.
func (w *world) truncate(m *member, args Args) error {
	l := m.log.Load()
	start, end := l.StartOffset(), l.EndOffset()
	to := max(start, end-args.Int("n"))
	w.add(fact{kind: truncating, log: m.index, offset: to})
	err := l.TruncateTo(to)
	w.cutEnded(m, end, err)
	if now := l.EndOffset(); err == nil && now > to && w.overlap.Load() == 0 {
		return fmt.Errorf("truncated to %d, the log ends at %d", to, now)
	}
	return w.failed(m, err)
}

// cutEnded notes the result of a truncation of a log that ended at end.
func (w *world) cutEnded(m *member, end int64, err error) {
	l := m.log.Load()
	switch now := l.EndOffset(); {
	case err == nil && now == l.StartOffset():
		w.add(fact{kind: restarted, log: m.index, offset: now})
	case err == nil:
		w.add(fact{kind: truncated, log: m.index, offset: now})
	case l.Err() == nil && now == end:
		w.add(fact{kind: unchanged, log: m.index})
	}
}

// restart removes all records; the log then begins args.n above its former end.
func (w *world) restart(m *member, args Args) error {
	l := m.log.Load()
	start := l.EndOffset() + args.Int("n")
	w.add(fact{kind: restarting, log: m.index, offset: start})
	err := l.TruncateFully(start)
	if err == nil {
		w.add(fact{kind: restarted, log: m.index, offset: start})
	}
	return w.failed(m, err)
}

// removeLog removes the log and creates it again.
func (w *world) removeLog(m *member, _ Args) error {
	w.add(fact{kind: removing, log: m.index})
	err := m.log.Load().Remove()
	m.log.Store(nil)
	if err != nil {
		m.half = true
		return w.injected(err)
	}
	w.add(fact{kind: removed, log: m.index})
	return w.open(m)
}

// odd makes a call that no log can carry out. It must return a typed error and change nothing.
func (w *world) odd(m *member, args Args) error {
	l := m.log.Load()
	if l.Err() != nil {
		return nil
	}
	calls := []struct {
		name string
		do   func() error
	}{
		{"TruncateTo(-1)", func() error { return l.TruncateTo(-1) }},
		{"TruncateFully(-1)", func() error { return l.TruncateFully(-1) }},
		{"TruncateFully(MaxInt64)", func() error { return l.TruncateFully(math.MaxInt64) }},
		{"DeleteRecords(end+1)", func() error { return l.DeleteRecords(l.EndOffset() + 1) }},
		{"append at MaxInt64", func() error { return appendAt(l, math.MaxInt64) }},
		{"append at -1", func() error { return appendAt(l, -1) }},
	}
	c := calls[int(args.Int("call"))%len(calls)]
	start, end := l.StartOffset(), l.EndOffset()
	err := c.do()
	if !errors.Is(err, log.ErrOffsetOutOfRange) && !errors.Is(err, log.ErrInvalidBatch) {
		return fmt.Errorf("%s returned %w", c.name, errors.Join(err, errors.New("not ErrOffsetOutOfRange")))
	}
	if l.StartOffset() != start || l.EndOffset() != end {
		return fmt.Errorf("%s changed [%d,%d) to [%d,%d)", c.name, start, end, l.StartOffset(), l.EndOffset())
	}
	return w.check(m)
}

// appendAt appends a batch at a given offset, as a follower does.
func appendAt(l *log.Log, offset int64) error {
	batch, err := batchOf([]rec{{0, 0}})
	if err != nil {
		return err
	}
	record.SetBaseOffset(batch, offset)
	done := make(chan error, 1)
	l.Submit(&log.Append{Batch: batch, KeepOffsets: true, LeaderEpoch: -1, Done: func(a *log.Append) { done <- a.Err }})
	return <-done
}
