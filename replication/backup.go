package replication

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strconv"
	"sync"

	"github.com/stratalog/strata/log"
	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/topic"
	"github.com/stratalog/strata/vfs"
)

// unfinishedFile is in a broker's directory from before anything else of a backup is, until all of
// it is on stable storage. A directory that has it is not opened.
const unfinishedFile = "strata.unfinished"

// backupRounds is how often a backup is begun: the last time the metadata stays as it is.
const backupRounds = 3

// errMeanwhile is returned if the copies of a backup do not belong together.
var errMeanwhile = errors.New("replication: topics were deleted, or replicas have come, gone, joined or left, meanwhile")

// Backup copies the cluster to the directory dir while the cluster is in use. dir must not exist or
// must be empty. It is on the cluster's file system, or on the operating system's if the cluster is
// in memory. The copy has the same cluster id, producers, groups and topics. Open opens it, in this
// place or in another.
//
// The copy is a consistent cut. Before anything is copied, Backup notes the end of every replica;
// later records are not in the copy. Noting the ends needs no I/O. Meanwhile no transaction is
// decided or completed (HoldTransactionsWith). So each transaction is complete in the copy, is
// aborted in it, or is open and known to the copy's coordinator, which ends it. All other work
// continues, so the order of the steps matters:
//
//  1. Note the ends of the partitions of internal topics, which hold the groups' committed offsets.
//  2. Note the ends of the other partitions. An offset that step 1 includes was committed after its
//     records were written: no committed offset points past the records.
//  3. Note the ends of the partitions of the transactions' state. The coordinator had stored a
//     transaction before its records and markers, which steps 1 and 2 include.
//  4. Copy the partitions, then the metadata. The metadata includes every copied topic, and every
//     producer id in a copied record, so that no id is handed out twice. A topic created after the
//     cut is empty in the copy.
//
// Backup repeats all steps if a topic was deleted meanwhile: offsets committed for it must not be
// used for a later topic of the same name. It also repeats them if a replica was truncated, or if
// the replicas or the ISR of a partition changed: a copy made before its replica was in sync must
// not be trusted. At the third attempt the metadata does not change until the copy is complete: no
// topic is created, deleted or altered, no ISR changes, and no leader is elected.
//
// The directory carries a mark until its last byte is on stable storage, and Open rejects it with
// ErrUnfinished: an interrupted backup never opens as a smaller cluster. A failed backup removes
// the files that it wrote. After a crash dir is not empty, and must be removed before the next
// backup.
//
// Each broker has its directory in dir, wherever its data is in this cluster. All brokers must be
// serving.
//
// Errors: an error matching fs.ErrExist if dir is not empty, or fs.ErrInvalid if dir is "" or
// inside the cluster's directory; ErrMissing if a broker is not serving; the error of an offline
// partition, since a copy without it would be incomplete; those of log.Log.Backup; ErrClosed; and
// the context's error.
func (c *Cluster) Backup(ctx context.Context, dir string) error {
	b := &backup{c: c, fsys: c.cfg.FS, targets: copyTargets{}}
	if c.cfg.inMemory {
		b.fsys = vfs.OS()
	}
	b.nodes = c.serving()
	for _, n := range b.nodes {
		b.targets[n.id] = copyTarget{b.fsys, filepath.Join(dir, dirPrefix+strconv.Itoa(int(n.id)))}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	result := make(chan error, 1)
	started := c.run(func() {
		stop := make(chan struct{})
		var watcher sync.WaitGroup
		watcher.Go(func() {
			select {
			case <-c.closing:
				cancel(ErrClosed)
			case <-stop:
			}
		})
		err := b.run(ctx, dir)
		close(stop)
		watcher.Wait()
		if cause := context.Cause(ctx); err != nil && cause != nil {
			err = errors.Join(cause, err)
		}
		result <- err
	})
	if !started {
		return ErrClosed
	}
	if err := <-result; err != nil {
		return fmt.Errorf("backup to %s: %w", dir, err)
	}
	return nil
}

// A backup is one call of Cluster.Backup.
type backup struct {
	c       *Cluster
	fsys    vfs.FS
	nodes   map[int32]*node // the nodes to copy
	targets copyTargets

	cuts   []replicaCut
	copied []string // directories of partitions in the copy
}

// A replicaCut is the cut of a replica, and where to copy it.
type replicaCut struct {
	r   *replica
	p   *partition.Partition
	cut *log.Cut
	dir string // of the copy
}

func (b *backup) run(ctx context.Context, dir string) (err error) {
	if b.c.away() {
		return fmt.Errorf("%w: not all brokers serve", ErrMissing)
	}
	if b.fsys == b.c.cfg.FS && within(b.fsys, dir, b.c.cfg.Dir) {
		return fmt.Errorf("%w: it is inside of the cluster's own directory %s", fs.ErrInvalid, b.c.cfg.Dir)
	}
	for _, n := range b.nodes {
		if b.fsys == n.disk && within(b.fsys, dir, n.root) {
			return fmt.Errorf("%w: it is inside of the directory %s of broker %d", fs.ErrInvalid, n.root, n.id)
		}
	}
	if err := b.targets.begin(b.fsys, dir); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, b.targets.undo())
		}
	}()
	for i := range backupRounds {
		if err = b.round(ctx, i == backupRounds-1); !errors.Is(err, errMeanwhile) {
			break
		}
	}
	if err == nil {
		err = b.c.live(ctx)
	}
	if err != nil {
		return err
	}
	return b.targets.finish(func(broker int32) (vfs.FS, string) { return b.nodes[broker].fs, b.nodes[broker].root })
}

// within reports whether name is dir or below it, also through links.
func within(fsys vfs.FS, name, dir string) bool {
	rel, err := filepath.Rel(realPath(fsys, dir), realPath(fsys, name))
	return err == nil && filepath.IsLocal(rel)
}

// round copies everything except meta.properties. With alone, the metadata does not change until it
// ends.
func (b *backup) round(ctx context.Context, alone bool) error {
	if alone {
		if err := b.lockMetadata(ctx); err != nil {
			return err
		}
		defer b.unlockMetadata()
	}
	b.copied = nil
	begun, layout := b.c.removals.Load(), b.layout()
	err := b.partitions(ctx)
	cut := errors.Is(err, log.ErrChanged) && !alone
	if err == nil && !alone {
		if err = b.lockMetadata(ctx); err != nil {
			return err
		}
		defer b.unlockMetadata()
	}
	if b.c.removals.Load() != begun || b.hasChanged(layout) || cut {
		for _, dir := range b.copied {
			if err := discard(b.fsys, filepath.Dir(dir), filepath.Base(dir)); err != nil {
				return err
			}
		}
		return errMeanwhile
	}
	if err != nil {
		return err
	}
	return b.metadata(ctx)
}

// layout returns the partition epochs: while one does not change, neither do the partition's
// replicas and ISR.
func (b *backup) layout() map[place]int32 {
	b.c.mu.RLock()
	defer b.c.mu.RUnlock()
	epochs := map[place]int32{}
	for id, t := range b.c.image.ByID {
		for i := range t.Partitions {
			epochs[place{Topic: id, Partition: int32(i)}] = t.Partitions[i].PartitionEpoch
		}
	}
	return epochs
}

// hasChanged reports whether a partition is not as it was.
func (b *backup) hasChanged(layout map[place]int32) bool {
	now := b.layout()
	for at, epoch := range layout {
		if now[at] != epoch {
			return true
		}
	}
	return false
}

// lockMetadata keeps the metadata as it is until unlockMetadata.
func (b *backup) lockMetadata(ctx context.Context) error {
	select {
	case b.c.changing <- struct{}{}:
		err := b.c.found()
		if err != nil {
			b.unlockMetadata()
		}
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (b *backup) unlockMetadata() { <-b.c.changing }

// partitions notes how far all partitions go, and copies them.
func (b *backup) partitions(ctx context.Context) (err error) {
	for _, r := range replicasOn(b.nodes) {
		r.awaitOpening()
	}
	if err := b.c.live(ctx); err != nil {
		return err
	}
	b.cuts = nil
	defer func() {
		for _, c := range b.cuts {
			c.cut.Release()
		}
	}()
	b.c.HoldTransactions(func() { err = b.cutAll() })
	if err != nil {
		return err
	}
	return forEach(b.cuts, func(_ int, c replicaCut) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := c.p.BackupOf(ctx, c.cut, b.fsys, c.dir); err != nil {
			return err
		}
		return writePartitionFile(b.fsys, c.dir, c.r.id, c.r.tp.Partition)
	})
}

// cutAll records the end of each partition, in the order of Backup. It does not wait.
func (b *backup) cutAll() error {
	for _, replicas := range inCutOrder(replicasOn(b.nodes)) {
		for _, r := range replicas {
			p, err := r.state()
			if p == nil && err != nil {
				return fmt.Errorf("partition %s is offline: %w", partitionDir(r.tp), err)
			}
			if p == nil {
				continue // never written
			}
			cut, err := p.Cut()
			if err != nil {
				return err
			}
			dir := filepath.Join(b.targets[r.node.id].root, partitionDir(r.tp))
			b.cuts, b.copied = append(b.cuts, replicaCut{r, p, cut, dir}), append(b.copied, dir)
		}
	}
	return nil
}

// inCutOrder returns replicas in the order in which Backup cuts them. Partitions that refer to
// others, or to which the transaction coordinator refers, come before these.
func inCutOrder(replicas []*replica) (steps [3][]*replica) {
	for _, r := range replicas {
		step := 1
		switch {
		case r.tp.Topic == topic.TransactionTopic:
			step = 2
		case topic.IsInternal(r.tp.Topic):
			step = 0
		}
		steps[step] = append(steps[step], r)
	}
	return steps
}

// metadata copies each broker's copy of the metadata. Nothing changes meanwhile, so they are equal.
func (b *backup) metadata(ctx context.Context) error {
	for id, n := range b.c.serving() {
		if b.nodes[id] != n {
			return fmt.Errorf("%w: broker %d came or went meanwhile", ErrMissing, id)
		}
	}
	if len(b.c.meta.Set()) < len(b.nodes) {
		return fmt.Errorf("%w: not all brokers serve any more", ErrMissing)
	}
	for id, l := range b.c.meta.Copies() {
		if err := l.Backup(ctx, b.fsys, filepath.Join(b.targets[id].root, topic.MetadataTopic+"-0")); err != nil {
			return err
		}
		if err := b.list(b.nodes[id], l.Log); err != nil {
			return err
		}
	}
	return nil
}
