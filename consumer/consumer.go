package consumer

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stratalog/strata/group"
	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/record"
)

var (
	// ErrClosed is returned by every call on a closed consumer.
	ErrClosed = errors.New("consumer: closed")
	// ErrWakeup ends a Poll that Wakeup interrupted.
	ErrWakeup = errors.New("consumer: woken up")
	// ErrRebalanced says that a partition is not this member's any more, so that its offset was not committed and nothing was overwritten.
	ErrRebalanced = errors.New("consumer: partition was given to another member")
	// ErrNoOffset says that there is no offset to start at and Reset is Fail.
	ErrNoOffset = errors.New("consumer: no offset to start at")
	// ErrPollTimeout is part of the error of a commit after the application stayed away for more than MaxPollInterval.
	ErrPollTimeout = errors.New("consumer: poll interval exceeded")
	// ErrConcurrentPoll is returned if Poll, Records, Batches or Run is used while another of them is.
	ErrConcurrentPoll = errors.New("consumer: polled from two places at once")
	// ErrNoGroup is returned by commits of a free consumer.
	ErrNoGroup = errors.New("consumer: no group to commit to")
	// ErrNotAssigned is returned for a partition that the consumer does not read.
	ErrNotAssigned = errors.New("consumer: partition is not assigned")
	// ErrCommitQueueFull is what a callback of CommitAsync gets if too many commits wait already.
	ErrCommitQueueFull = errors.New("consumer: too many commits waiting")
)

// A Consumer reads records. All methods are safe for concurrent use, except that only one of Poll, Records, Batches and Run may be
// at work at a time. A group member has two goroutines, a free consumer of whole topics one, a free consumer of partitions none.
type Consumer struct {
	logs   LogBackend
	groups GroupBackend // nil: a free consumer
	cfg    Config
	stop   context.CancelFunc // ends the goroutines
	wg     sync.WaitGroup
	closed chan struct{} // closed when Close has done its work

	request  partition.FetchRequest // of the fetch under way, used again; the poller's
	fetching []fetching             // its partitions

	polling  atomic.Bool
	progress atomic.Int64 // counts signs of life of the application
	records  atomic.Int64 // handed out
	dirty    atomic.Bool  // the poller should look at the state below

	mu        sync.Mutex // guards the fields below
	parts     map[record.TopicPartition]*part
	order     []*part            // the values of parts, in the order of fetching
	inWait    bool               // the poller waits
	wait      context.Context    // of the poller's waits until one is interrupted; nil while nobody polls
	interrupt context.CancelFunc // ends wait
	woken     bool
	closing   bool
	closeErr  error
	fatal     error // ends polling for good
	events    []*event
	handed    []handedOut // of the last Poll, not processed before the next
	member    member
	runner    *runner // of the Run under way; nil: none
	commits   commitQueue
	stats     Stats
	backoff   time.Duration // of the last failed fetch; 0: it went well
}

// Stats counts what a consumer did since New.
type Stats struct {
	Records    int64 // handed out
	Bytes      int64 // fetched
	Fetches    int64
	Rebalances int64 // generations joined
	Commits    int64 // that succeeded
	Resets     int64 // of positions, by Config.Reset
}

// New returns a consumer that reads from b. With a Group, b must also be a GroupBackend; the member joins at once, its partitions
// are fetched when it polls. It returns *ConfigError values, joined, for bad settings. The consumer must be closed.
func New(b LogBackend, cfg Config) (*Consumer, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	c := &Consumer{logs: b, cfg: cfg, parts: map[record.TopicPartition]*part{}, closed: make(chan struct{})}
	c.member.changed, c.member.kick = make(chan struct{}), make(chan struct{}, 1)
	c.commits.ready = make(chan struct{}, 1)
	ctx, stop := context.WithCancel(context.Background())
	c.stop = stop
	switch {
	case cfg.Group != "":
		groups, ok := b.(GroupBackend)
		if !ok {
			stop()
			return nil, &ConfigError{"Group", "this backend has no groups"}
		}
		c.groups = groups
		c.wg.Go(func() { c.runMember(ctx) })
		c.wg.Go(func() { c.runCommitter(ctx) })
	case len(cfg.Topics) > 0:
		c.wg.Go(func() { c.runTopicWatch(ctx) })
	default:
		for tp, start := range cfg.Assign {
			c.addPart(tp, start)
		}
		slices.SortFunc(c.order, func(a, b *part) int { return compareTP(a.tp, b.tp) })
	}
	return c, nil
}

// Close is Shutdown with a bound of 30 s.
func (c *Consumer) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), DefaultCloseTimeout)
	defer cancel()
	return c.Shutdown(ctx)
}

// Shutdown stops fetching, commits what is processed (with CommitProcessed), calls OnRevoked, leaves the group (not a static member) and
// returns when the last goroutine has ended. What the last Poll, or the loop body now running, was given counts as not processed.
// Calls under way return ErrClosed. It is idempotent; later callers wait for the first. ctx bounds commit and leave.
func (c *Consumer) Shutdown(ctx context.Context) error {
	c.mu.Lock()
	if c.closing {
		c.mu.Unlock()
		<-c.closed
		return c.closeErr
	}
	c.closing = true
	c.wakeLocked()
	c.mu.Unlock()

	c.stop()
	c.wg.Wait()
	var errs []error
	if c.groups != nil {
		errs = append(errs, c.leave(ctx))
	}
	c.failCommits(ErrClosed)
	c.closeErr = errors.Join(errs...)
	close(c.closed)
	return c.closeErr
}

// leave gives the partitions up and takes leave of the group.
func (c *Consumer) leave(ctx context.Context) error {
	var errs []error
	c.drainCommits(ctx)
	owned := c.Assignment()
	errs = append(errs, c.commitBeforeHandover(ctx, owned))
	if c.cfg.OnRevoked != nil && len(owned) > 0 {
		c.cfg.OnRevoked(ctx, owned)
	}
	id := c.memberID()
	if id == "" || c.cfg.InstanceID != "" {
		return errors.Join(errs...)
	}
	per, err := c.groups.Leave(ctx, group.LeaveRequest{Group: c.cfg.Group, Members: []group.LeaveMember{{MemberID: id}}})
	err = errors.Join(append(per, err)...)
	if !errors.Is(err, group.ErrUnknownMember) { // somebody removed us before: gone is gone
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// Wakeup ends a blocked Poll with ErrWakeup; Records, Batches and Run end without an error, as when ctx is done.
// If none of them is waiting, the next wait ends at once. Any goroutine may call it.
func (c *Consumer) Wakeup() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.woken = true
	c.wakeLocked()
}

// Stats returns the counters.
func (c *Consumer) Stats() Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.stats
	s.Records = c.records.Load()
	return s
}

// wakeLocked makes the poller look at the state: now, if it waits, else before the next record.
func (c *Consumer) wakeLocked() {
	c.dirty.Store(true)
	if c.inWait {
		c.interrupt()
	}
}

// An event is something that happened to the partitions, for the poller to act on between two records.
type event struct {
	kind eventKind
	tps  []record.TopicPartition
	done chan struct{} // closed when the poller has acted
}

type eventKind uint8

const (
	assigned eventKind = iota
	revoked            // still owned until the poller has acted
	lost               // gone already
)

// tell queues an event for the poller.
func (c *Consumer) tell(kind eventKind, tps []record.TopicPartition) *event {
	e := &event{kind: kind, tps: tps, done: make(chan struct{})}
	c.mu.Lock()
	defer c.mu.Unlock()
	if kind == lost {
		for _, tp := range tps {
			if p := c.parts[tp]; p != nil {
				p.lost = true // commits are refused from now on
			}
		}
	}
	c.events = append(c.events, e)
	c.wakeLocked()
	return e
}

// settle acts on everything that happened since the last time. It runs on the polling goroutine, between two records.
func (c *Consumer) settle(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if !c.dirty.Load() {
		return nil
	}
	for {
		c.mu.Lock()
		c.dirty.Store(false)
		switch {
		case c.closing:
			c.dirty.Store(true)
			c.mu.Unlock()
			return ErrClosed
		case c.fatal != nil:
			c.dirty.Store(true)
			c.mu.Unlock()
			return c.fatal
		case c.runner != nil && c.runner.err() != nil: // a handler failed for good
			err := c.runner.err()
			c.mu.Unlock()
			return err
		case c.woken:
			c.woken = false
			c.dirty.Store(true) // there may be events
			c.mu.Unlock()
			return ErrWakeup
		case len(c.events) == 0:
			c.mu.Unlock()
			return nil
		}
		e := c.events[0]
		c.events = c.events[1:]
		c.mu.Unlock()
		c.act(ctx, e)
		close(e.done)
	}
}

func (c *Consumer) act(ctx context.Context, e *event) {
	var callback func(context.Context, []record.TopicPartition)
	e.tps = c.concerned(e)
	switch e.kind {
	case assigned:
		c.mu.Lock()
		for _, tp := range e.tps {
			c.addPart(tp, StartReset)
		}
		c.mu.Unlock()
		callback = c.cfg.OnAssigned
	case revoked:
		c.drainRun(ctx, e.tps, true)
		if err := c.commitBeforeHandover(ctx, e.tps); err != nil {
			c.cfg.Logger.Warn("commit before giving partitions up failed", "group", c.cfg.Group, "err", err)
		}
		callback = c.cfg.OnRevoked
		defer c.dropParts(e.tps)
	case lost:
		callback = c.cfg.OnLost
		c.drainRun(ctx, e.tps, false)
		c.dropParts(e.tps)
	}
	if callback != nil && len(e.tps) > 0 {
		callback(ctx, e.tps)
	}
}

// drainRun lets a Run's workers finish with partitions that go.
func (c *Consumer) drainRun(ctx context.Context, tps []record.TopicPartition, wait bool) {
	c.mu.Lock()
	r := c.runner
	var parts []*part
	for _, tp := range tps {
		if p := c.parts[tp]; p != nil {
			parts = append(parts, p)
		}
	}
	c.mu.Unlock()
	if r != nil {
		r.drain(ctx, parts, wait)
	}
}

// concerned returns the partitions of e that it still applies to: what is lost already cannot be revoked, what is revoked not be lost.
func (c *Consumer) concerned(e *event) (tps []record.TopicPartition) {
	if e.kind == assigned {
		return e.tps
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, tp := range e.tps {
		if p := c.parts[tp]; p != nil && p.lost == (e.kind == lost) {
			tps = append(tps, tp)
		}
	}
	return tps
}

func (c *Consumer) addPart(tp record.TopicPartition, start int64) {
	if c.parts[tp] != nil {
		return
	}
	p := &part{tp: tp, start: start}
	p.position.Store(-1)
	p.processed.Store(-1)
	p.committed = -1
	c.parts[tp] = p
	c.order = append(c.order, p)
}

func (c *Consumer) dropParts(tps []record.TopicPartition) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, tp := range tps {
		if p := c.parts[tp]; p != nil {
			p.lost = true
			p.gen.Add(1)
			delete(c.parts, tp)
			c.order = slices.DeleteFunc(c.order, func(q *part) bool { return q == p })
		}
	}
}

// fail ends polling with err, for good.
func (c *Consumer) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.fatal == nil {
		c.fatal = err
	}
	c.wakeLocked()
}
