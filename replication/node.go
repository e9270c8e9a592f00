package replication

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/stratalog/strata/internal/alarm"
	"github.com/stratalog/strata/log"
	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/replication/internal/follow"
	"github.com/stratalog/strata/replication/internal/image"
	"github.com/stratalog/strata/replication/internal/metalog"
	"github.com/stratalog/strata/topic"
	"github.com/stratalog/strata/vfs"
)

// A node is one incarnation of a broker: it owns the broker's directory and the replicas in it. It
// follows the metadata and decides nothing.
type node struct {
	location    // fs is the session
	session     *vfs.Session
	disk        vfs.FS         // that the session is on
	dir         *log.Directory // nil in a check that opens nothing
	directory   topic.ID       // directory.id of meta.properties
	origin      metalog.Origin
	founding    *founding // nil: the identity is on stable storage. Guarded by changing, or by open
	incarnation topic.ID
	missing     []place // replicas that nothing is left of, or less than there was; see cannotServe
	broken      []place // replicas of several that cannot be opened
	orderly     bool    // the last incarnation ended in order; see recall
	powerCut    bool    // it did not, and the machine may have gone down since: unsynced data may be lost
	logger      *slog.Logger
	base        partition.Config // of every partition
	opens       chan struct{}    // bounds how many partitions are opened at once outside of load
	lookups     chan struct{}    // bounds how many calls of ListOffsets read the disk at once
	metadata    nodeMetadata
	deletions   deletions
	asks        asks
	evidence    evidence
	lag         alarm.Alarm // checkLag, while it leads one of several
	unsettled   alarm.Alarm // settleFailed, while a replica does not agree with the metadata
	meters      [ends]meter
	trials      trials
	isolated    atomic.Bool // it is fenced and runs: see standDown; written by the holder of changing
	joined      time.Time   // when it began to serve; zero: when the cluster was opened. Guarded by Cluster.mu

	schedule schedule
	closing  chan struct{} // closed when closed is set

	mu       sync.RWMutex // guards the fields below
	replicas map[record.TopicPartition]*replica
	// the result of all, never changed in place; nil if replicas has changed since
	inOrder  []*replica
	fetchers map[int32]*follow.Fetcher                 // by the leader that they copy from
	endings  map[record.TopicPartition]<-chan struct{} // see endingLocked
	closed   error                                     // the error of calls since the node ends; nil: it does not
	wg       sync.WaitGroup
	cleaning bool // the cleaner runs
}

// run runs fn on a goroutine that close waits for; false: the broker is closed.
func (n *node) run(fn func()) bool {
	n.mu.RLock()
	defer n.mu.RUnlock()
	if n.closed != nil {
		return false
	}
	n.wg.Go(fn)
	return true
}

// replica returns the place of a partition, nil if it has none yet.
func (n *node) replica(tp record.TopicPartition) *replica {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return n.replicas[tp]
}

// place returns the replica of a partition, creating it if there is none. The caller makes sure
// that the topic is not deleted meanwhile, with Cluster.mu, changing, or because the broker does
// not serve yet. Otherwise a late call with the id of a deleted topic would replace the replica of
// the next topic.
func (n *node) place(tp record.TopicPartition, id topic.ID) *replica {
	n.mu.Lock()
	defer n.mu.Unlock()
	r := n.replicas[tp]
	if r == nil || r.id != id {
		r = &replica{node: n, tp: tp, id: id, after: n.endings[tp]}
		r.err = n.closed
		n.replicas[tp], n.inOrder = r, nil
	}
	return r
}

// all returns the existing replicas, by topic and partition, so that operations on all of them have
// the same order each time. Callers must not change the slice.
func (n *node) all() []*replica {
	n.mu.RLock()
	rs := n.inOrder
	n.mu.RUnlock()
	if rs != nil {
		return rs
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	rs = slices.SortedFunc(maps.Values(n.replicas), func(a, b *replica) int {
		return cmp.Or(strings.Compare(a.tp.Topic, b.tp.Topic), cmp.Compare(a.tp.Partition, b.tp.Partition))
	})
	n.inOrder = rs
	return rs
}

// openReplica opens a replica whose directory was found. named is as in judgement.
func (n *node) openReplica(r *replica, named bool) (*partition.Partition, error) {
	a, ok := n.metadata.assignment(r.tp, r.id)
	if !ok {
		return nil, unknownPartition(r.tp.Topic, r.tp.Partition)
	}
	dir := filepath.Join(n.root, partitionDir(r.tp))
	p, err := partition.Open(dir, n.configOfFound(r, a, named))
	return p, errOtherLog(dir, err)
}

// configOfFound is the configuration of a replica whose directory was found. Where
// partition.metadata does not name the replica, the state of its log must.
func (n *node) configOfFound(r *replica, a assignment, named bool) partition.Config {
	cfg := n.config(r, a)
	cfg.Log.Known, cfg.Log.IdentityRequired = n.knownOf(r), !named
	return cfg
}

// errOtherLog is the error of a directory that has the log of another partition, or of the
// metadata. Any other error is returned unchanged.
func errOtherLog(dir string, err error) error {
	if !errors.Is(err, log.ErrOtherLog) {
		return err
	}
	return &DirectoryError{
		Dir: dir, Reason: ErrRecordsMissing, Err: errors.New("its files belong to another log"),
		Advice: "put the partition's directory back in its place",
	}
}

// identity is the identity of the replica's log.
func (r *replica) identity() uint64 {
	return max(1, xxhash.Sum64(binary.BigEndian.AppendUint32(r.id[:], uint32(r.tp.Partition))))
}

// assume gives an open replica its role from the metadata: an only replica leads. On error it is
// closed.
func (n *node) assume(r *replica, p *partition.Partition) error {
	epoch, several, ok := n.metadata.leaderEpoch(r.tp, r.id)
	if !ok {
		return errors.Join(unknownPartition(r.tp.Topic, r.tp.Partition), p.Close())
	}
	if several {
		return n.assumeOneOfSeveral(r, p)
	}
	if err := p.BecomeLeader(epoch); err != nil {
		return errors.Join(err, p.Close())
	}
	n.startCleaner()
	return nil
}

// assumeOneOfSeveral is assume of a replica that there are others of.
func (n *node) assumeOneOfSeveral(r *replica, p *partition.Partition) error {
	r.hold(p)
	n.settle(r)
	if err := r.why(); err != nil {
		r.hold(nil)
		return errors.Join(err, p.Close())
	}
	return nil
}

// openPartition opens a replica, creating its directory if it has none, and gives it its role from
// the metadata.
func (n *node) openPartition(r *replica) (*partition.Partition, error) {
	a, ok := n.metadata.assignment(r.tp, r.id)
	if !ok {
		return nil, fmt.Errorf("create partition %s: %w", partitionDir(r.tp), unknownPartition(r.tp.Topic, r.tp.Partition))
	}
	synced, err := n.claim(r, a)
	if err != nil {
		return nil, fmt.Errorf("create partition %s: %w", partitionDir(r.tp), err)
	}
	cfg := n.config(r, a)
	if synced {
		cfg.Log.Beside = nil
	}
	p, err := partition.Open(filepath.Join(n.root, partitionDir(r.tp)), cfg)
	if err != nil {
		return nil, err
	}
	if err := n.noteBegun(r); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	if err := n.assume(r, p); err != nil {
		return nil, err
	}
	return p, nil
}

// beginNextEpoch begins the next epoch in the open partitions that have no leader: it has begun
// before it is published.
func (n *node) beginNextEpoch() {
	for _, r := range n.all() {
		epoch, ok := n.metadata.nextEpoch(r.tp, r.id)
		p := r.readable.Load()
		if !ok || p == nil {
			continue
		}
		if err := p.BecomeLeader(epoch); err != nil {
			n.offline(r, err)
		}
	}
}

// config returns a partition's whole configuration, which is about to become effective. It names no
// topic id: whose the directory is was found out before, by claim or recognize, and is not read
// again.
func (n *node) config(r *replica, a assignment) partition.Config {
	r.compacted.Store(a.settings.Compacted())
	cfg := a.settings.Partition(n.base)
	cfg.Topic, cfg.Partition, cfg.Log.Identity = r.tp.Topic, r.tp.Partition, r.identity()
	cfg.Damaged = r.foundDamage
	cfg.HighWatermark = n.evidence.found[r.place()].highWatermark
	return cfg
}

// cannotServe handles a replica of this broker that cannot be opened. An only replica is offline.
// One of several that has lost its records is rebuilt from its leader, and the rest of its files
// is then set aside. If one of several cannot be opened for another reason, it is offline. Neither
// leads before another replica that is in sync.
func (n *node) cannotServe(r *replica, err error) {
	if typed := notRegular(filepath.Join(n.root, partitionDir(r.tp)), err); typed != nil {
		err = typed
	}
	_, several, _ := n.metadata.leaderEpoch(r.tp, r.id)
	lost := errors.Is(err, log.ErrMissingSegment) || errors.Is(err, ErrRecordsMissing)
	err = n.named(n.withAdvice(r, err, several))
	if !several || !lost {
		n.offline(r, err)
	}
	if lost {
		n.keepBegun(r.place())
	}
	if !several {
		return
	}
	if lost {
		r.setLoss(err)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if !lost {
		n.broken = append(n.broken, r.place())
		return
	}
	if !slices.Contains(n.missing, r.place()) {
		n.missing = append(n.missing, r.place())
	}
	n.logger.Error("replica has lost what it had, and is made anew from its leader", slog.String("topic", r.tp.Topic),
		slog.Int("partition", int(r.tp.Partition)), slog.Int("broker", int(n.id)), slog.Any("err", err))
}

// offline takes a partition out of service until the next open.
func (n *node) offline(r *replica, err error) {
	n.logger.Error("partition is offline", slog.String("topic", r.tp.Topic), slog.Int("partition", int(r.tp.Partition)), slog.Any("err", err))
	r.fail(err)
}

// reconfigure gives the partitions of a topic their new settings. It calls step after each.
func (n *node) reconfigure(t *image.Topic, step func()) error {
	if n.ended() != nil {
		return nil
	}
	var errs []error
	for i := range t.Partitions {
		tp := record.TopicPartition{Topic: t.Name, Partition: int32(i)}
		r := n.replica(tp)
		if r == nil || r.id != t.ID {
			continue
		}
		p := r.awaitOpening()
		if a, ok := n.metadata.assignment(tp, t.ID); ok && p != nil {
			errs = append(errs, p.Reconfigure(n.config(r, a)))
			n.report(r) // it may have synced, for another policy
			step()
		}
	}
	return errors.Join(errs...)
}

// remove closes the replicas of a deleted topic and renames their directories, to be deleted after
// the delay. It calls step after each.
func (n *node) remove(t *image.Topic, step func()) error {
	if n.ended() != nil { // its directories go when it is back
		return nil
	}
	var mine []ending
	n.mu.Lock()
	for i := range t.Partitions {
		tp := record.TopicPartition{Topic: t.Name, Partition: int32(i)}
		if r := n.replicas[tp]; r != nil && r.id == t.ID && n.closed == nil {
			mine = append(mine, n.endingLocked(r))
		}
	}
	n.mu.Unlock()
	return forEach(mine, func(_ int, e ending) error {
		defer e.done()
		r := e.r
		n.forget(r)
		if p := r.retire(unknownPartition(t.Name, r.tp.Partition)); p != nil {
			// Not p.Remove: the directory must disappear at once, not file by file. Otherwise the
			// rest that a crash leaves could not be distinguished from a stray. Data that a failed
			// Close did not save is to be deleted anyway.
			_ = p.Close()
		}
		r.awaitDirectory()
		err := n.putOut(r)
		step()
		return err
	})
}

// An ending closes a replica that the broker no longer has. The disk may be slow, and no caller may
// wait for it: see heed. Until done, the directory and its name belong to the replica. The next
// replica of that name waits, and so does the close of the node, whose directory cannot be released
// while a log in it is open.
type ending struct {
	r    *replica
	done func()
}

// endingLocked takes a replica out of the broker's. Callers hold mu, and have seen that the node is
// not closed.
func (n *node) endingLocked(r *replica) ending {
	over := make(chan struct{})
	delete(n.replicas, r.tp)
	n.inOrder = nil
	n.endings[r.tp] = over
	n.wg.Add(1)
	return ending{r, func() {
		n.mu.Lock()
		if n.endings[r.tp] == over {
			delete(n.endings, r.tp)
		}
		n.mu.Unlock()
		close(over)
		n.wg.Done()
	}}
}

// putOut renames the directory of a deleted topic's replica, to be deleted after the delay.
func (n *node) putOut(r *replica) error {
	n.forgetBegun(r.place())
	aside, err := putAside(n.fs, n.root, partitionDir(r.tp), deleteSuffix)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("delete directory %s: %w", partitionDir(r.tp), err)
	}
	return n.deletions.add(aside, n.metadata.deleteDelay())
}
