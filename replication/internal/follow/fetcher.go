package follow

import (
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
	Broker, Leader int32 // the copying broker, and the broker that it copies from
	Incarnation    func() int64
	Network        *Network // nil means that no path is ever impaired
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

// Follow copies a partition from now on, and replaces an earlier Follow of the same partition. An
// identical Follow changes nothing.
func (f *Fetcher) Follow(what Following) {
	p := &Place{Following: what, f: f, told: untold, hw: -1}
	f.mu.Lock()
	old := f.places[what.Partition]
	if old != nil && old.Epoch == what.Epoch && old.Source == what.Source && old.Target == what.Target {
		f.letGoLocked(old) // it may be in sync now
		f.mu.Unlock()
		old.Wake() // an earlier request without a result may get one now
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

// Forget stops copying a partition. An append in progress continues.
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

// Wake makes a partition, if it is copied, fetch from its leader again, because the follower's
// state has changed.
func (f *Fetcher) Wake(tp record.TopicPartition) {
	f.mu.Lock()
	p := f.places[tp]
	f.mu.Unlock()
	if p != nil {
		p.Wake()
	}
}

// LetGo makes partitions that a quota holds back fetch again, because quotas have changed.
func (f *Fetcher) LetGo() {
	f.mu.Lock()
	defer f.mu.Unlock()
	held := slices.DeleteFunc(slices.Clone(f.late), func(p *Place) bool { return !p.held }) // the first come first
	for _, p := range held {
		f.letGoLocked(p)
	}
	for _, p := range f.places {
		if p.phase == busy {
			f.letGoLocked(p)
		}
	}
}

// letGoLocked is LetGo for one partition.
func (f *Fetcher) letGoLocked(p *Place) {
	switch {
	case p.phase == busy:
		p.letGo = true
	case p.phase == late && p.held:
		f.notLateLocked(p)
		f.pushLocked(p)
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

// end stops copying all partitions. Appends in progress continue.
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

// take returns the partitions to fetch next. It is one partition, which need not wait for others,
// unless an impaired network makes each request expensive.
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
		p.phase, p.letGo = busy, false
		p.woken.Store(false)
	}
	return batch
}

// round fetches partitions and processes the responses. It returns false if stop was closed.
func (f *Fetcher) round(batch []*Place, stop <-chan struct{}) bool {
	there, back := Path{f.cfg.Broker, f.cfg.Leader}, Path{f.cfg.Leader, f.cfg.Broker}
	asks := make([]partition.ReplicaFetch, len(batch))
	for {
		news := false
		for i, p := range batch {
			asks[i] = f.question(p)
			news = news || p.told != told(asks[i])
		}
		if !news && !f.cfg.Network.IsCut(there) { // the leader has the request already
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

// question returns the request for a partition. A request at an offset confirms that the follower
// has everything before it. So the log start must be right before the request.
func (f *Fetcher) question(p *Place) partition.ReplicaFetch {
	// An error here is returned by align later.
	if p.startDue > 0 && p.Target.AdvanceStart(p.Epoch, p.startDue) == nil {
		p.leaderStart, p.startDue = p.startDue, 0
	}
	ask := p.Target.Position()
	ask.Broker, ask.Incarnation, ask.LeaderEpoch = f.cfg.Broker, f.cfg.Incarnation(), p.Epoch
	return ask
}
