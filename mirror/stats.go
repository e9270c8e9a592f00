package mirror

import (
	"context"
	"time"

	"github.com/stratalog/strata/record"
)

// Stats is the state of a Forward.
type Stats struct {
	// Records and Bytes have been forwarded since NewForward; Bytes are those of keys, values and
	// headers. Transactions were committed, and Aborts were not.
	Records, Bytes, Transactions, Aborts int64

	// Lag is the number of committed offsets of the source that are not forwarded. The ends of the
	// source's partitions are looked up every two seconds. -1 means that they are not known yet.
	Lag int64
	// LagTime is an upper bound of the age of the oldest record that is not forwarded, from its
	// timestamp or from when nothing was left to forward. 0 means that there is none, or that its
	// age is not known yet.
	LagTime time.Duration
	// RetentionUsed is the share of the source's retention, by time or size, that the oldest record
	// that is not forwarded has used: at 1 the source may delete it. 0 means that there is no such
	// record, or no retention.
	RetentionUsed float64

	// Connected is the time since which everything works; zero if Run is not active or fails.
	Connected time.Time
	Paused    bool
	// LastError is the last error, retried or not; nil if there was none.
	LastError   error
	LastErrorAt time.Time
}

// counters are the parts of Stats that are kept. Guarded by Forward.mu.
type counters struct {
	records, bytes, transactions, aborts int64
	since                                time.Time
	sending                              bool // a transaction is in progress
	retention                            float64
	err                                  error
	errAt, logged                        time.Time
	dropped                              int // errors since logged that were not logged
}

// progress is the state of a partition for Stats.
type progress struct {
	known    bool
	start    int64     // the source's first offset
	end      int64     // the source's end of committed records
	caughtUp time.Time // when nothing was left to forward
	newest   time.Time // timestamp of the last record forwarded
	head     time.Time // timestamp of the first record in the transaction in progress; zero: none
	shown    int64     // offset in the group of the source, plus 1; 0: none
}

// lag returns the number of offsets to forward, and since when there are some.
func (s *progress) lag(next int64) (n int64, since time.Time) {
	if n = s.end - next; n <= 0 {
		return 0, time.Time{}
	}
	if !s.head.IsZero() {
		return n, s.head
	}
	if s.caughtUp.After(s.newest) {
		return n, s.caughtUp
	}
	return n, s.newest
}

// Stats returns the present state. It makes no request.
func (f *Forward) Stats() Stats {
	f.mu.Lock()
	defer f.mu.Unlock()
	c := &f.stats
	st := Stats{
		Records: c.records, Bytes: c.bytes, Transactions: c.transactions, Aborts: c.aborts, RetentionUsed: c.retention,
		Connected: c.since, Paused: f.resumed != nil, LastError: c.err, LastErrorAt: c.errAt, Lag: -1,
	}
	now := time.Now()
	for _, fl := range f.flows {
		for p := range fl.state {
			s := &fl.state[p]
			if !s.known {
				continue
			}
			n, since := s.lag(fl.reached[p].next)
			st.Lag = max(st.Lag, 0) + n
			if !since.IsZero() {
				st.LagTime = max(st.LagTime, now.Sub(since))
			}
		}
	}
	return st
}

// stateOf returns the state of a source partition; nil: it has none. Called with the lock.
func (f *Forward) stateOf(tp record.TopicPartition) *progress {
	for _, fl := range f.flows {
		if fl.source == tp.Topic && int(tp.Partition) < len(fl.state) {
			return &fl.state[tp.Partition]
		}
	}
	return nil
}

// noteSending stores that a transaction is in progress, and the age of its records.
func (f *Forward) noteSending(spans []span, sending bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stats.sending = sending
	for _, next := range spans {
		if s := f.stateOf(next.tp); s != nil {
			s.head = next.records[0].Timestamp
		}
	}
}

// noteReachable stores that both clusters have responded.
func (f *Forward) noteReachable() {
	f.mu.Lock()
	sending := f.stats.sending
	f.mu.Unlock()
	if !sending { // else the transaction shows whether the target works
		f.noteConnected()
	}
}

func (f *Forward) noteConnected() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.stats.since.IsZero() {
		f.stats.since = time.Now()
		f.cfg.Logger.Info("mirror is connected", "mirror", f.cfg.ID)
	}
}

func (f *Forward) noteAbort() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stats.aborts++
}

// logInterval is the shortest time between two log lines about errors.
const logInterval = time.Second

// noteError stores an error for Stats and logs it.
func (f *Forward) noteError(err error) {
	f.mu.Lock()
	now, c := time.Now(), &f.stats
	c.err, c.errAt, c.since = err, now, time.Time{}
	if now.Sub(c.logged) < logInterval {
		c.dropped++
		f.mu.Unlock()
		return
	}
	dropped := c.dropped
	c.logged, c.dropped = now, 0
	f.mu.Unlock()
	f.cfg.Logger.Warn("mirror cannot forward", "mirror", f.cfg.ID, "err", err, "lines_left_out", dropped)
}

// A limiter delays transactions so that the average speed stays within the limits. It belongs to
// the goroutine of Run.
type limiter struct {
	records, bytes int // a second; 0: no limit
	free           time.Time
}

// used counts the records and bytes of a transaction.
func (l *limiter) used(now time.Time, records, bytes int) {
	var cost time.Duration
	if l.records > 0 {
		cost = time.Duration(float64(records) / float64(l.records) * float64(time.Second))
	}
	if l.bytes > 0 {
		cost = max(cost, time.Duration(float64(bytes)/float64(l.bytes)*float64(time.Second)))
	}
	if l.free.Before(now) {
		l.free = now
	}
	l.free = l.free.Add(cost)
}

// wait returns the time until the next transaction.
func (l *limiter) wait(now time.Time) time.Duration { return l.free.Sub(now) }

// sleep waits for d. It returns false if ctx ends first.
func sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
