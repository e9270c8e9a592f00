package replication

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"
	"sync"

	"github.com/stratalog/strata/log"
	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/topic"
)

// A node is one incarnation of a broker: it owns the broker's directory and the replicas in it. It
// does what the metadata says and decides nothing.
type node struct {
	location
	dir         *log.Directory
	directory   topic.ID // directory.id of meta.properties
	incarnation topic.ID
	logger      *slog.Logger
	base        partition.Config // of every partition
	opens       chan struct{}    // bounds how many partitions are opened at once outside of load
	metadata    nodeMetadata
	deletions   deletions

	schedule schedule
	closing  <-chan struct{} // closed when the cluster begins to close

	mu       sync.RWMutex // guards the fields below
	replicas map[record.TopicPartition]*replica
	closed   bool
	wg       sync.WaitGroup
	cleaning bool // the cleaner runs
}

// run runs fn on a goroutine that close waits for; false: the broker is closed.
func (n *node) run(fn func()) bool {
	n.mu.RLock()
	defer n.mu.RUnlock()
	if n.closed {
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
		if n.closed {
			r.err = ErrClosed
		}
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

// lead makes an open replica the leader in the epoch that the metadata says. On error it is closed.
func (n *node) lead(r *replica, p *partition.Partition) error {
	a, ok := n.metadata.assignment(r.tp, r.id)
	if !ok {
		return errors.Join(unknownPartition(r.tp.Topic, r.tp.Partition), p.Close())
	}
	if err := p.BecomeLeader(a.leaderEpoch); err != nil {
		return errors.Join(err, p.Close())
	}
	n.startCleaner()
	return nil
}

// openPartition opens a replica, creating its directory if it has none, and makes it the leader.
func (n *node) openPartition(r *replica) (*partition.Partition, error) {
	if err := n.claim(r); err != nil {
		return nil, fmt.Errorf("create partition %s: %w", partitionDir(r.tp), err)
	}
	p, err := n.openReplica(r)
	if err == nil {
		err = n.lead(r, p)
	}
	if err != nil {
		return nil, err
	}
	return p, nil
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
func (n *node) reconfigure(t *topicImage) error {
	if n.isClosed() {
		return nil
	}
	var errs []error
	for i := range t.partitions {
		tp := record.TopicPartition{Topic: t.name, Partition: int32(i)}
		r := n.replica(tp)
		if r == nil || r.id != t.id {
			continue
		}
		p := r.awaitOpening()
		if a, ok := n.metadata.assignment(tp, t.id); ok && p != nil {
			errs = append(errs, p.Reconfigure(n.config(r, a)))
		}
	}
	return errors.Join(errs...)
}

// remove closes the replicas of a deleted topic and puts their directories aside, to be deleted
// when the delay is over.
func (n *node) remove(t *topicImage) error {
	if n.isClosed() { // fenced: its directories go when it is back
		return nil
	}
	var mine []*replica
	n.mu.Lock()
	for i := range t.partitions {
		tp := record.TopicPartition{Topic: t.name, Partition: int32(i)}
		if r := n.replicas[tp]; r != nil && r.id == t.id {
			mine = append(mine, r)
			delete(n.replicas, tp)
		}
	}
	n.mu.Unlock()
	return forEach(mine, func(_ int, r *replica) error {
		if p := r.retire(unknownPartition(t.name, r.tp.Partition)); p != nil {
			// Not p.Remove: the directory must be gone at once, not file by file, or what a crash
			// leaves of it could not be told from a stray. What a failed Close did not save is to
			// be deleted anyway.
			_ = p.Close()
		}
		aside, err := putAside(n.fs, n.root, partitionDir(r.tp), deleteSuffix)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("delete directory %s: %w", partitionDir(r.tp), err)
		}
		return n.deletions.add(aside, n.metadata.deleteDelay())
	})
}

func (n *node) isClosed() bool {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return n.closed
}

// close ends everything that runs and closes the partitions.
func (n *node) close() error {
	n.mu.Lock()
	n.closed = true
	n.mu.Unlock()
	err := forEach(n.all(), func(_ int, r *replica) error {
		if p := r.retire(ErrClosed); p != nil {
			return p.Close()
		}
		return nil
	})
	n.wg.Wait()
	n.deletions.close()
	return err
}
