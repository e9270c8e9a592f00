package replication

import (
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/stratalog/strata/log"
	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/topic"
)

// loaded is a partition with files, as start finds it.
type loaded struct {
	r *replica             // nil: the directory was nobody's
	p *partition.Partition // nil: it could not be opened, and is offline
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
	parts := make([]loaded, len(found))
	err = forEach(found, func(i int, tp record.TopicPartition) (err error) {
		parts[i], err = b.loadFound(tp, img)
		return err
	})
	if lossy := b.mayHaveLost(parts); err == nil && len(lossy) > 0 {
		err = elect(lossy)
	}
	if err != nil {
		return errors.Join(err, forEach(parts, func(_ int, l loaded) error { return l.close() }))
	}
	return forEach(parts, func(_ int, l loaded) error {
		if l.p != nil {
			b.serve(l)
		}
		return nil
	})
}

// loadFound opens the partition whose directory was found.
func (b *broker) loadFound(tp record.TopicPartition, img *image) (l loaded, err error) {
	if l.r, err = b.recognize(tp, img); err != nil {
		return l, fmt.Errorf("open %s: %w", partitionDir(tp), err)
	}
	if l.r == nil {
		return l, nil
	}
	if l.p, err = b.load(l.r); err != nil {
		b.offline(l.r, err)
	}
	return l, nil
}

// serve makes a loaded partition the leader.
func (b *broker) serve(l loaded) {
	if err := b.lead(l.r, l.p); err != nil {
		b.offline(l.r, err)
		return
	}
	l.r.readable.Store(l.p)
	l.r.part.Store(l.p)
}

func (l loaded) close() error {
	if l.p == nil {
		return nil
	}
	return l.p.Close()
}

// mayHaveLost returns the partitions of which records that were readable before the restart may be
// gone: their offsets may be given to others, and only another leader epoch lets a reader notice
// (KIP-320).
func (b *broker) mayHaveLost(parts []loaded) (lossy []*replica) {
	for _, l := range parts {
		if l.p == nil {
			continue
		}
		rec := l.p.Recovery()
		if rec.Clean || rec.CutBytes == 0 && rec.SameBoot {
			continue
		}
		if a, ok := b.lookup(l.r.tp, l.r.id); ok && (rec.CutBytes > 0 || a.settings.SyncPolicy() != log.SyncOnAck) {
			lossy = append(lossy, l.r)
		}
	}
	return lossy
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

// maxOpens is how many partitions are opened at once: enough to overlap their waiting for the disk.
const maxOpens = 16
