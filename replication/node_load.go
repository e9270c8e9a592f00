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
	"github.com/stratalog/strata/vfs"
)

// loaded is a partition that is open and does not lead yet.
type loaded struct {
	r    *replica
	p    *partition.Partition
	gone bool // the topic was deleted meanwhile
}

// load loads the directory. It deletes the directories that were being deleted, sets directories
// aside that belong to no topic, and opens every partition that has files. A partition that cannot
// be opened stays offline. After an error the caller closes the opened partitions.
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
	if err == nil {
		n.noteMissing(found)
	}
	return slices.DeleteFunc(all, func(l *loaded) bool { return l == nil }), err
}

// loadFound opens the partition whose directory was found; nil if there is none to serve.
func (n *node) loadFound(tp record.TopicPartition) (*loaded, error) {
	r, named, err := n.recognize(tp)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", partitionDir(tp), err)
	}
	if r == nil {
		return nil, nil
	}
	if n.evidence.old {
		n.cannotServe(r, n.errOldCopy())
		return nil, nil
	}
	p, err := n.openReplica(r, named)
	if err == nil && !named {
		if err = n.nameAgain(r); err != nil {
			err = errors.Join(err, p.Close())
		}
	}
	if err != nil {
		n.cannotServe(r, err)
		return nil, nil
	}
	return &loaded{r: r, p: p}, nil
}

// serve makes loaded partitions lead, and publishes them. A partition that cannot lead stays
// offline.
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
	n.beginEvidence(all) // now that they are found
	n.logRecovery(all)
}

// logRecovery logs the state of the directory, and the changes by recovery.
func (n *node) logRecovery(all []*loaded) {
	var sum log.RecoveryReport
	recovered, aside := 0, 0
	for _, l := range all {
		rec := l.p.Recovery()
		if !rec.Clean {
			recovered++
		}
		sum.ScannedBytes += rec.ScannedBytes
		sum.CutBytes += rec.CutBytes
		sum.RebuiltIndexes += rec.RebuiltIndexes
		aside += len(rec.SetAside)
	}
	n.logger.Info("partitions opened", slog.Int("broker", int(n.id)), slog.String("directory", n.root), slog.Int("partitions", len(all)),
		slog.Int("not_closed_in_order", recovered), slog.Int64("scanned_bytes", sum.ScannedBytes), slog.Int64("cut_bytes", sum.CutBytes),
		slog.Int("rebuilt_indexes", sum.RebuiltIndexes), slog.Int("files_set_aside", aside))
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
		tp, ok := parsePartitionDir(name)
		if !ok || tp.Topic == topic.MetadataTopic {
			continue
		}
		ok, err := isDirectory(n.fs, n.root, e)
		if id, here := n.metadata.ownerOf(tp); err != nil && here {
			n.cannotServe(n.place(tp, id), fmt.Errorf("open %s: %w", name, err))
		}
		if ok {
			found = append(found, tp)
		}
	}
	n.clear(deleted)
	return found, nil
}

// clear deletes directories of deleted partitions. The process that renamed them may have been
// killed before that was durable: without the sync a power failure could restore an old name, with
// the rest of the files.
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

// A judgement is the decision about a partition's directory.
type judgement struct {
	id    topic.ID // of the topic, if the directory stays
	named bool     // partition.metadata has the topic id and the number
	doubt error    // why the replica is not served; nil: it is
	aside string   // deleteSuffix or straySuffix if the directory is not the replica's; "" if it stays
}

// recognize returns the replica of a directory, nil if there is none to open: the directory belongs
// to no topic and was set aside, or the replica cannot be served. named is false if
// partition.metadata does not have the replica's topic id, although the directory is the replica's.
func (n *node) recognize(tp record.TopicPartition) (r *replica, named bool, err error) {
	v, err := n.judge(tp)
	switch {
	case err != nil:
		return nil, false, err
	case v.aside == deleteSuffix:
		return nil, false, discard(n.fs, n.root, partitionDir(tp))
	case v.aside == straySuffix:
		return nil, false, n.stray(partitionDir(tp))
	}
	r = n.place(tp, v.id)
	if v.doubt != nil {
		n.cannotServe(r, v.doubt)
		return nil, false, nil
	}
	return r, v.named, nil
}

// judge decides about a directory, and changes nothing. The decision depends on the metadata, and
// on the broker's notes about its replicas:
//
//	partition.metadata names         the broker has a replica   the directory
//	the topic of that name           yes                        is the replica's
//	a deleted topic                  no, or it was not begun    is deleted
//	nothing, or it has a wrong byte  yes                        is the replica's, and named again
//	nothing, but it may be older     yes                        is in doubt
//	another topic                    yes, which was begun       is in doubt
//	another number of that topic     yes                        is in doubt
//	another topic, or nothing        no, or it was not begun    is put aside
//
// It may be older if a topic of that name was deleted, of which a directory may be left somewhere.
// A replica in doubt is not served, and its directory stays, until another one has its records.
// The directory of a deleted topic is put aside if a topic of that name is there and the broker has
// no file of its replicas.
func (n *node) judge(tp record.TopicPartition) (judgement, error) {
	dir := filepath.Join(n.root, partitionDir(tp))
	f, err := readPartitionFile(n.fs, dir)
	if own, here := n.metadata.ownerOf(tp); here && errors.Is(err, vfs.ErrNotRegular) {
		return judgement{id: own, doubt: err}, nil
	}
	if err != nil {
		return judgement{}, err
	}
	id, ok := f.id, f.named
	switch assigned := ok && n.metadata.assigned(tp, id); {
	case assigned && f.isOf(tp.Partition):
		return judgement{id: id, named: !f.damaged}, nil
	case assigned:
		return judgement{id: id, doubt: &DirectoryError{
			Dir: dir, Reason: ErrRecordsMissing, Err: fmt.Errorf("it is the directory of partition %d, as %s has it", f.number, partitionMetadataFile),
			Advice: "put the directories of the topic's partitions back to where they belong",
		}}, nil
	}
	own, here := n.metadata.ownerOf(tp)
	_, begun := n.foundNote(place{Topic: own, Partition: tp.Partition})
	switch {
	case ok && n.metadata.wasRemoved(id) && (!here || !begun && n.evidence.size > 0):
		return judgement{aside: deleteSuffix}, nil
	case !here:
		return judgement{aside: straySuffix}, nil
	}
	nearly, err := isNearly(n.fs, dir, own, tp.Partition)
	switch {
	case err != nil:
		return judgement{}, err
	case (!ok || nearly) && (begun || !n.metadata.hadNamesake(tp.Topic)):
		return judgement{id: own}, nil
	case !begun && (ok || n.powerCut):
		return judgement{aside: straySuffix}, nil
	}
	return judgement{id: own, doubt: &DirectoryError{
		Dir: dir, Reason: ErrRecordsMissing, Err: fmt.Errorf("%s does not name topic %s, which has id %v", partitionMetadataFile, tp.Topic, own),
		Advice: "restore the file if the directory is the topic's; if not, move it away and put the topic's in its place",
	}}, nil
}

// nameAgain replaces the file that names the topic of a replica's directory.
func (n *node) nameAgain(r *replica) error {
	dir := filepath.Join(n.root, partitionDir(r.tp))
	n.logger.Warn("file was damaged or missing, and is made again from the metadata", slog.String("file", filepath.Join(dir, partitionMetadataFile)))
	return writePartitionFile(n.fs, dir, r.id, r.tp.Partition)
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
