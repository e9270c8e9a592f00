package replication

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"
	"sync"
	"time"

	"github.com/stratalog/strata/log"
	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/topic"
	"github.com/stratalog/strata/vfs"
)

// A broker owns one directory and the replicas in it. It does what the metadata says and decides
// nothing.
type broker struct {
	id     int32
	root   string
	fs     vfs.FS
	dir    *log.Directory
	logger *slog.Logger
	base   partition.Config // of every partition
	opens  chan struct{}    // bounds how many partitions are opened at once outside of start

	// deleteDelay is how long the directories of deleted topics stay.
	deleteDelay func() time.Duration
	deletions   deletions

	schedule schedule
	closing  <-chan struct{} // closed when the cluster begins to close

	// lookup returns what the metadata says of a partition; ok is false if it is not, or no
	// longer, there.
	lookup func(tp record.TopicPartition, id topic.ID) (assignment, bool)

	mu       sync.RWMutex // guards the fields below
	replicas map[record.TopicPartition]*replica
	closed   bool
	wg       sync.WaitGroup
	cleaning bool // the cleaner runs
}

// assignment is what a broker must know of a partition to host it.
type assignment struct {
	settings    topic.Settings
	leaderEpoch int32
	removed     func(topic.ID) bool // whether a topic of that id was deleted
}

// run runs fn on a goroutine that close waits for; false: the broker is closed.
func (b *broker) run(fn func()) bool {
	b.mu.RLock()
	defer b.mu.RUnlock()
	if b.closed {
		return false
	}
	b.wg.Go(fn)
	return true
}

// replica returns the place of a partition, nil if it has none yet.
func (b *broker) replica(tp record.TopicPartition) *replica {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return b.replicas[tp]
}

// place returns the place of a partition, making it. The caller makes sure that the topic is not
// deleted meanwhile.
func (b *broker) place(tp record.TopicPartition, id topic.ID) *replica {
	b.mu.Lock()
	defer b.mu.Unlock()
	r := b.replicas[tp]
	if r == nil || r.id != id {
		r = &replica{tp: tp, id: id}
		if b.closed {
			r.err = ErrClosed
		}
		b.replicas[tp] = r
	}
	return r
}

// all returns the replicas there are.
func (b *broker) all() []*replica {
	b.mu.RLock()
	defer b.mu.RUnlock()
	rs := make([]*replica, 0, len(b.replicas))
	for _, r := range b.replicas {
		rs = append(rs, r)
	}
	return rs
}

// load opens a replica whose directory is there.
func (b *broker) load(r *replica) (*partition.Partition, error) {
	a, ok := b.lookup(r.tp, r.id)
	if !ok {
		return nil, unknownPartition(r.tp.Topic, r.tp.Partition)
	}
	return partition.Open(filepath.Join(b.root, partitionDir(r.tp)), b.config(r, a))
}

// lead makes an open replica the leader in the epoch that the metadata says. On error it is closed.
func (b *broker) lead(r *replica, p *partition.Partition) error {
	a, ok := b.lookup(r.tp, r.id)
	if !ok {
		return errors.Join(unknownPartition(r.tp.Topic, r.tp.Partition), p.Close())
	}
	if err := p.BecomeLeader(a.leaderEpoch); err != nil {
		return errors.Join(err, p.Close())
	}
	b.startCleaner()
	return nil
}

// openPartition loads a replica, creating its directory if it has none, and makes it the leader.
func (b *broker) openPartition(r *replica) (*partition.Partition, error) {
	if err := b.claim(r); err != nil {
		return nil, fmt.Errorf("create partition %s: %w", partitionDir(r.tp), err)
	}
	p, err := b.load(r)
	if err == nil {
		err = b.lead(r, p)
	}
	if err != nil {
		return nil, err
	}
	return p, nil
}

// config returns a partition's whole configuration, which is about to become effective. It names no
// topic id: whose the directory is was found out before, by claim or recognize, and is not read
// again.
func (b *broker) config(r *replica, a assignment) partition.Config {
	r.compacted.Store(a.settings.Compacted())
	cfg := a.settings.Partition(b.base)
	cfg.Topic, cfg.Partition = r.tp.Topic, r.tp.Partition
	return cfg
}

// offline takes a partition out of service until the next open.
func (b *broker) offline(r *replica, err error) {
	b.logger.Error("partition is offline", slog.String("topic", r.tp.Topic), slog.Int("partition", int(r.tp.Partition)), slog.Any("err", err))
	r.fail(err)
}

// reconfigure gives the partitions of a topic their new settings.
func (b *broker) reconfigure(t *topicImage) error {
	var errs []error
	for i := range t.partitions {
		tp := record.TopicPartition{Topic: t.name, Partition: int32(i)}
		r := b.replica(tp)
		if r == nil || r.id != t.id {
			continue
		}
		p := r.awaitOpening()
		if a, ok := b.lookup(tp, t.id); ok && p != nil {
			errs = append(errs, p.Reconfigure(b.config(r, a)))
		}
	}
	return errors.Join(errs...)
}

// remove closes the replicas of a deleted topic and puts their directories aside, to be deleted
// when the delay is over.
func (b *broker) remove(t *topicImage) error {
	var mine []*replica
	b.mu.Lock()
	for i := range t.partitions {
		tp := record.TopicPartition{Topic: t.name, Partition: int32(i)}
		if r := b.replicas[tp]; r != nil && r.id == t.id {
			mine = append(mine, r)
			delete(b.replicas, tp)
		}
	}
	b.mu.Unlock()
	return forEach(mine, func(_ int, r *replica) error {
		if p := r.retire(unknownPartition(t.name, r.tp.Partition)); p != nil {
			// Not p.Remove: the directory must be gone at once, not file by file, or what a crash
			// leaves of it could not be told from a stray. What a failed Close did not save is to
			// be deleted anyway.
			_ = p.Close()
		}
		aside, err := putAside(b.fs, b.root, partitionDir(r.tp), deleteSuffix)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("delete directory %s: %w", partitionDir(r.tp), err)
		}
		return b.deletions.add(aside, b.deleteDelay())
	})
}

// close ends everything that runs and closes the partitions.
func (b *broker) close() error {
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
	err := forEach(b.all(), func(_ int, r *replica) error {
		if p := r.retire(ErrClosed); p != nil {
			return p.Close()
		}
		return nil
	})
	b.wg.Wait()
	b.deletions.close()
	return err
}
