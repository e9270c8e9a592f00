package group

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stratalog/strata/record"
)

// A Coordinator runs the groups whose partitions of the offsets topic are led by the brokers of its Store.
//
// Every blocking method ends when its ctx does; what was accepted before stays accepted. A Coordinator has one goroutine that watches
// the topics, and one more for each partition of the offsets topic that is just being written or loaded. It is safe for concurrent use.
type Coordinator struct {
	cfg    Config
	store  Store
	ctx    context.Context // done when closing
	cancel context.CancelFunc
	wg     sync.WaitGroup // watcher, writers, loaders

	opening chan struct{}            // holds a token: who has it may look the offsets topic up
	shards  atomic.Pointer[[]*shard] // nil: the offsets topic is not known to exist
	topics  atomic.Pointer[Topics]   // as the watcher last saw them; nil: not yet

	mu   sync.Mutex          // guards the field below
	seen map[string]sighting // topics that exist as far as is known

	counters  counters
	closeOnce sync.Once
}

// NewCoordinator returns a running Coordinator over store, which must outlive it. What the offsets topic holds is loaded in the background;
// requests wait for the part they need. It returns an error only for a cfg that makes no sense.
func NewCoordinator(store Store, cfg Config) (*Coordinator, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	c := &Coordinator{cfg: cfg, store: store, opening: make(chan struct{}, 1)}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	c.opening <- struct{}{}
	c.wg.Go(c.watch)
	return c, nil
}

// Close ends every waiting call with ErrClosed and returns when the last goroutine has ended. Commits that were under way may or may not be
// stored. It is idempotent and safe to call concurrently; the Store is not closed.
func (c *Coordinator) Close() error {
	c.closeOnce.Do(func() {
		c.cancel()
		<-c.opening // nobody makes shards after this
		if shards := c.shards.Load(); shards != nil {
			for _, s := range *shards {
				s.close()
			}
		}
	})
	if shards := c.shards.Load(); shards != nil {
		for _, s := range *shards {
			s.alarm.Wait() // before the others: a tick may start a writer
		}
	}
	c.wg.Wait()
	return nil
}

func (s *shard) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state == loading {
		close(s.changed)
	}
	s.state = closed
	s.failCallsLocked(ErrClosed)
	s.alarm.Stop()
	s.notifyLocked("")
}

// run calls the hooks.
func (c *Coordinator) run(after hooked) {
	if c.cfg.Hooks.OnRebalanced != nil {
		for _, r := range after {
			c.cfg.Hooks.OnRebalanced(r)
		}
	}
}

// shard returns the shard of a group. If there is no offsets topic it is made if create is set; otherwise the result is nil.
func (c *Coordinator) shard(ctx context.Context, group string, create bool) (*shard, error) {
	shards, err := c.open(ctx, create)
	if err != nil || shards == nil {
		return nil, err
	}
	return shards[PartitionFor(group, int32(len(shards)))], nil
}

func (c *Coordinator) open(ctx context.Context, create bool) ([]*shard, error) {
	if shards := c.shards.Load(); shards != nil {
		return *shards, nil
	}
	select {
	case <-c.opening:
		defer func() { c.opening <- struct{}{} }()
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-c.ctx.Done():
		return nil, ErrClosed
	}
	if shards := c.shards.Load(); shards != nil {
		return *shards, nil
	}
	if c.ctx.Err() != nil {
		return nil, ErrClosed
	}
	want := int32(0)
	if create {
		want = c.cfg.OffsetsPartitions
	}
	ctx, done := c.joined(ctx)
	defer done()
	n, err := c.store.OffsetsTopic(ctx, want)
	if err != nil {
		if c.ctx.Err() != nil {
			return nil, ErrClosed
		}
		return nil, fmt.Errorf("%w: %w", ErrCoordinatorNotAvailable, err)
	}
	if n <= 0 {
		return nil, nil
	}
	shards := make([]*shard, n)
	for p := range shards {
		shards[p] = newShard(c, int32(p))
	}
	c.shards.Store(&shards)
	return shards, nil
}

// joined returns a context that is done when ctx is or the coordinator closes.
func (c *Coordinator) joined(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(c.ctx, func() { cancel(ErrClosed) })
	return ctx, func() { stop(); cancel(nil) }
}

// watch loads what there is and then follows the topics: the offsets of deleted ones are deleted.
func (c *Coordinator) watch() {
	if shards, err := c.open(c.ctx, false); err == nil {
		for _, s := range shards {
			if s.lockLoaded(c.ctx) == nil {
				s.mu.Unlock()
			}
		}
	}
	for c.ctx.Err() == nil {
		now, err := c.store.Topics(c.ctx)
		if err == nil {
			c.topics.Store(&now)
			for _, ev := range c.deleted(now) {
				c.topicDeleted(ev)
			}
			_, err = c.store.WaitTopics(c.ctx, now.Version)
		}
		if err != nil {
			select { // the store is closing, or in trouble
			case <-time.After(time.Second):
			case <-c.ctx.Done():
			}
		}
	}
}

// A sighting says that a topic existed at some version of the topics.
type sighting struct {
	id      [16]byte
	version int64
}

// sight notes the topics in t.
func (c *Coordinator) sight(t Topics) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.seen == nil {
		c.seen = make(map[string]sighting)
	}
	for name, info := range t.Topics {
		if c.seen[name].version <= t.Version {
			c.seen[name] = sighting{info.ID, t.Version}
		}
	}
}

// deleted compares what was seen so far with all topics as they are now. Only what was seen to go counts: at a start
// there may be offsets of topics that are yet to be brought in.
func (c *Coordinator) deleted(now Topics) (events []EventTopicDeleted) {
	c.mu.Lock()
	for name, s := range c.seen {
		if still, ok := now.Topics[name]; s.version < now.Version && (!ok || still.ID != s.id) {
			events = append(events, EventTopicDeleted{Topic: name, ID: s.id})
			delete(c.seen, name)
		}
	}
	c.mu.Unlock()
	c.sight(now)
	return events
}

func (c *Coordinator) topicDeleted(ev EventTopicDeleted) {
	shards := c.shards.Load()
	if shards == nil {
		return
	}
	for _, s := range *shards {
		if s.lockLoaded(c.ctx) != nil {
			continue
		}
		now := time.Now()
		for _, e := range s.groups {
			s.step(e, now, ev)
		}
		s.mu.Unlock()
	}
}

// lookup returns what is known of the topics of tps; those that do not exist are left out.
func (c *Coordinator) lookup(ctx context.Context, partitions func(yield func(record.TopicPartition) bool)) (map[string]TopicInfo, error) {
	var seen map[string]TopicInfo
	if t := c.topics.Load(); t != nil {
		seen = t.Topics
	}
	var missing []string
	for tp := range partitions {
		if tp.Partition >= seen[tp.Topic].Partitions {
			missing = append(missing, tp.Topic)
		}
	}
	if len(missing) == 0 {
		return seen, nil
	}
	t, err := c.store.Topics(ctx, missing...) // perhaps they are newer than what the watcher saw
	if err != nil {
		return nil, err
	}
	c.sight(t)
	seen = maps.Clone(seen)
	if seen == nil {
		return t.Topics, nil
	}
	maps.Copy(seen, t.Topics)
	return seen, nil
}

// known reports whether tp exists.
// lookupNow is lookup that believes nothing seen before: a topic may have been deleted and created again since.
func (c *Coordinator) lookupNow(ctx context.Context, partitions func(yield func(record.TopicPartition) bool)) (map[string]TopicInfo, error) {
	var names []string
	for tp := range partitions {
		if !slices.Contains(names, tp.Topic) {
			names = append(names, tp.Topic)
		}
	}
	if len(names) == 0 {
		return nil, nil
	}
	t, err := c.store.Topics(ctx, names...)
	if err != nil {
		return nil, err
	}
	c.sight(t)
	return t.Topics, nil
}

func known(topics map[string]TopicInfo, tp record.TopicPartition) bool {
	return tp.Partition >= 0 && tp.Partition < topics[tp.Topic].Partitions
}

func topicIDs(topics map[string]TopicInfo, tps func(yield func(record.TopicPartition) bool)) map[string][16]byte {
	ids := make(map[string][16]byte)
	for tp := range tps {
		ids[tp.Topic] = topics[tp.Topic].ID
	}
	return ids
}

// newMemberID returns prefix and a random UUID (version 4), as Kafka makes member ids.
func newMemberID(prefix string) string {
	var u [16]byte
	rand.Read(u[:]) // never fails
	u[6], u[8] = u[6]&0x0f|0x40, u[8]&0x3f|0x80
	return fmt.Sprintf("%s-%x-%x-%x-%x-%x", prefix, u[:4], u[4:6], u[6:8], u[8:10], u[10:])
}

// checkID refuses group ids that cannot be stored. Members need a group with a name; offsets may be stored for the group "".
func checkID(group string, needed bool) error {
	if needed && group == "" || tooLongForString(group) {
		return ErrInvalidGroupID
	}
	return nil
}

var errFieldTooLong = errors.New("group: client id, host, instance id, protocol type or protocol name longer than 32767 bytes")
