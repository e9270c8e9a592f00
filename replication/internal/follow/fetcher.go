package follow

import (
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/stratalog/strata/internal/alarm"
	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/record"
)

const (
	// maxInFlight bounds the bytes that are fetched and not appended yet. Kafka:
	// replica.fetch.response.max.bytes.
	maxInFlight = 10 << 20

	firstRetry = 5 * time.Millisecond
	maxRetry   = time.Second // Kafka: replica.fetch.backoff.ms
)

// Config describes a Fetcher.
type Config struct {
	Broker, Leader int32 // who copies, from whom
	Incarnation    func() int64
	Network        *Network // nil: nothing is ever wrong with it
	Logger         *slog.Logger
}

// A Fetcher copies partitions from one broker to another. Safe for concurrent use.
type Fetcher struct {
	cfg    Config
	signal chan struct{} // holds a token when there may be something to do
	retry  alarm.Alarm   // lateAgain, when the first of late is due

	mu       sync.Mutex // guards the fields below; never held while waiting
	places   map[record.TopicPartition]*Place
	ready    []*Place
	late     []*Place
	inFlight int // bytes
}

// New returns a Fetcher that copies nothing yet. Run must be called.
func New(cfg Config) *Fetcher {
	f := &Fetcher{cfg: cfg, signal: make(chan struct{}, 1), places: map[record.TopicPartition]*Place{}}
	f.retry.Do = f.lateAgain
	return f
}

// Follow has a partition copied from now on, in place of what it was copied from before. The same
// once more changes nothing.
func (f *Fetcher) Follow(what Following) {
	p := &Place{Following: what, f: f, told: position{-1, -1}, hw: -1}
	f.mu.Lock()
	old := f.places[what.Partition]
	if old != nil && old.Epoch == what.Epoch && old.Source == what.Source && old.Target == what.Target {
		f.mu.Unlock()
		old.Wake() // what was asked for in vain may be there now
		return
	}
	f.places[what.Partition] = p
	f.dropLocked(old)
	f.mu.Unlock()
	if old != nil {
		old.Source.Unwatch(old)
	}
	what.Source.Watch(p)
	p.Wake()
}

// Forget ends the copying of a partition. What is being appended is appended still.
func (f *Fetcher) Forget(tp record.TopicPartition) {
	f.mu.Lock()
	p := f.places[tp]
	delete(f.places, tp)
	f.dropLocked(p)
	f.mu.Unlock()
	if p != nil {
		p.Source.Unwatch(p)
	}
}

// Wake has a partition ask its leader again, if it is copied: something about the follower has
// changed.
func (f *Fetcher) Wake(tp record.TopicPartition) {
	f.mu.Lock()
	p := f.places[tp]
	f.mu.Unlock()
	if p != nil {
		p.Wake()
	}
}

func (f *Fetcher) dropLocked(p *Place) {
	switch {
	case p == nil:
		return
	case p.phase == ready:
		f.ready = slices.DeleteFunc(f.ready, func(q *Place) bool { return q == p })
	case p.phase == late:
		f.notLateLocked(p)
	}
	p.phase = gone
}

// Run copies until stop is closed.
func (f *Fetcher) Run(stop <-chan struct{}) {
	defer f.end()
	for {
		batch := f.take()
		if len(batch) == 0 {
			select {
			case <-f.signal:
			case <-stop:
				return
			}
			continue
		}
		if !f.round(batch, stop) {
			return
		}
	}
}

// end lets go of all partitions. What is being appended is appended still.
func (f *Fetcher) end() {
	f.retry.Stop()
	f.retry.Wait()
	f.mu.Lock()
	places := f.places
	f.places = map[record.TopicPartition]*Place{}
	for _, p := range places {
		f.dropLocked(p)
	}
	f.mu.Unlock()
	for _, p := range places {
		p.Source.Unwatch(p)
	}
}

// take returns partitions to be asked for: one, since it need not wait for others, unless the
// network makes a question cost something.
func (f *Fetcher) take() []*Place {
	n := 1
	if f.cfg.Network.Impaired() {
		n = 1 << 30
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.inFlight >= maxInFlight {
		return nil
	}
	n = min(n, len(f.ready))
	batch := slices.Clone(f.ready[:n])
	if f.ready = f.ready[n:]; len(f.ready) == 0 {
		f.ready = nil
	}
	for _, p := range batch {
		p.phase = busy
		p.woken.Store(false)
	}
	return batch
}

// answer is what a leader said.
type answer struct {
	p   *Place
	ask partition.ReplicaFetch
	buf *buffer
	got partition.ReplicaRead
	err error
}

// round asks for partitions and sees to what comes. False: stopped.
func (f *Fetcher) round(batch []*Place, stop <-chan struct{}) bool {
	there, back := Path{f.cfg.Broker, f.cfg.Leader}, Path{f.cfg.Leader, f.cfg.Broker}
	asks := make([]partition.ReplicaFetch, len(batch))
	for {
		news := false
		for i, p := range batch {
			asks[i] = f.question(p)
			news = news || p.told != position{asks[i].Offset, asks[i].Durable}
		}
		if !news && !f.cfg.Network.isCut(there) { // the leader has the question already
			break
		}
		switch f.cfg.Network.Send(there, stop) {
		case Stopped:
			return false
		case Lost:
			if !f.cfg.Network.AwaitMended(there, stop) {
				return false
			}
			continue
		}
		break
	}
	answers := make([]answer, len(batch))
	for i, p := range batch {
		answers[i] = p.read(asks[i])
	}
	switch f.cfg.Network.Send(back, stop) {
	case Stopped:
		return false
	case Lost:
		if !f.cfg.Network.AwaitMended(back, stop) {
			return false
		}
		for _, a := range answers {
			a.buf.put()
			f.done(a.p, outcome{again: true})
		}
		return true
	}
	for i := range answers {
		f.apply(&answers[i])
	}
	return true
}

// question returns what to ask the leader of a partition.
func (f *Fetcher) question(p *Place) partition.ReplicaFetch {
	ask := p.Target.Position()
	ask.Broker, ask.Incarnation, ask.LeaderEpoch = f.cfg.Broker, f.cfg.Incarnation(), p.Epoch
	return ask
}

func (p *Place) read(ask partition.ReplicaFetch) answer {
	a := answer{p: p, ask: ask, buf: getBuffer()}
	ask.Buf = a.buf.data[:0]
	p.told = position{ask.Offset, ask.Durable}
	a.got, a.err = p.Source.Read(ask)
	return a
}

// apply does what the leader's answer asks for.
func (f *Fetcher) apply(a *answer) {
	p := a.p
	if a.err != nil {
		a.buf.put()
		f.refused(a)
		return
	}
	if a.got.Diverging != nil {
		a.buf.put()
		f.done(p, outcome{err: p.Target.Converge(*a.got.Diverging), again: true})
		return
	}
	if err := p.align(a); err != nil {
		a.buf.put()
		f.done(p, outcome{err: err})
		return
	}
	size := len(a.got.Bytes)
	if size == 0 && a.got.HighWatermark <= p.hw {
		a.buf.put()
		f.done(p, outcome{})
		return
	}
	if size > 0 {
		a.buf.data = a.got.Bytes
	}
	f.mu.Lock()
	f.inFlight += size
	f.mu.Unlock()
	hw, buf := a.got.HighWatermark, a.buf
	p.Target.CopyFrom(&partition.Copy{
		Epoch: p.Epoch, Offset: a.ask.Offset, Batches: a.got.Bytes, HighWatermark: hw, LogStart: a.got.LogStart,
		Done: func(err error) {
			buf.put()
			if err == nil {
				p.hw = hw
			}
			f.done(p, outcome{err: err, again: size > 0, bytes: size})
		},
	})
}

// align brings the log start in line with the leader's. The leader's may be in the middle of a
// batch: a log that is empty begins with that one.
func (p *Place) align(a *answer) error {
	if a.got.LogStart > p.leaderStart {
		if err := p.Target.AdvanceStart(a.got.LogStart); err != nil {
			return err
		}
		p.leaderStart = a.got.LogStart
	}
	if len(a.got.Bytes) == 0 {
		return nil
	}
	first, err := record.ParseUnverified(a.got.Bytes)
	if err != nil || first.BaseOffset >= a.ask.Offset {
		return err
	}
	if err := p.Target.StartAt(first.BaseOffset); err != nil {
		return err
	}
	a.ask.Offset, p.leaderStart = first.BaseOffset, 0
	return nil
}

// refused sees to a question that the leader has not answered.
func (f *Fetcher) refused(a *answer) {
	p := a.p
	if errors.Is(a.err, partition.ErrOffsetOutOfRange) && a.ask.Offset < a.got.LogStart {
		f.done(p, outcome{err: p.Target.StartAt(a.got.LogStart), again: true})
		return
	}
	f.done(p, outcome{err: a.err, awaits: awaitsLeader(a.err)})
}

// awaitsLeader reports whether an error is over when the leader wakes the follower.
func awaitsLeader(err error) bool {
	for _, e := range []error{ErrNotReady, partition.ErrNotLeader, partition.ErrFencedLeaderEpoch, partition.ErrUnknownLeaderEpoch, partition.ErrClosed} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// outcome is what became of a turn of a partition.
type outcome struct {
	err    error
	awaits bool // the leader wakes the place when err is over
	again  bool // without an error: ask at once
	bytes  int  // that are in flight no longer
}

// done ends a partition's turn.
func (f *Fetcher) done(p *Place, o outcome) {
	f.mu.Lock()
	if f.inFlight -= o.bytes; o.bytes > 0 {
		f.wakeUp()
	}
	failures := 0
	if p.phase != gone {
		failures = f.endTurnLocked(p, o)
	}
	f.mu.Unlock()
	if failures == toldAt && f.cfg.Logger != nil && !o.awaits {
		f.cfg.Logger.Warn("partition cannot be copied from its leader", slog.String("topic", p.Partition.Topic), slog.Int("partition", int(p.Partition.Partition)),
			slog.Int("broker", int(f.cfg.Broker)), slog.Int("leader", int(f.cfg.Leader)), slog.Any("err", o.err))
	}
}

// toldAt is how many failures in a row are worth a line in the log.
const toldAt = 5

// endTurnLocked returns how often the partition has failed in a row.
func (f *Fetcher) endTurnLocked(p *Place, o outcome) (failures int) {
	switch {
	case o.err == nil:
		p.failures = 0
		if p.phase = idle; o.again || p.woken.Load() {
			f.pushLocked(p)
		}
		return 0
	case o.awaits && p.woken.Load():
		f.pushLocked(p)
		return 0
	}
	wait := min(firstRetry<<min(p.failures, 10), maxRetry)
	p.failures++
	p.told = position{-1, -1}
	p.phase, p.awaits, p.retryAt = late, o.awaits, time.Now().Add(wait)
	f.late = append(f.late, p)
	f.retry.By(p.retryAt)
	return p.failures
}

func (f *Fetcher) notLateLocked(p *Place) {
	f.late = slices.DeleteFunc(f.late, func(q *Place) bool { return q == p })
}

// lateAgain has those asked for again whose time has come.
func (f *Fetcher) lateAgain() {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	var next time.Time
	f.late = slices.DeleteFunc(f.late, func(p *Place) bool {
		if due := !now.Before(p.retryAt); due {
			f.pushLocked(p)
			return true
		}
		if next.IsZero() || p.retryAt.Before(next) {
			next = p.retryAt
		}
		return false
	})
	if !next.IsZero() {
		f.retry.By(next)
	}
}

func (f *Fetcher) pushLocked(p *Place) {
	p.phase = ready
	p.woken.Store(true)
	f.ready = append(f.ready, p)
	f.wakeUp()
}

func (f *Fetcher) wakeUp() {
	select {
	case f.signal <- struct{}{}:
	default:
	}
}
