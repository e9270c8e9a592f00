package consumer

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/replication"
)

var (
	// ErrClosed is returned by every call on a closed consumer.
	ErrClosed = errors.New("consumer: closed")
	// ErrWakeup is returned by a Poll that Wakeup interrupted.
	ErrWakeup = errors.New("consumer: woken up")
	// ErrRebalanced is returned when a partition no longer belongs to this member. Its offset was
	// not committed, and no other commit was overwritten.
	ErrRebalanced = errors.New("consumer: partition was given to another member")
	// ErrTruncated is returned when an unclean election has truncated the log below the position. A
	// *TruncatedError in the chain has the offset where it diverges. With Reset Fail, polling returns
	// it. With another Reset the position becomes that offset. Read and Follow end with it.
	ErrTruncated = partition.ErrTruncated
	// ErrNoOffset is returned when a partition has no starting offset and Reset is Fail.
	ErrNoOffset = errors.New("consumer: no offset to start at")
	// ErrPollTimeout is part of a commit's error if the application did not poll for longer than
	// MaxPollInterval.
	ErrPollTimeout = errors.New("consumer: poll interval exceeded")
	// ErrConcurrentPoll is returned when Poll, Records, Batches or Run is called while another of
	// them is active.
	ErrConcurrentPoll = errors.New("consumer: polled from two places at once")
	// ErrNoGroup is returned by commits of a free consumer.
	ErrNoGroup = errors.New("consumer: no group to commit to")
	// ErrNotAssigned is returned for a partition that the consumer does not read.
	ErrNotAssigned = errors.New("consumer: partition is not assigned")
	// ErrUnknownTopic is returned for a topic or partition that does not exist. A
	// *replication.UnknownTopicError in the chain may name a topic with a similar name.
	ErrUnknownTopic = replication.ErrUnknownTopic
	// ErrCommitQueueFull is passed to the callback of CommitAsync when too many commits are queued.
	ErrCommitQueueFull = errors.New("consumer: too many commits waiting")
)

// A TruncatedError reports that records which the consumer has read are lost: see ErrTruncated.
type TruncatedError = partition.TruncatedError

// A Consumer reads records. All methods are safe for concurrent use, except that only one of Poll,
// Records, Batches and Run may be active at a time. A group member has three goroutines, a free
// consumer one.
type Consumer struct {
	logs   LogBackend
	groups GroupBackend // nil: a free consumer
	cfg    Config

	membership *membership // nil: a free consumer

	lifecycle

	poller  poller
	fetcher fetcher
	// memory of released batches
	recycler recycler
	commits  commitQueue

	progress atomic.Int64 // number of the application's actions, including records
	records  atomic.Int64 // handed out
	dirty    atomic.Bool  // the poller must check the state below

	// guards the fields below, including those of subscription, assigned and activity
	mu           sync.Mutex
	subscription // partitions the consumer is to read
	assigned     // target and held partitions
	activity     // state of the polling goroutine
	member       member
	warnings     warnings
	runner       *runner // of the active Run; nil: none
	stats        Stats
}

// Stats counts events of a consumer since New.
type Stats struct {
	Records    int64 // handed out
	Bytes      int64 // fetched
	Fetches    int64
	Rebalances int64 // generations joined, or new member epochs
	Commits    int64 // successful commits
	Resets     int64 // positions reset by Config.Reset, or moved back because the log was truncated
}

// New returns a consumer that reads from b. The caller must close it. With a Group, b must also be
// a GroupBackend. If b is an Opener, the consumer has a session of its own until it is closed. The
// member joins immediately; its partitions are fetched when it polls.
//
// New returns *ConfigError values, joined, for bad settings, and ErrUnknownTopic for a topic that
// does not exist (see Config.AllowUnknownTopics). If b does not respond within 30 s, it returns b's
// error.
func New(b LogBackend, cfg Config) (*Consumer, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	start, cancel := context.WithTimeout(context.Background(), DefaultCloseTimeout)
	defer cancel()
	b, endSession, err := openSession(start, b, Session{ClientID: cfg.ClientID, Rack: cfg.Rack, Group: cfg.Group, InstanceID: cfg.InstanceID})
	if err != nil {
		return nil, err
	}
	started := false
	defer func() { // also if the backend panics
		if !started {
			endSession()
		}
	}()
	setDefault(&cfg.ClientID, "strata")
	c := &Consumer{
		logs: b, cfg: cfg, commits: newCommitQueue(),
		lifecycle: lifecycle{endSession: endSession, closed: make(chan struct{}), memberEnded: make(chan struct{})},
		assigned:  assigned{parts: map[record.TopicPartition]*part{}, sought: map[record.TopicPartition]openSeek{}},
		activity:  activity{helpers: map[int64]bool{}},
	}
	c.member.changed, c.member.kick = make(chan struct{}), make(chan struct{}, 1)
	if cfg.Group != "" {
		groups, ok := b.(GroupBackend)
		if !ok {
			return nil, &ConfigError{"Group", "this backend has no groups"}
		}
		c.groups = groups
		c.membership = &membership{c: c}
		if c.membership.protocol, err = newProtocol(c.membership, groups); err != nil {
			return nil, err
		}
	}
	if err := retry(start, func() error { return c.subscribe(start) }); err != nil {
		return nil, err
	}
	started = true
	ctx, stop := context.WithCancel(context.Background())
	c.stop = stop
	if c.groups == nil {
		c.joined.Go(func() { c.runWatch(ctx, c.reviewFree) })
		return c, nil
	}
	c.joined.Go(func() { c.failUnlessReturns(func() { c.membership.run(ctx) }) })
	c.joined.Go(func() {
		c.runWatch(ctx, func(ctx context.Context) error { c.kickMember(); return c.followTopics(ctx) })
	})
	commits, stopCommits := context.WithCancel(context.Background())
	c.stopCommits = stopCommits
	c.wg.Go(func() { c.runCommitter(commits) })
	return c, nil
}

// subscribe checks the configured topics. A free consumer has its partitions from here on.
func (c *Consumer) subscribe(ctx context.Context) (err error) {
	c.topics = slices.Compact(slices.Sorted(slices.Values(c.cfg.Topics)))
	if c.cfg.TopicPattern != nil {
		if c.pattern, err = wholeName(c.cfg.TopicPattern); err != nil {
			return &ConfigError{"TopicPattern", err.Error()}
		}
	}
	names := c.topics
	if len(c.cfg.Assign) > 0 {
		names = topicsOf(slices.Collect(maps.Keys(c.cfg.Assign)))
	}
	if c.pattern != nil {
		if names, err = c.subscribed(ctx); err != nil {
			return fmt.Errorf("consumer: topics: %w", err)
		}
	}
	if c.first, err = c.existing(ctx, names); err != nil {
		return err
	}
	for tp := range c.cfg.Assign {
		if v, ok := c.first[tp.Topic]; ok && tp.Partition >= v.partitions && !c.cfg.AllowUnknownTopics {
			return fmt.Errorf("consumer: assign %s-%d: %w: the topic has %d partitions", tp.Topic, tp.Partition, ErrUnknownTopic, v.partitions)
		}
	}
	if c.groups != nil {
		return nil
	}
	if err := c.reviewFree(ctx); err != nil {
		return fmt.Errorf("consumer: topics: %w", err)
	}
	if len(c.cfg.Assign) > 0 { // held immediately: they can be sought and paused before the first poll
		c.mu.Lock()
		defer c.mu.Unlock()
		c.takeLocked(slices.SortedFunc(maps.Keys(c.target.partitions), compareTP))
	}
	return nil
}

// Wakeup ends a blocked Poll with ErrWakeup. Records, Batches and Run end without an error, as when
// ctx is done. If none of them is waiting, the next wait ends immediately. Wakeup may be called on
// any goroutine.
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

// running returns the active Run; nil: none.
func (c *Consumer) running() *runner {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.runner
}

// failUnlessReturns calls fn, and ends polling if fn calls runtime.Goexit: a consumer whose
// membership goroutine has ended silently would wait for partitions for ever.
func (c *Consumer) failUnlessReturns(fn func()) {
	returned := false
	defer func() {
		if !returned {
			c.fail(fmt.Errorf("consumer: group %s: an assignor, or the backend, called runtime.Goexit", c.cfg.Group))
		}
	}()
	fn()
	returned = true
}

// fail ends polling permanently with err.
func (c *Consumer) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.fatal == nil {
		c.fatal = err
	}
	c.wakeLocked()
}
