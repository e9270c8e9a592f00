package group

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stratalog/strata/group/internal/classic"
	"github.com/stratalog/strata/group/offsets"
	"github.com/stratalog/strata/internal/coordinator"
	"github.com/stratalog/strata/internal/machine"
	"github.com/stratalog/strata/record"
)

// A Coordinator runs the groups whose partitions of the offsets topic are led by the brokers of its
// Store: a request goes to the broker that coordinates its group, wherever that is. On returns the
// coordinator of one broker.
//
// Every blocking method ends when its ctx does; what was accepted before stays accepted. A
// Coordinator has one goroutine that watches the topics, and one more for each partition of the
// offsets topic that is just being written or loaded. It is safe for concurrent use.
type Coordinator struct {
	*groups
	broker int32 // answers for this broker only; anyBroker: for all
}

// anyBroker is the broker of a Coordinator that answers for all.
const anyBroker = -1

// groups is what the Coordinators of a process share.
type groups struct {
	cfg     Config
	core    classic.Config
	store   Store
	runtime *groupRuntime
	ctx     context.Context // done when closing
	cancel  context.CancelFunc
	wg      sync.WaitGroup // the watcher

	topics atomic.Pointer[Topics] // as the watcher last saw them; nil: not yet

	mu      sync.Mutex            // guards the fields below
	seen    map[string]sighting   // topics that exist as far as is known
	samples map[string]lagSamples // by group: what Lags saw before

	rebalances, commits atomic.Int64
}

type (
	groupRuntime = coordinator.Runtime[*classic.Group, classic.Event, offsets.Record]
	shard        = coordinator.Shard[*classic.Group, classic.Event, offsets.Record]
	request      = coordinator.Request[*classic.Group, classic.Event, offsets.Record]
)

// NewCoordinator returns a running Coordinator over store, which must outlive it. What the offsets
// topic holds is loaded in the background; requests wait for the part they need. Members that lived
// in an earlier process, or with an earlier Coordinator, are gone; those that came over the wire
// have a full session to show that they are there. It returns an error only for a cfg that makes no
// sense.
func NewCoordinator(store Store, cfg Config) (*Coordinator, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	c := &Coordinator{broker: anyBroker, groups: &groups{cfg: cfg, store: store, seen: make(map[string]sighting), samples: make(map[string]lagSamples)}}
	c.core = classic.Config{InitialRebalanceDelay: cfg.InitialRebalanceDelay, MaxSize: cfg.MaxSize, OffsetsRetention: cfg.OffsetsRetention,
		OffsetMetadataMax: cfg.OffsetMetadataMax, Process: newProcess()}
	c.runtime = coordinator.New(c.kind(), topicStore{store, cfg.OffsetsPartitions}, coordinator.Config{Topic: offsets.Topic,
		ExpiryInterval: cfg.ExpiryInterval, MaxBatchBytes: cfg.MaxBatchBytes, Logger: cfg.Logger, Notify: c.rebalanced})
	c.ctx, c.cancel = context.WithCancel(context.Background())
	c.wg.Go(c.watch)
	return c, nil
}

// newProcess returns the client host of members that live in this process as long as this
// Coordinator.
func newProcess() string {
	var nonce [8]byte
	rand.Read(nonce[:]) // never fails
	return classic.InProcess + hex.EncodeToString(nonce[:])
}

// kind tells the runtime of groups.
func (c *Coordinator) kind() coordinator.Kind[*classic.Group, classic.Event, offsets.Record] {
	return coordinator.Kind[*classic.Group, classic.Event, offsets.Record]{
		New: func(id string) *classic.Group { return classic.New(id, &c.core) },
		ID:  func(r offsets.Record) string { return r.Key.Group },
		Encode: func(r offsets.Record) (key, value []byte) {
			switch {
			case r.Offset != nil:
				value = r.Offset.AppendTo(nil)
			case r.Group != nil:
				value = r.Group.AppendTo(nil)
			}
			return r.Key.AppendTo(nil), value
		},
		Decode: func(key, value []byte) (offsets.Record, bool, error) {
			r, known, err := offsets.ParseRecord(key, value)
			return r.Clone(), known, err
		},
		Overwrites: func(r offsets.Record) (any, bool) { return r.Key, r.Key.Type == offsets.KeyOffset },
		Tick:       classic.EventTick{}, Expire: classic.EventExpire{}, Loaded: classic.EventLoaded{},
		Cancel: func(t machine.Ticket) classic.Event { return classic.EventCancel{Ticket: t} },
	}
}

// Close ends every waiting call with ErrClosed and returns when the last goroutine has ended.
// Commits that were under way may or may not be stored. It is idempotent and safe to call
// concurrently; the Store is not closed.
func (c *Coordinator) Close() error {
	c.cancel()
	c.runtime.Close()
	c.wg.Wait()
	return nil
}

// rebalanced is told of each new generation.
func (c *Coordinator) rebalanced(notice any) {
	r := notice.(Rebalanced)
	c.rebalances.Add(1)
	c.cfg.Logger.Info("rebalanced", "group", r.Group, "generation", r.Generation, "members", r.Members, "protocol", r.Protocol)
	if c.cfg.Hooks.OnRebalanced != nil {
		c.cfg.Hooks.OnRebalanced(r)
	}
}

// shard returns the shard of a group. If there is no offsets topic it is made if create is set;
// otherwise the result is nil.
func (c *Coordinator) shard(ctx context.Context, group string, create bool) (*shard, error) {
	shards, err := c.runtime.Shards(ctx, create && c.broker == anyBroker)
	if err == nil && shards == nil && c.broker != anyBroker {
		err = ErrNotCoordinator // nobody coordinates anything yet
	}
	if err != nil || shards == nil {
		return nil, err
	}
	s := shards[offsets.PartitionFor(group, int32(len(shards)))]
	if !c.leads(s.Partition()) {
		return nil, ErrNotCoordinator
	}
	return s, nil
}

// watch loads what there is and then follows the topics: the offsets of deleted ones are deleted.
func (c *Coordinator) watch() {
	if shards, err := c.runtime.Shards(c.ctx, false); err == nil {
		for _, s := range shards {
			_ = s.Each(c.ctx, func(string, *classic.Group) {}) // an error is met again, and told, by the requests that need it
		}
	}
	for c.ctx.Err() == nil {
		now, err := c.store.Topics(c.ctx)
		if err == nil {
			c.topics.Store(&now)
			for _, ev := range c.deleted(now) {
				for _, s := range c.runtime.Known() {
					_ = s.StepAll(c.ctx, ev) // a partition that cannot be loaded keeps the offsets
				}
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
	for name, info := range t.Topics {
		if c.seen[name].version <= t.Version {
			c.seen[name] = sighting{info.ID, t.Version}
		}
	}
}

// deleted compares what was seen so far with all topics as they are now. Only what was seen to go
// counts: at a start there may be offsets of topics that are yet to be brought in.
func (c *Coordinator) deleted(now Topics) (events []classic.Event) {
	c.mu.Lock()
	for name, s := range c.seen {
		if still, ok := now.Topics[name]; s.version < now.Version && (!ok || still.ID != s.id) {
			events = append(events, classic.EventTopicDeleted{Topic: name, ID: s.id})
			delete(c.seen, name)
		}
	}
	c.mu.Unlock()
	c.sight(now)
	return events
}

// versioned is a Store in the same process, whose version of the topics costs no more than reading
// a number.
type versioned interface{ MetadataVersion() int64 }

// current reports whether nothing has changed since the given version of the topics. A Store that
// cannot tell counts as unchanged: the watcher sees changes a little later.
func (c *Coordinator) current(version int64) bool {
	v, ok := c.store.(versioned)
	return !ok || v.MetadataVersion() == version
}

// lookup returns what is known of the topics of tps; those that do not exist are left out.
func (c *Coordinator) lookup(ctx context.Context, partitions func(yield func(record.TopicPartition) bool)) (map[string]TopicInfo, error) {
	var seen map[string]TopicInfo
	if t := c.topics.Load(); t != nil && c.current(t.Version) {
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

// lookupNow is lookup that believes nothing seen before: a topic may have been deleted and created
// again since.
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

// known reports whether tp exists.
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

// checkID refuses group ids that cannot be stored. Members need a group with a name; offsets may be
// stored for the group "".
func checkID(group string, needed bool) error {
	if needed && group == "" || tooLong(group) {
		return ErrInvalidGroupID
	}
	return nil
}

// tooLong reports whether s cannot be stored in a record.
func tooLong(s string) bool { return len(s) > math.MaxInt16 }

var errFieldTooLong = errors.New("group: client id, host, instance id, protocol type or protocol name longer than 32767 bytes")
