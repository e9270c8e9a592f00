package group

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"

	"github.com/stratalog/strata/group/internal/classic"
	"github.com/stratalog/strata/group/internal/kinds"
	"github.com/stratalog/strata/group/internal/modern"
	"github.com/stratalog/strata/group/internal/sharing"
	"github.com/stratalog/strata/group/internal/streaming"
	"github.com/stratalog/strata/internal/coordinator"
	"github.com/stratalog/strata/internal/feed"
	"github.com/stratalog/strata/internal/loglimit"
	"github.com/stratalog/strata/internal/machine"
	"github.com/stratalog/strata/internal/memory"
	"github.com/stratalog/strata/internal/offsets"
)

// A Coordinator coordinates groups: those in the partitions of the offsets topic that the brokers
// of its Store lead. It sends each request to the broker that coordinates its group. On returns the
// coordinator of one broker.
//
// Every blocking method returns when its ctx is done; work accepted earlier stays accepted. A
// Coordinator has one goroutine that watches the topics, and one for each partition of the offsets
// topic that is currently being written or loaded. It is safe for concurrent use.
type Coordinator struct {
	*groups
	broker int32 // answers for this broker only; anyBroker: for all
}

// anyBroker is the broker of a Coordinator that answers for all.
const anyBroker = coordinator.AnyBroker

// groups is the shared state of the Coordinators of a process.
type groups struct {
	cfg     Config
	core    kinds.Config
	store   Store
	configs configStore // the store, if it keeps configurations of groups, else nil
	runtime *groupRuntime
	ctx     context.Context // done when closing
	cancel  context.CancelFunc
	wg      sync.WaitGroup // the watcher; writers of markers, which begin with mu held

	stopMarkers func() // ends writeMarker's calls

	evaluator *evaluator // of the members' regular expressions

	topics   atomic.Pointer[Topics]        // as last read by the watcher; nil: not yet
	snapshot atomic.Pointer[modern.Topics] // the same, or newer ones, as groups see them; nil: not yet

	mu      sync.Mutex                          // guards the fields below
	seen    map[string]seenTopic                // topics that exist as far as is known
	lags    lagSampler                          // of earlier calls of Lags
	oldest  map[lagging]oldestRecord            // of earlier calls of TimeLags
	waiting map[string]map[chan<- struct{}]bool // by group: channels to notify of a new generation

	memory *memory.Budget // of all coordinators of the cluster

	events *feed.Feed[Event]
	logged loglimit.Limit // of the lines about rebalances

	rebalances, commits atomic.Int64
}

type (
	groupRuntime = coordinator.Runtime[*kinds.Group, kinds.Event, offsets.Record]
	shard        = coordinator.Shard[*kinds.Group, kinds.Event, offsets.Record]
	request      = coordinator.Request[*kinds.Group, kinds.Event, offsets.Record]
)

// NewCoordinator returns a running Coordinator over store, which must outlive it. The offsets topic
// is loaded in the background; requests wait for the part they need. Members of an earlier process
// or Coordinator that were in the same process are removed. Members that joined over the network
// get a full session timeout to send a heartbeat. It returns an error only for an invalid cfg:
// *topic.ConfigError, or replication.ErrInvalidReplicationFactor if there are fewer brokers than
// OffsetsReplicas and no offsets topic yet.
func NewCoordinator(store Store, cfg Config) (*Coordinator, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	budget := new(memory.Budget)
	brokers, ofCluster := store.(*clusterStore)
	if ofCluster {
		budget = brokers.CoordinatorMemory()
		if err := brokers.mayCreate(cfg.OffsetsReplicas); err != nil {
			return nil, err
		}
	}
	c := &Coordinator{broker: anyBroker, groups: &groups{cfg: cfg, store: store, evaluator: newEvaluator(), seen: make(map[string]seenTopic), lags: make(lagSampler), oldest: make(map[lagging]oldestRecord), waiting: make(map[string]map[chan<- struct{}]bool), events: feed.New[Event](maxEvents), memory: budget}}
	c.configs, _ = store.(configStore)
	limits := classic.Limits{OffsetsRetention: cfg.OffsetsRetention, OffsetMetadataMax: cfg.OffsetMetadataMax, BatchBytes: cfg.MaxBatchBytes}
	c.core.Classic = classic.Config{InitialRebalanceDelay: cfg.InitialRebalanceDelay, MaxSize: cfg.MaxSize, Limits: limits, Process: newProcess()}
	c.core.Modern = modern.Config{MaxSize: cfg.ConsumerMaxSize, Timeouts: c.timeouts, Assignors: cfg.ConsumerAssignors, Limits: limits,
		Process: c.core.Classic.Process, Migration: cfg.ConsumerMigration.directions(), ClassicMaxSize: cfg.MaxSize}
	c.core.Streams = streaming.Config{MaxSize: cfg.Streams.MaxSize, Settings: c.streamsSettings, Limits: limits}
	c.core.Wanted = c.events.Wanted
	c.core.Sharing = sharing.Config{MaxSize: cfg.ShareMaxSize, Timeouts: c.shareTimeouts, Limits: limits}
	c.runtime = coordinator.New(c.kind(), topicStore{store, OffsetsShape{cfg.OffsetsPartitions, cfg.OffsetsReplicas}}, coordinator.Config{Topic: offsets.Topic,
		ExpiryInterval: cfg.ExpiryInterval, MaxBatchBytes: cfg.MaxBatchBytes, Logger: cfg.Logger, Notify: c.notify, Record: c.record})
	c.ctx, c.cancel = context.WithCancel(context.Background())
	c.wg.Go(c.watch)
	c.stopMarkers = func() {}
	if ofCluster {
		c.stopMarkers = brokers.WriteMarkersWith(offsets.Topic, c.writeMarker)
	}
	return c, nil
}

// newProcess returns the client host of members that live in this process as long as this
// Coordinator.
func newProcess() string {
	var nonce [8]byte
	rand.Read(nonce[:]) // never fails
	return classic.InProcess + hex.EncodeToString(nonce[:])
}

// kind returns the runtime's description of groups.
func (c *Coordinator) kind() coordinator.Kind[*kinds.Group, kinds.Event, offsets.Record] {
	return coordinator.Kind[*kinds.Group, kinds.Event, offsets.Record]{
		New: func(id string) *kinds.Group {
			g := kinds.New(id, &c.core)
			g.ChargeTo(c.memory.NewCharge())
			return g
		},
		ID:        func(r offsets.Record) string { return r.Key.Group },
		Partition: offsets.PartitionFor,
		Encode: func(r offsets.Record) (key, value []byte) {
			if !r.Tombstone() {
				value = r.AppendValue(nil)
			}
			return r.Key.AppendTo(nil), value
		},
		Decode: func(key, value []byte) (offsets.Record, bool, error) {
			r, known, err := offsets.ParseRecord(key, value)
			return r.Clone(), known, err
		},
		Tick: classic.EventTick{}, Expire: classic.EventExpire{}, Loaded: classic.EventLoaded{},
		Cancel: func(t machine.Ticket) kinds.Event { return classic.EventCancel{Ticket: t} },
	}
}

// Close ends every waiting call with ErrClosed and returns when the last goroutine has ended.
// Commits in progress may or may not be stored. It is idempotent and safe to call concurrently; the
// Store is not closed.
func (c *Coordinator) Close() error {
	c.stopMarkers()
	c.mu.Lock()
	c.cancel() // no marker begins to be written after this
	c.mu.Unlock()
	c.runtime.Close()
	c.wg.Wait()
	c.events.Close()
	return nil
}

// NotifyRebalanced sends to ch, until stop is called, whenever a rebalance of the group begins, or
// the group has a new generation or a new target assignment. A member in this process thus need not
// wait for its next heartbeat. When a member of the newer protocol leaves, only one channel is sent
// to, since one heartbeat is needed to trigger the next assignment. Sends never block: ch should
// have a capacity of one.
func (c *Coordinator) NotifyRebalanced(group string, ch chan<- struct{}) (stop func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.waiting[group] == nil {
		c.waiting[group] = map[chan<- struct{}]bool{}
	}
	c.waiting[group][ch] = true
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.waiting[group], ch)
		if len(c.waiting[group]) == 0 {
			delete(c.waiting, group)
		}
	}
}

// tellMembers notifies at most n waiting members of a group.
func (c *Coordinator) tellMembers(group string, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for ch := range c.waiting[group] {
		if n--; n < 0 {
			return
		}
		select {
		case ch <- struct{}{}:
		default: // its last notification is still unread
		}
	}
}

// newMemberID returns prefix and a random UUID (version 4), as Kafka makes member ids.
func newMemberID(prefix string) string {
	u := randomUUID()
	return fmt.Sprintf("%s-%x-%x-%x-%x-%x", prefix, u[:4], u[4:6], u[6:8], u[8:10], u[10:])
}

// newUUID returns a random UUID (version 4) as members of the newer protocol make their ids: in
// base64, 22 characters.
func newUUID() string {
	u := randomUUID()
	return base64.RawURLEncoding.EncodeToString(u[:])
}

func randomUUID() (u [16]byte) {
	rand.Read(u[:]) // never fails
	u[6], u[8] = u[6]&0x0f|0x40, u[8]&0x3f|0x80
	return u
}

// checkID rejects group ids that cannot be stored, and the id "" if needed is set. Members need an
// id; offsets may be stored for the group "".
func checkID(group string, needed bool) error {
	if needed && group == "" || tooLong(group) {
		return ErrInvalidGroupID
	}
	return nil
}

// tooLong reports whether s cannot be stored in a record.
func tooLong(s string) bool { return len(s) > math.MaxInt16 }

var errFieldTooLong = errors.New("group: client id, host, instance id, protocol type or protocol name longer than 32767 bytes")
