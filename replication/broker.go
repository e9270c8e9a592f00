package replication

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

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

	// partitionImage returns what the metadata says of a partition; ok is false if it is not, or no
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

// maxOpens is how many partitions are opened at once: enough to overlap their waiting for the disk.
const maxOpens = 16

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

// claim makes sure that the directory of r is there and r's own. Whatever else has its name is put
// aside.
func (b *broker) claim(r *replica) error {
	a, ok := b.lookup(r.tp, r.id)
	if !ok {
		return unknownPartition(r.tp.Topic, r.tp.Partition)
	}
	name := partitionDir(r.tp)
	id, ok, err := readTopicID(b.fs, filepath.Join(b.root, name))
	switch {
	case err != nil:
		return err
	case ok && id == r.id:
		return nil
	case ok && a.removed(id):
		err = discard(b.fs, b.root, name)
	default:
		err = b.stray(name)
	}
	if err != nil {
		return err
	}
	return createPartitionDir(b.fs, b.root, r.tp, r.id)
}

// stray puts a directory aside that belongs to no topic; none is no error.
func (b *broker) stray(name string) error {
	to, err := putAside(b.fs, b.root, name, straySuffix)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		b.logger.Warn("directory belongs to no topic, put aside", slog.String("directory", name), slog.String("as", filepath.Base(to)))
	}
	return err
}

// start takes stock of the directory: it deletes what was being deleted, puts aside what belongs to
// no topic, and loads every partition that has files. A partition that cannot be loaded stays
// offline; the others serve. elect is told of those that may have lost records which readers had
// seen, and gives them a new leader epoch. In the end all lead.
func (b *broker) start(img *image, elect func([]*replica) error) error {
	found, err := b.takeStock()
	if err != nil {
		return err
	}
	mine, loaded := make([]*replica, len(found)), make([]*partition.Partition, len(found))
	err = forEach(found, func(i int, tp record.TopicPartition) (err error) {
		if mine[i], err = b.recognize(tp, img); err != nil {
			return fmt.Errorf("open %s: %w", partitionDir(tp), err)
		}
		if mine[i] == nil {
			return nil
		}
		if loaded[i], err = b.load(mine[i]); err != nil {
			b.offline(mine[i], err)
		}
		return nil
	})
	if err != nil {
		return errors.Join(err, forEach(loaded, closeLoaded))
	}
	var lossy []*replica
	for i, p := range loaded {
		if p != nil && b.mayHaveLost(mine[i], p) {
			lossy = append(lossy, mine[i])
		}
	}
	if len(lossy) > 0 {
		if err := elect(lossy); err != nil {
			return errors.Join(err, forEach(loaded, closeLoaded))
		}
	}
	_ = forEach(mine, func(i int, r *replica) error {
		if loaded[i] == nil {
			return nil
		}
		if err := b.lead(r, loaded[i]); err != nil {
			b.offline(r, err)
			return nil
		}
		r.readable.Store(loaded[i])
		r.part.Store(loaded[i])
		return nil
	})
	return nil
}

func closeLoaded(_ int, p *partition.Partition) error {
	if p == nil {
		return nil
	}
	return p.Close()
}

// mayHaveLost reports whether records that were readable before the restart may be gone: their
// offsets may be given to others, and only another leader epoch lets a reader notice (KIP-320).
func (b *broker) mayHaveLost(r *replica, p *partition.Partition) bool {
	rec := p.Recovery()
	if rec.Clean || rec.CutBytes == 0 && rec.SameBoot {
		return false
	}
	a, ok := b.lookup(r.tp, r.id)
	return ok && (rec.CutBytes > 0 || a.settings.SyncPolicy() != log.SyncOnAck)
}

// takeStock returns the partitions that have a directory.
func (b *broker) takeStock() (found []record.TopicPartition, err error) {
	entries, err := b.fs.ReadDir(b.root)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", b.root, err)
	}
	for _, e := range entries {
		name := e.Name()
		if strings.HasSuffix(name, deleteSuffix) && e.IsDir() {
			if err := b.fs.RemoveAll(filepath.Join(b.root, name)); err != nil {
				b.logger.Warn("directory of a deleted partition stays", slog.String("directory", name), slog.Any("err", err))
			}
			continue
		}
		if tp, ok := parsePartitionDir(name); ok && e.IsDir() && tp.Topic != topic.MetadataTopic {
			found = append(found, tp)
		}
	}
	return found, nil
}

// recognize returns the replica whose directory was found, nil if the directory is nobody's and was
// put out of the way.
func (b *broker) recognize(tp record.TopicPartition, img *image) (*replica, error) {
	name := partitionDir(tp)
	id, ok, err := readTopicID(b.fs, filepath.Join(b.root, name))
	if err != nil {
		return nil, err
	}
	t := img.topics[tp.Topic]
	switch {
	case ok && t != nil && t.id == id && int(tp.Partition) < len(t.partitions):
		return b.place(tp, id), nil
	case ok && img.removed[id] != "":
		return nil, discard(b.fs, b.root, name)
	default:
		return nil, b.stray(name)
	}
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
		p := r.settled()
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

// forEach runs fn for all items, a few at a time, and joins the errors.
func forEach[T any](items []T, fn func(int, T) error) error {
	var g errgroup.Group
	g.SetLimit(maxOpens)
	var mu sync.Mutex
	var errs []error
	for i, item := range items {
		g.Go(func() error {
			if err := fn(i, item); err != nil {
				mu.Lock()
				defer mu.Unlock()
				errs = append(errs, err)
			}
			return nil
		})
	}
	_ = g.Wait() // all report through errs
	return errors.Join(errs...)
}
