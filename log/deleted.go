package log

import (
	"errors"
	"slices"
	"time"

	"github.com/stratalog/strata/internal/segment"
)

// A removed segment's .log file is renamed at once, so that it is not part of the log any more, and
// deleted after Config.DeleteDelay. Until then an operator who removed too much can recover the
// records. Its other files are deleted at once; they can be rebuilt. Closing the log leaves the
// waiting files where they are, as a kill does; the next open deletes them. Kafka:
// UnifiedLog.deleteSegmentFiles.

// expiring is a removed segment whose file waits to be deleted.
type expiring struct {
	segment *segment.Segment
	at      time.Time
}

// discard removes a segment that is in no list any more.
func (l *Log) discard(s *segment.Segment) error {
	err := l.removeFile(s)
	if err != nil {
		err = errors.Join(err, s.Close()) // at least no descriptor stays open
	}
	return err
}

func (l *Log) removeFile(s *segment.Segment) error {
	delay := l.cfg.Load().DeleteDelay
	if delay <= 0 {
		return s.Remove()
	}
	if err := s.RemoveLater(); err != nil {
		return err
	}
	l.segments.mu.Lock()
	l.segments.expiring = append(l.segments.expiring, expiring{s, time.Now().Add(delay)})
	l.segments.mu.Unlock()
	l.armExpiry()
	return nil
}

// armExpiry has expire called when the first of the files is to be deleted.
func (l *Log) armExpiry() {
	l.segments.mu.Lock()
	if len(l.segments.expiring) == 0 {
		l.segments.mu.Unlock()
		return
	}
	first := l.segments.expiring[0].at
	for _, e := range l.segments.expiring[1:] {
		if e.at.Before(first) { // the delay was shortened
			first = e.at
		}
	}
	l.segments.mu.Unlock()
	l.expiryAlarm.By(first)
}

// expire deletes the files whose time has come.
func (l *Log) expire() {
	present := time.Now()
	var due []*segment.Segment
	l.segments.mu.Lock()
	l.segments.expiring = slices.DeleteFunc(l.segments.expiring, func(e expiring) bool {
		if e.at.After(present) {
			return false
		}
		due = append(due, e.segment)
		return true
	})
	l.segments.mu.Unlock()
	for _, s := range due {
		if err := s.Expire(); err != nil {
			l.cfg.Load().Logger.Warn("file of a removed segment stays until the next open", "path", s.Path(), "err", err)
		}
	}
	l.armExpiry()
}
