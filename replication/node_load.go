package replication

import (
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/stratalog/strata/log"
	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/topic"
)

// loaded is a partition that is open and does not lead yet.
type loaded struct {
	r    *replica
	p    *partition.Partition
	gone bool // the topic was deleted meanwhile
}

// load takes stock of the directory: it deletes what was being deleted, puts aside what belongs to
// no topic, and opens every partition that has files. One that cannot be opened stays offline. On
// error the caller closes what was opened.
func (n *node) load() ([]*loaded, error) {
	found, err := n.takeStock()
	if err != nil {
		return nil, err
	}
	all := make([]*loaded, len(found))
	err = forEach(found, func(i int, tp record.TopicPartition) (err error) {
		all[i], err = n.loadFound(tp)
		return err
	})
	return slices.DeleteFunc(all, func(l *loaded) bool { return l == nil }), err
}

// loadFound opens the partition whose directory was found; nil if there is none to serve.
func (n *node) loadFound(tp record.TopicPartition) (*loaded, error) {
	r, err := n.recognize(tp)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", partitionDir(tp), err)
	}
	if r == nil {
		return nil, nil
	}
	p, err := n.openReplica(r)
	if err != nil {
		n.offline(r, err)
		return nil, nil
	}
	return &loaded{r: r, p: p}, nil
}

// serve makes what was loaded lead, and be found. What cannot lead stays offline.
func (n *node) serve(all []*loaded) {
	_ = forEach(all, func(_ int, l *loaded) error {
		if l.gone {
			return nil
		}
		if err := n.assume(l.r, l.p); err != nil {
			n.offline(l.r, err)
			return nil
		}
		l.r.readable.Store(l.p)
		l.r.part.Store(l.p)
		return nil
	})
}

// mayHaveLost reports whether records that were readable before the restart may be gone, and no
// leader epoch has begun since.
func (l *loaded) mayHaveLost() bool {
	rec := l.p.Recovery()
	if rec.Clean || rec.CutBytes == 0 && rec.SameBoot {
		return false
	}
	a, ok := l.r.node.metadata.assignment(l.r.tp, l.r.id)
	synced := a.settings.SyncPolicy() == log.SyncOnAck
	if !synced && l.r.node.powerCut {
		return false // it has another epoch already: see Cluster.mayBeLost
	}
	return ok && (rec.CutBytes > 0 || !synced)
}

// alone reports whether the partition has no other replica.
func (l *loaded) alone() bool {
	t := l.r.node.metadata.topicOf(l.r.tp, l.r.id)
	return t != nil && len(t.Partitions[l.r.tp.Partition].Replicas) == 1
}

// takeStock returns the partitions that have a directory.
func (n *node) takeStock() (found []record.TopicPartition, err error) {
	entries, err := n.fs.ReadDir(n.root)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", n.root, err)
	}
	var deleted []string
	for _, e := range entries {
		name := e.Name()
		if strings.HasSuffix(name, deleteSuffix) && e.IsDir() {
			deleted = append(deleted, name)
			continue
		}
		if tp, ok := parsePartitionDir(name); ok && e.IsDir() && tp.Topic != topic.MetadataTopic {
			found = append(found, tp)
		}
	}
	n.clear(deleted)
	return found, nil
}

// clear deletes directories of deleted partitions. Who renamed them may have been killed before
// that was durable: without the sync a power cut could bring an old name back, over what is left of
// the files.
func (n *node) clear(deleted []string) {
	if len(deleted) == 0 {
		return
	}
	renamed := n.fs.SyncDir(n.root)
	for _, name := range deleted {
		err := renamed
		if err == nil {
			err = n.fs.RemoveAll(filepath.Join(n.root, name))
		}
		if err != nil {
			n.logger.Warn("directory of a deleted partition stays", slog.String("directory", name), slog.Any("err", err))
		}
	}
}

// recognize returns the replica whose directory was found, nil if the directory is nobody's and was
// put out of the way.
func (n *node) recognize(tp record.TopicPartition) (*replica, error) {
	name := partitionDir(tp)
	id, ok, err := readTopicID(n.fs, filepath.Join(n.root, name))
	if err != nil {
		return nil, err
	}
	switch {
	case ok && n.metadata.assigned(tp, id):
		return n.place(tp, id), nil
	case ok && n.metadata.wasRemoved(id):
		return nil, discard(n.fs, n.root, name)
	default:
		return nil, n.stray(name)
	}
}

// forEach runs fn for all items, a few at a time, and joins the errors. A few goroutines do it all:
// opening a log needs a deep stack, which is grown once for each of them.
func forEach[T any](items []T, fn func(int, T) error) error {
	var wg sync.WaitGroup
	var next atomic.Int64
	var mu sync.Mutex
	var errs []error
	for range min(maxOpens, len(items)) {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < len(items); i = int(next.Add(1)) - 1 {
				if err := fn(i, items[i]); err != nil {
					mu.Lock()
					errs = append(errs, err)
					mu.Unlock()
				}
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// maxOpens is how many partitions are opened at once: enough to overlap their waiting for the disk.
const maxOpens = 16
