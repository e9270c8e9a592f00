package coordinator

import (
	"context"
	"fmt"
	"time"

	"github.com/stratalog/strata/internal/machine"
	"github.com/stratalog/strata/record"
)

// A write is one batch on its way into the log.
type write struct {
	records  []encoded
	size     int
	replies  []parked // to send once it is committed
	told     []any    // Committed notices to send then
	events   []any    // of Observed machines, to record then
	txn      *inTxn   // nil: the records are in no transaction
	answered bool     // by the log

	committed bool // it and all earlier writes are in the log
}

type encoded struct{ key, value []byte } // value nil: a tombstone

func (r encoded) size() int { return len(r.key) + len(r.value) + recordOverhead }

// recordOverhead bounds the size of a record in a batch without key and value: five varints of at
// most 5 bytes, one of 10, attributes.
const recordOverhead = 36

type parked struct {
	call *call
	result
}

// enqueueLocked adds a step's records to the next write. They share a batch, unless they are
// Separable: those may fill several.
func (s *Shard[M, E, R]) enqueueLocked(e *entry[M, E], now time.Time, eff machine.Effects[R]) error {
	if len(eff.Records) == 0 {
		return nil
	}
	if eff.Producer != nil {
		if err := s.producers.mayWrite(*eff.Producer); err != nil {
			return err
		}
	}
	records, size := make([]encoded, 0, len(eff.Records)), 0
	for _, r := range eff.Records {
		var rec encoded
		rec.key, rec.value = s.r.kind.Encode(r)
		if eff.Separable && rec.size() > s.room() || !eff.Separable && size+rec.size() > s.room() {
			return fmt.Errorf("%w: more than %d bytes for %s", machine.ErrTooLarge, s.room(), e.id)
		}
		records = append(records, rec)
		size += rec.size()
	}
	for len(records) > 0 {
		n := len(records)
		if size > s.room() { // Separable
			for n, size = 0, 0; n < len(records) && size+records[n].size() <= s.room(); n++ {
				size += records[n].size()
			}
		}
		e.last = s.joinWriteLocked(records[:n:n], size, eff.Producer)
		records, size = records[n:], 0
		for _, r := range records {
			size += r.size()
		}
	}
	if eff.Producer != nil {
		s.producers.wrote(*eff.Producer, e.id, now)
	}
	if !eff.Lingers {
		s.startWriterLocked()
	} else if !s.writing && !s.lingering {
		s.lingering = true
		s.linger.By(now.Add(lingerTime))
	}
	return nil
}

// lingerTime is how long lingering records wait for others. Kafka:
// group.coordinator.append.linger.ms.
const lingerTime = 5 * time.Millisecond

// stopLingering starts the writer for lingering records.
func (s *Shard[M, E, R]) stopLingering() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lingering {
		s.startWriterLocked()
	}
}

// startWriterLocked starts the writer goroutine, unless it is running, for all writes.
func (s *Shard[M, E, R]) startWriterLocked() {
	if s.lingering {
		s.lingering = false
		s.linger.Disarm()
	}
	if !s.writing {
		s.writing = true
		s.r.wg.Go(s.write)
	}
}

// room returns the number of bytes for records in a batch.
func (s *Shard[M, E, R]) room() int { return s.r.cfg.MaxBatchBytes - record.HeaderSize }

// joinWriteLocked adds records to the open write if they fit and belong to the same transaction, or
// else to a new one.
func (s *Shard[M, E, R]) joinWriteLocked(records []encoded, size int, p *machine.Producer) *write {
	if n := len(s.writes); n > s.sent && s.writes[n-1].size+size <= s.room() && s.writes[n-1].txn.joins(p) {
		open := s.writes[n-1]
		open.records = append(open.records, records...)
		open.size += size
		return open
	}
	w := &write{records: records, size: size}
	if p != nil {
		w.txn = &inTxn{Producer: *p}
	}
	s.writes = append(s.writes, w)
	return w
}

// write is the writer goroutine: it passes writes to the log until there are none.
func (s *Shard[M, E, R]) write() {
	for {
		s.mu.Lock()
		if s.state != active || s.sent == len(s.writes) {
			s.writing = false
			s.mu.Unlock()
			return
		}
		w := s.writes[s.sent]
		s.sent++
		s.mu.Unlock()

		batch, err := s.encode(w)
		var l Log
		if err == nil {
			l, err = s.r.store.Log(s.partition, s.led)
		}
		if err != nil {
			s.logAnswered(w, err)
			continue
		}
		if w.txn != nil && w.txn.end != nil {
			l.AppendMarker(batch, w.txn.end.Version, func(err error) { s.logAnswered(w, err) })
			continue
		}
		l.Append(batch, func(err error) { s.logAnswered(w, err) })
	}
}

// encode is called by the writer goroutine only. Every batch of a transaction begins with sequence
// 0, as from Kafka's coordinators: only the Shard's order matters.
func (s *Shard[M, E, R]) encode(w *write) ([]byte, error) {
	now := time.Now().UnixMilli()
	s.builder.Reset(0)
	if w.txn != nil {
		if w.txn.end != nil {
			return w.txn.marker(), nil
		}
		s.builder.SetProducer(w.txn.ID, w.txn.Epoch, 0)
		s.builder.SetTransactional(true)
	}
	for _, r := range w.records {
		s.builder.AppendKV(now, r.key, r.value, nil)
	}
	w.records = nil
	return s.builder.Build(record.None)
}

// logAnswered processes the log's result of w. It sends the notices before the replies: a caller
// with a reply finds the owner notified.
func (s *Shard[M, E, R]) logAnswered(w *write, err error) {
	told, replies := s.answered(w, err)
	s.notify(told)
	for _, p := range replies {
		p.call.result <- p.result
	}
}

func (s *Shard[M, E, R]) answered(w *write, err error) (told []any, replies []parked) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w.answered = true
	s.r.counters.appends.Add(1)
	if err != nil {
		s.r.counters.failures.Add(1)
	}
	switch {
	case s.state == ended:
		return nil, nil
	case s.state != active:
		s.reloadWhenAnsweredLocked()
		return nil, nil
	case err != nil:
		s.logger.Log(context.Background(), firstIsError(s.refusals), "append failed, loading the partition again", "err", err)
		s.unloadLocked(retriable(err), len(w.replies) > 0)
		return nil, nil
	}
	s.refusals = 0
	for len(s.writes) > 0 && s.writes[0].answered {
		done := s.writes[0]
		s.writes = s.writes[1:]
		s.sent--
		done.committed = true
		s.recordLocked(done.events)
		if replies == nil && told == nil { // almost always the only ones
			replies, told = done.replies, append(done.told, done.events...)
		} else {
			replies = append(replies, done.replies...)
			told = append(append(told, done.told...), done.events...)
		}
		done.replies, done.told, done.events = nil, nil, nil // its machine keeps it
	}
	if len(s.writes) == 0 {
		s.writes = nil
	}
	s.notifyLocked("")
	return told, replies
}
