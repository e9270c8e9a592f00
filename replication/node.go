package replication

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"
	"sync"

	"github.com/stratalog/strata/internal/alarm"
	"github.com/stratalog/strata/log"
	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/replication/internal/follow"
	"github.com/stratalog/strata/replication/internal/image"
	"github.com/stratalog/strata/topic"
	"github.com/stratalog/strata/vfs"
)

// A node is one incarnation of a broker: it owns the broker's directory and the replicas in it. It
// does what the metadata says and decides nothing.
type node struct {
	location    // fs is the session
	session     *vfs.Session
	disk        vfs.FS // that the session is on
	dir         *log.Directory
	directory   topic.ID // directory.id of meta.properties
	incarnation topic.ID
	logger      *slog.Logger
	base        partition.Config // of every partition
	opens       chan struct{}    // bounds how many partitions are opened at once outside of load
	metadata    nodeMetadata
	deletions   deletions
	asks        asks
	lag         alarm.Alarm // checkLag, while it leads one of several

	schedule schedule
	closing  chan struct{} // closed when closed is set

	mu       sync.RWMutex // guards the fields below
	replicas map[record.TopicPartition]*replica
	fetchers map[int32]*follow.Fetcher // by the leader that they copy from
	closed   error                     // what calls get since the node ends; nil: it does not
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

// place returns the place of a partition, making it. The caller makes sure that the topic is not
// deleted meanwhile.
func (n *node) place(tp record.TopicPartition, id topic.ID) *replica {
	n.mu.Lock()
	defer n.mu.Unlock()
	r := n.replicas[tp]
	if r == nil || r.id != id {
		r = &replica{node: n, tp: tp, id: id}
		r.err = n.closed
		n.replicas[tp] = r
	}
	return r
}

// all returns the replicas there are.
func (n *node) all() []*replica {
	n.mu.RLock()
	defer n.mu.RUnlock()
	rs := make([]*replica, 0, len(n.replicas))
	for _, r := range n.replicas {
		rs = append(rs, r)
	}
	return rs
}

// openReplica opens a replica whose directory is there.
func (n *node) openReplica(r *replica) (*partition.Partition, error) {
	a, ok := n.metadata.assignment(r.tp, r.id)
	if !ok {
		return nil, unknownPartition(r.tp.Topic, r.tp.Partition)
	}
	return partition.Open(filepath.Join(n.root, partitionDir(r.tp)), n.config(r, a))
}

// assume makes an open replica what the metadata says: the only one leads. On error it is closed.
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

// openPartition opens a replica, creating its directory if it has none, and makes it what the
// metadata says.
func (n *node) openPartition(r *replica) (*partition.Partition, error) {
	if err := n.claim(r); err != nil {
		return nil, fmt.Errorf("create partition %s: %w", partitionDir(r.tp), err)
	}
	p, err := n.openReplica(r)
	if err == nil {
		err = n.assume(r, p)
	}
	if err != nil {
		return nil, err
	}
	return p, nil
}

// beginNextEpoch makes the open partitions that have no leader lead in the epoch that they are
// about to be led in: it has begun before anybody hears of it.
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
	cfg.Topic, cfg.Partition = r.tp.Topic, r.tp.Partition
	return cfg
}

// offline takes a partition out of service until the next open.
func (n *node) offline(r *replica, err error) {
	n.logger.Error("partition is offline", slog.String("topic", r.tp.Topic), slog.Int("partition", int(r.tp.Partition)), slog.Any("err", err))
	r.fail(err)
}

// reconfigure gives the partitions of a topic their new settings.
func (n *node) reconfigure(t *image.Topic) error {
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
		}
	}
	return errors.Join(errs...)
}

// remove closes the replicas of a deleted topic and puts their directories aside, to be deleted
// when the delay is over.
func (n *node) remove(t *image.Topic) error {
	if n.ended() != nil { // its directories go when it is back
		return nil
	}
	var mine []*replica
	n.mu.Lock()
	for i := range t.Partitions {
		tp := record.TopicPartition{Topic: t.Name, Partition: int32(i)}
		if r := n.replicas[tp]; r != nil && r.id == t.ID {
			mine = append(mine, r)
			delete(n.replicas, tp)
		}
	}
	n.mu.Unlock()
	return forEach(mine, func(_ int, r *replica) error {
		n.forget(r)
		if p := r.retire(unknownPartition(t.Name, r.tp.Partition)); p != nil {
			// Not p.Remove: the directory must be gone at once, not file by file, or what a crash
			// leaves of it could not be told from a stray. What a failed Close did not save is to
			// be deleted anyway.
			_ = p.Close()
		}
		return n.putOut(r)
	})
}

// putOut puts the directory of a deleted topic's replica aside,
// to be deleted when the delay is over.
func (n *node) putOut(r *replica) error {
	aside, err := putAside(n.fs, n.root, partitionDir(r.tp), deleteSuffix)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("delete directory %s: %w", partitionDir(r.tp), err)
	}
	return n.deletions.add(aside, n.metadata.deleteDelay())
}

// ended returns what calls get since the node ends; nil: it serves.
func (n *node) ended() error {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return n.closed
}

// end makes every new call fail with reason, and no new goroutine begin.
func (n *node) end(reason error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed == nil {
		n.closed = reason
		close(n.closing)
	}
}

// resign makes the node refuse everything with ErrNotLeader, and wakes who waits for records. What
// is under way ends as it would have.
func (n *node) resign() {
	n.end(n.absent())
	for _, r := range n.all() {
		if p := r.dismiss(n.absent()); p != nil {
			p.Resign()
		}
	}
}

// cut ends the node as a killed process ends: appends that are not acknowledged yet never are, and
// nothing that it does reaches the disk any more.
func (n *node) cut() {
	n.resign()
	for _, r := range n.all() {
		if p := r.readable.Load(); p != nil {
			p.BecomeFollower()
		}
	}
	n.session.End()
}

func (n *node) absent() error {
	return fmt.Errorf("%w: broker %d is not there any more", ErrNotLeader, n.id)
}

// close ends everything that runs and closes the partitions. Calls fail with ErrClosed, unless the
// node has resigned.
func (n *node) close() error {
	n.end(ErrClosed)
	reason := n.ended()
	err := forEach(n.all(), func(_ int, r *replica) error {
		if p := r.retire(reason); p != nil {
			return p.Close()
		}
		return nil
	})
	n.wg.Wait()
	n.lag.Stop()
	n.lag.Wait()
	n.deletions.close()
	return err
}
