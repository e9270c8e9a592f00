package partition

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"
)

// historyBytes is about how much of the log before the newest snapshot is searched for older
// batches of its producers.
const historyBytes = 8 << 20

// readHistory completes the windows of the producers that came from a snapshot. A snapshot has only
// the last batch of each producer; the four before, which a client may be about to repeat, are in
// the log. Kafka drops them.
//
// It is called when a batch is out of order, as a repeated one seems to be, and reads at most once
// after each open. An open of many partitions would otherwise read the end of every log for
// producers that may never return. It runs on the goroutine that leads the round and that alone
// changes p.state, so that the state is the same before and after it. It returns false if there is
// nothing to read, or if the log is damaged, which does not change. After any other error the next
// call reads again.
func (p *Partition) readHistory() (bool, error) {
	p.mu.Lock()
	s := p.state
	upTo := s.unread
	p.mu.Unlock()
	if upTo == 0 {
		return false, nil
	}
	older := p.newState()
	err := p.replay(older, p.historyStart(upTo, historyBytes), upTo, time.Now().UnixMilli(), nil)
	p.met(err)
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil {
		p.logger.Warn("older batches of producers could not be read", slog.String("topic", p.tp.Topic),
			slog.Int("partition", int(p.tp.Partition)), slog.Int64("offset", upTo), slog.Any("err", err))
		if errors.Is(err, ErrCorrupt) {
			return false, nil
		}
		return false, fmt.Errorf("read older batches of producers: %w", err)
	}
	s.unread = 0
	s.adopt(older)
	return true, nil
}

// historyStart returns an offset about budget bytes before the given one.
func (p *Partition) historyStart(before, budget int64) int64 {
	from := before
	for _, s := range slices.Backward(p.log.Segments()) {
		if s.BaseOffset >= before || s.Size == 0 {
			continue
		}
		next := min(s.NextOffset, before)
		if s.Size > budget { // assume batches of even size
			span := float64(s.NextOffset-s.BaseOffset) * float64(budget) / float64(s.Size)
			return max(next-int64(span), s.BaseOffset)
		}
		from, budget = s.BaseOffset, budget-s.Size
	}
	return from
}
