package mirror

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"

	"github.com/stratalog/strata/log"
	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/replication"
	"github.com/stratalog/strata/topic"
	"github.com/stratalog/strata/vfs"
)

// PromoteConfig describes a Promote.
type PromoteConfig struct {
	Dir    string       // of the copy, which must not be open
	FS     vfs.FS       // nil means the operating system's
	Logger *slog.Logger // nil discards everything
}

// A Promotion is what Promote has done. The caller owns it.
type Promotion struct {
	ClusterID  string // of the new cluster, which is another one than the source
	Topics     int
	Partitions int
	// Aborted is the number of transactions that were open in a partition. Their records are hidden
	// from readers of committed records, as the markers of an abort hide them.
	Aborted int
}

const promoteDir = "promote.unfinished"

// Promote makes a cluster of one broker of a copy, in the same directory, which strata.Open opens
// from then on. Topics keep their ids, offsets and leader epochs; each partition begins a new
// epoch. Producer ids of the source are not assigned again. Records that were not copied are
// missing, and so are groups unless __consumer_offsets is one of the topics. For a group whose
// committed offset is behind the last copied record, Reset applies.
//
// Promote moves no records: it takes as long as opening the partitions. If it fails or the process
// ends, it can be repeated, and strata.Open does not open the directory before it has succeeded.
// Afterwards the directory is no copy any more: to copy back, forward the new records to the source
// or delete its topics.
//
// Errors: log.ErrLocked if the copy is open; ErrPromoted; ErrDamagedCopy; an error that matches
// fs.ErrNotExist if there is no copy; the context's error; and errors of the disk.
func Promote(ctx context.Context, cfg PromoteConfig) (*Promotion, error) {
	if cfg.FS == nil {
		cfg.FS = vfs.OS()
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	p, err := promote(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("mirror: promote the copy in %s: %w", cfg.Dir, err)
	}
	return p, nil
}

func promote(ctx context.Context, cfg PromoteConfig) (done *Promotion, err error) {
	fsys := cfg.FS
	if _, err := fsys.Stat(filepath.Join(cfg.Dir, brokerDir)); err != nil {
		return nil, fmt.Errorf("there is no copy: %w", err)
	}
	dir, err := openCopyDir(fsys, cfg.Dir, cfg.Logger)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, dir.Close()) }()
	state, err := readCopyState(fsys, cfg.Dir)
	if err != nil {
		return nil, err
	}
	if len(state.Topics) == 0 {
		return nil, fmt.Errorf("%w: it has no topics", fs.ErrNotExist)
	}
	pr := &promoting{cfg: cfg, dir: dir}
	for _, t := range state.Topics {
		if err := pr.settle(ctx, t); err != nil {
			return nil, err
		}
	}
	if err := pr.found(ctx); err != nil {
		return nil, err
	}
	return &pr.done, pr.place()
}

// A promoting is one call of Promote, in these steps:
//
//  1. Each partition leads in the epoch after its last one, and ends its open transactions.
//  2. A cluster with these topics is made in a directory of its own, without partitions.
//  3. Its files move to the partitions. The metadata log is the last: without it, no Open accepts
//     the directory, and the steps can be repeated.
type promoting struct {
	cfg    PromoteConfig
	dir    *log.Directory
	topics []replication.AdoptedTopic
	done   Promotion
}

// settle is step 1 for a topic.
func (pr *promoting) settle(ctx context.Context, t copiedTopic) error {
	epochs := make([]int32, t.Partitions)
	for i := range t.Partitions {
		if err := ctx.Err(); err != nil {
			return err
		}
		p, err := t.open(pr.cfg.FS, pr.cfg.Dir, pr.dir, int32(i), pr.cfg.Logger)
		if err != nil {
			return err
		}
		last := p.LastEpoch()
		err = p.BecomeLeader(last + 1)
		if err == nil {
			err = pr.abort(p)
		}
		if err = errors.Join(err, p.Close()); err != nil {
			return fmt.Errorf("%s-%d: %w", t.Name, i, err)
		}
		epochs[i] = last + 2
	}
	cfg := topic.Config{ID: t.ID, Partitions: t.Partitions, ReplicationFactor: 1, Properties: pr.settings(t)}
	if cfg.ID.IsZero() {
		cfg.ID = topic.NewID()
	}
	pr.topics = append(pr.topics, replication.AdoptedTopic{TopicSpec: replication.TopicSpec{Name: t.Name, Config: cfg}, LeaderEpochs: epochs})
	pr.done.Topics++
	pr.done.Partitions += t.Partitions
	return nil
}

// abort ends the open transactions of a partition: no coordinator knows how they would have ended.
func (pr *promoting) abort(p *partition.Partition) error {
	for _, s := range p.Producers() {
		if s.TxnFirstOffset < 0 {
			continue
		}
		ended := make(chan error, 1)
		p.EndTransaction(partition.TxnMarker{ProducerID: s.ProducerID, ProducerEpoch: s.Epoch, CoordinatorEpoch: s.CoordinatorEpoch + 1}, func(r partition.ProduceResult) {
			ended <- r.Err
		})
		if err := <-ended; err != nil {
			return err
		}
		pr.done.Aborted++
	}
	return nil
}

// settings returns the settings of a topic that a cluster of Strata accepts.
func (pr *promoting) settings(t copiedTopic) map[string]string {
	kept := map[string]string{}
	for _, key := range slices.Sorted(maps.Keys(t.Config)) {
		kept[key] = t.Config[key]
		if _, err := topic.Parse(kept, nil); err != nil {
			delete(kept, key)
			pr.cfg.Logger.Warn("setting is left out", slog.String("topic", t.Name), slog.String("key", key), slog.Any("err", err))
		}
	}
	for _, key := range notCopied {
		delete(kept, key)
	}
	return kept
}

// found is step 2.
func (pr *promoting) found(ctx context.Context) error {
	dir := filepath.Join(pr.cfg.Dir, promoteDir)
	if err := pr.cfg.FS.RemoveAll(dir); err != nil {
		return err
	}
	c, err := replication.Open(replication.Config{
		Dir: dir, FS: pr.cfg.FS, RetentionCheckInterval: log.Unlimited, CompactionInterval: log.Unlimited, LeaderBalanceInterval: log.Unlimited,
	})
	if err != nil {
		return err
	}
	pr.done.ClusterID = c.ClusterID()
	return errors.Join(c.AdoptTopics(ctx, pr.topics...), c.Close())
}

// place is step 3.
func (pr *promoting) place() error {
	fsys, root := pr.cfg.FS, filepath.Join(pr.cfg.Dir, brokerDir)
	from := filepath.Join(pr.cfg.Dir, promoteDir, brokerDir)
	metadata := topic.MetadataTopic + "-0"
	for _, name := range []string{"meta.properties", metadata} {
		err := fsys.SyncDir(root)
		if err == nil {
			err = fsys.Rename(filepath.Join(from, name), filepath.Join(root, name))
		}
		if err != nil {
			return err
		}
	}
	err := fsys.SyncDir(root)
	if err == nil {
		err = fsys.RemoveAll(filepath.Join(pr.cfg.Dir, promoteDir))
	}
	if err == nil {
		err = fsys.Remove(filepath.Join(pr.cfg.Dir, copyStateFile))
	}
	return err
}
