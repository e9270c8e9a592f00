package group

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stratalog/strata/record"
)

// retryLoadAfter is how long a shard that could not be loaded answers ErrCoordinatorNotAvailable before it tries again.
const retryLoadAfter = time.Second

// lockLoaded returns with mu held and the groups loaded, or with an error and without mu.
func (s *shard) lockLoaded(ctx context.Context) error {
	for {
		s.mu.Lock()
		switch s.state {
		case active:
			return nil
		case closed:
			s.mu.Unlock()
			return ErrClosed
		case unloaded:
			if err := s.loadErr; err != nil && time.Now().Before(s.retryAt) {
				s.mu.Unlock()
				return fmt.Errorf("%w: %w", ErrCoordinatorNotAvailable, err)
			}
			s.startLoadLocked()
		}
		changed := s.changed
		s.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// startLoadLocked begins to load an unloaded shard.
func (s *shard) startLoadLocked() {
	s.state, s.changed = loading, make(chan struct{})
	s.c.wg.Go(s.load)
}

// unloadLocked forgets everything after a failed append: what was applied may not be in the log. All who wait get err. The shard is loaded again
// as soon as the log has answered all that it was given.
func (s *shard) unloadLocked(err error) {
	s.state, s.changed = loading, make(chan struct{})
	s.failCallsLocked(err)
	s.writes = s.writes[:s.sent]
	clear(s.groups)
	s.alarm.Disarm()
	s.nextExpiry = time.Time{}
	s.notifyLocked("")
	s.reloadWhenSettledLocked()
}

func (s *shard) failCallsLocked(err error) {
	for _, w := range s.writes {
		for _, p := range w.replies {
			p.call.result <- result{err: err}
		}
		w.replies = nil
	}
	for t, c := range s.calls {
		c.result <- result{err: err}
		delete(s.calls, t)
	}
}

func (s *shard) reloadWhenSettledLocked() {
	for _, w := range s.writes {
		if !w.settled {
			return
		}
	}
	s.writes, s.sent = nil, 0
	s.c.wg.Go(s.load)
}

// load replays the partition. The state is loading meanwhile.
func (s *shard) load() {
	groups, err := s.replay()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state == closed {
		return
	}
	defer close(s.changed)
	now := time.Now()
	if err != nil {
		s.state, s.loadErr, s.retryAt = unloaded, err, now.Add(retryLoadAfter)
		s.logger.Error("loading failed", "err", err)
		return
	}
	s.c.counters.loads.Add(1)
	s.state, s.loadErr, s.groups = active, nil, groups
	for _, e := range groups {
		s.step(e, now, EventLoaded{})
	}
	s.rearmLocked(now)
	s.notifyLocked("")
}

// replay reads the partition from its start to its end.
func (s *shard) replay() (map[string]*entry, error) {
	r := replayer{s: s, groups: make(map[string]*entry), written: make(map[Key]int64), open: make(map[int64][]logged)}
	l, err := s.c.store.OffsetsLog(s.partition)
	if err != nil {
		return nil, err
	}
	from, end, err := l.Bounds()
	if err != nil {
		return nil, err
	}
	var buf []byte
	for from < end {
		if s.c.ctx.Err() != nil {
			return nil, ErrClosed
		}
		if buf, err = l.Read(buf[:0], from, 1<<20); err != nil {
			return nil, err
		}
		next, err := r.batches(buf)
		if err != nil {
			return nil, err
		}
		if next <= from {
			break // nothing more is readable
		}
		from = next
	}
	for id, e := range r.groups {
		if e.forgotten() {
			delete(r.groups, id)
		}
	}
	return r.groups, nil
}

// A replayer builds groups from the records of a partition.
type replayer struct {
	s       *shard
	groups  map[string]*entry
	written map[Key]int64      // where the newest plain commit of an offset is
	open    map[int64][]logged // by producer id: offsets in a transaction that has not ended
}

type logged struct {
	Record
	offset int64
}

func (r *replayer) batches(p []byte) (next int64, err error) {
	for len(p) > 0 {
		b, n, err := record.Parse(p)
		if errors.Is(err, record.ErrShort) {
			break
		}
		if err != nil {
			return 0, err
		}
		if err := r.batch(b); err != nil {
			return 0, err
		}
		next, p = b.NextOffset(), p[n:]
	}
	return next, nil
}

func (r *replayer) batch(b *record.Batch) error {
	if b.IsControl() {
		kind, _, err := b.Control()
		if err != nil {
			return err
		}
		if kind == record.ControlCommit {
			for _, l := range r.open[b.ProducerID] {
				if l.offset >= r.written[l.Key] { // a plain commit behind it wins
					r.apply(l.Record, l.offset)
				}
			}
		}
		delete(r.open, b.ProducerID)
		return nil
	}
	for rec, err := range b.All() {
		if err != nil {
			return err
		}
		x, known, err := ParseRecord(rec.Key, rec.Value)
		switch {
		case err != nil:
			r.s.logger.Warn("skipped a record that cannot be read", "offset", rec.Offset, "err", err)
		case !known: // of a protocol that is not ours
		case b.IsTransactional() && b.HasProducerID():
			r.open[b.ProducerID] = append(r.open[b.ProducerID], logged{x, rec.Offset})
		default:
			r.apply(x, rec.Offset)
		}
	}
	return nil
}

func (r *replayer) apply(x Record, offset int64) {
	e := r.groups[x.Key.Group]
	if e == nil {
		e = &entry{Group: newGroup(x.Key.Group, &r.s.c.cfg)}
		r.groups[x.Key.Group] = e
	}
	if x.Group != nil { // the buffer is used again
		for i := range x.Group.Members {
			m := &x.Group.Members[i]
			m.Subscription, m.Assignment = bytes.Clone(m.Subscription), bytes.Clone(m.Assignment)
		}
	}
	e.Apply(x)
	if x.Key.Type == KeyOffset {
		r.written[x.Key] = offset
	}
}

// ParseRecord decodes a record of the offsets topic. known is false for records that a classic group does not have, which are not an error.
// A nil value is a tombstone. The result aliases value. Errors match ErrMalformed.
func ParseRecord(key, value []byte) (r Record, known bool, err error) {
	k, ok, err := ParseKey(key)
	if !ok {
		return Record{}, false, nil
	}
	if err != nil {
		return Record{}, false, err
	}
	r.Key = k
	if k.Type != KeyOffset && k.Type != KeyGroup {
		return r, false, nil
	}
	switch {
	case value == nil:
	case k.Type == KeyOffset:
		v, err := ParseOffsetValue(value)
		if err != nil {
			return Record{}, false, err
		}
		r.Offset = &v
	default:
		v, err := ParseGroupValue(value)
		if err != nil {
			return Record{}, false, err
		}
		r.Group = &v
	}
	return r, true, nil
}

// coordinatorError maps the error of an append to what clients are told; they retry.
func coordinatorError(err error) error {
	if errors.Is(err, ErrCoordinatorNotAvailable) || errors.Is(err, ErrNotCoordinator) || errors.Is(err, ErrTooLarge) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrNotCoordinator, err)
}
