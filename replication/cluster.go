package replication

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stratalog/strata/internal/alarm"
	"github.com/stratalog/strata/internal/clientquota"
	"github.com/stratalog/strata/internal/feed"
	"github.com/stratalog/strata/internal/memory"
	"github.com/stratalog/strata/internal/watermark"
	"github.com/stratalog/strata/replication/internal/byid"
	"github.com/stratalog/strata/replication/internal/follow"
	"github.com/stratalog/strata/replication/internal/image"
	"github.com/stratalog/strata/replication/internal/metalog"
)

// A Cluster is a cluster of brokers in one process. All methods are safe for concurrent use.
//
// A change of the metadata takes four steps. The controller decides on it from the image, writes it
// to its log as one batch, and applies it to the image; then the brokers act on it. Open rebuilds
// the image from the same log with the same code.
type Cluster struct {
	cfg       Config
	defaults  map[string]string // the keys of cfg.Defaults
	logger    *slog.Logger
	clusterID string
	meta      *metalog.Log
	stats     counters
	rotation  fetchRotation
	ids       producerIDs
	network   follow.Network
	events    *feed.Feed[Event]
	txns      txnQuestions
	memory    memory.Budget // of coordinators

	founds   bool // open makes a new cluster of one broker; see founding
	founders bool // open makes a new cluster: directories that it makes are of its first brokers
	// fresh is the broker of a new cluster whose founding has not ended, nil in any other; guarded
	// by changing. unsecured means that nothing of it is on stable storage; the holder of changing
	// clears it.
	fresh     *node
	unsecured atomic.Bool
	foundDue  alarm.Alarm // foundIdle; armed when open has made a new cluster

	// releadDue means that partitions may have a leader that does not serve, because the metadata
	// could not be written. Guarded by changing.
	releadDue bool

	removals atomic.Int64 // topics that were deleted; counted with changing held, read by backups

	// changing has room for one value: the goroutine that changes the metadata sends it before the
	// decision, and receives it when all effects of the change are complete. A backup does so
	// while it copies the metadata.
	changing chan struct{}
	// turnover has room for one value: the holder starts or stops a broker, and takes changing
	// after it. So no second broker is cut off before the metadata has the first as fenced.
	turnover chan struct{}
	closing  chan struct{}  // closed when Close begins
	done     chan struct{}  // closed when Close has completed
	wg       sync.WaitGroup // changes under way
	balance  alarm.Alarm    // balanceLeaders; armed while other replicas than the preferred ones lead
	sessions alarm.Alarm    // reviewSessions; armed while a session is about to be over, or something fails
	// unsettled: something failed that was due about sessions. Of reviewSessions.
	unsettled bool

	nearestAt atomic.Int64 // paces maySearch, in ns since the Unix epoch

	mu       sync.RWMutex // guards the fields below; never held while waiting
	image    *image.Image
	moment   moment            // that image is of
	brokers  map[int32]*broker // all whose place is known
	turning  int32             // the broker that the holder of turnover starts or stops; 0: none
	nodes    map[int32]*node   // the brokers that serve. Replaced, never written to, once open has returned
	waiters  watermark.Queue[chan struct{}]
	loaded   bool // the brokers present at open have loaded their partitions
	closed   bool
	closeErr error

	markerWriters sync.Map // topic name -> MarkerWriter; see WriteMarkersWith

	holdTransactions atomic.Pointer[func(f func())] // nil: there is no transaction coordinator

	controller      atomic.Int32    // the broker that is controller; written by the holder of changing
	controllerEpoch atomic.Int32    // likewise
	failures        map[int32]error // why open continues without these brokers

	// rates are the rates of the image, for callers without the lock; nil: no broker has one.
	// Written under mu.
	rates   atomic.Pointer[rates]
	access  atomic.Pointer[access]             // the image's access control; nil: it has none. Written as rates
	quotas  atomic.Pointer[clientquota.Set]    // the image's client quotas; nil: it has none. Written as rates
	groups  atomic.Pointer[image.NamedConfigs] // the image's; nil: it has none. Written as rates
	metrics atomic.Pointer[clientMetrics]      // the image's, never nil. Written as rates
	version atomic.Int64                       // image.version, for callers without the lock; written under mu
}

// maxOvertaken is how often Open begins again because of other opens beside it.
const maxOvertaken = 10

// Open opens the cluster in cfg.Dir and recovers it; if there is none, it creates one. When Open
// returns, every partition with files is open, or is offline because it is damaged. The calls and
// the Status of an offline partition return the reason. Open also completes the creation or
// deletion of a topic that a crash interrupted.
//
// For a new cluster of one broker Open does not wait for the disk. The first call whose result must
// be durable waits: a change of the metadata, an InitProducerID, or a Backup. If the disk fails
// then, that call and all later ones return the error, Close included. The next Open creates the
// cluster again.
//
// If Open is called concurrently for one directory, one call gets the cluster, new or not, and the
// others return ErrLocked.
//
// Open returns a *DirectoryError for a directory that is in use, damaged, of a newer format, or of
// another program. A broker whose disk fails, or whose meta.properties or copy of the metadata is
// damaged, is not started if the others can run without it; otherwise Open returns that error.
func Open(cfg Config) (*Cluster, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	defaults, err := cfg.Defaults.Explicit()
	if err != nil {
		return nil, fmt.Errorf("replication: Defaults: %w", err)
	}
	for range maxOvertaken {
		c, err := openOnce(cfg, defaults)
		if !errors.Is(err, errOvertaken) {
			return c, err
		}
	}
	return nil, directoryError(cfg.Dir, ErrLocked, errOvertaken)
}

// openOnce is one attempt to open the cluster. On error nothing of it is left.
func openOnce(cfg Config, defaults map[string]string) (*Cluster, error) {
	c := &Cluster{
		cfg: cfg, defaults: defaults, logger: cfg.Logger, image: image.New(), nodes: map[int32]*node{}, brokers: map[int32]*broker{}, failures: map[int32]error{},
		changing: make(chan struct{}, 1), turnover: make(chan struct{}, 1), closing: make(chan struct{}), done: make(chan struct{}),
		events: feed.New[Event](maxEvents),
	}
	c.metrics.Store(&clientMetrics{})
	c.txns = txnQuestions{c: c, ids: map[string]*txnQueue{}}
	c.txns.ctx, c.txns.cancel = context.WithCancel(context.Background())
	c.balance.Do, c.sessions.Do, c.foundDue.Do = c.balanceLeaders, c.reviewSessions, c.foundIdle
	follow.Watch(&c.network, func() { c.sessions.By(time.Now()) })
	c.changing <- struct{}{} // leaders that serve already send requests to the controller
	err := c.open()
	<-c.changing
	if err != nil {
		close(c.closing)
		c.txns.cancel()
		return nil, errors.Join(err, c.shut())
	}
	return c, nil
}

// Close rejects new calls, ends every wait with ErrClosed, waits for changes and cleaning in
// progress, and closes all partitions. It may be called repeatedly and concurrently. Each call
// returns when the cluster is closed, with the same error.
func (c *Cluster) Close() error {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		<-c.done
		return c.closeErr
	}
	c.closed = true
	c.mu.Unlock()
	close(c.closing)
	c.txns.cancel()
	c.wg.Wait()
	err := c.shut()
	c.events.Close()
	c.mu.Lock()
	c.closeErr = err
	c.mu.Unlock()
	close(c.done)
	return err
}

// Shutdown is Close, but stops waiting when ctx ends; closing continues in the background.
func (c *Cluster) Shutdown(ctx context.Context) error {
	result := make(chan error, 1)
	go func() { result <- c.Close() }()
	return outcome(ctx, result)
}

// shut closes everything that open has opened, in reverse order.
func (c *Cluster) shut() error {
	for _, a := range []*alarm.Alarm{&c.balance, &c.sessions, &c.foundDue} {
		a.Stop()
		a.Wait()
	}
	var failed error
	for _, n := range c.servingNodes() {
		failed = n.founding.wait("")
	}
	errs := []error{c.onNodes((*node).close)}
	if c.meta != nil {
		if err := c.meta.Close(); err != nil { // with the error of the founding
			failed = err
		}
	}
	errs = append(errs, failed, c.closeDirectories())
	return errors.Join(errs...)
}

// closeDirectories closes the directories of all brokers, the first one's last. An open locks that
// one first. So an open that gets the lock finds all others closed, and is not rejected while it
// holds the lock and this open begins again.
func (c *Cluster) closeDirectories() error {
	nodes := c.servingNodes()
	if len(nodes) == 0 {
		return nil
	}
	err := forEach(nodes[1:], func(_ int, n *node) error { return n.leave() })
	return errors.Join(err, nodes[0].leave())
}

// onNodes calls fn for all brokers that serve, at the same time.
func (c *Cluster) onNodes(fn func(*node) error) error {
	return forEach(c.servingNodes(), func(_ int, n *node) error { return fn(n) })
}

func (c *Cluster) servingNodes() []*node { return byid.Values(c.serving()) }

// serving returns the nodes of the brokers that serve. They must not be written to.
func (c *Cluster) serving() map[int32]*node {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.nodes
}

// allReplicas returns the replicas that there are on all brokers that serve.
func (c *Cluster) allReplicas() (all []*replica) { return replicasOn(c.serving()) }

func replicasOn(nodes map[int32]*node) (all []*replica) {
	for _, n := range nodes {
		all = append(all, n.all()...)
	}
	return all
}
