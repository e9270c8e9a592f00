package kafkadir

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/stratalog/strata/internal/metarecord"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/replication"
	"github.com/stratalog/strata/topic"
	"github.com/stratalog/strata/vfs"
)

// ExportConfig configures Export.
type ExportConfig struct {
	// Dir is the directory of a cluster of one broker, as in strata.Config. It must not be open.
	Dir string
	// To is the log directory to create. It must not exist, or must be empty.
	To string

	FS         vfs.FS         // the file system of both; nil means the operating system's
	OnProgress func(Progress) // called after each file, by one goroutine at a time; may be nil

	workers int // number of partitions copied concurrently; 0 means 8
}

// Export creates the log directory of a Kafka broker from a cluster's directory. A broker and
// controller of Kafka 4.0 or later starts on it as after its own clean shutdown. Export keeps the
// cluster's id and all topics with their ids, configurations, records, producers and open
// transactions, the offsets of groups, users and access control entries.
//
// The broker's server.properties must have
//
//	process.roles=broker,controller
//	node.id=1
//	controller.quorum.voters=1@HOST:PORT
//	log.dirs=TO
//
// and its listeners. Do not format the directory with StorageTool. The metadata have
// metadata.version 4.0, which kafka-features upgrades. Settings of the process that serves Dir, and
// Strata's own defaults, are in no file. For example, Strata syncs a topic without flush.messages
// before it acknowledges records, and Kafka does not.
//
// Export opens Dir, which recovers it if the process that served it was killed, and closes it
// cleanly. Nothing else in Dir changes, and it may be opened again. The copy shares nothing with
// it. Export blocks until all of the copy is on stable storage. If ctx ends, Export ends early and
// creates nothing.
//
// Errors: ErrInUse; ErrSeveralBrokers; ErrForeign if there is no cluster in Dir; those of
// replication.Open; *DamagedError; an error matching fs.ErrExist if To is not empty, or
// fs.ErrInvalid if Dir or To is empty or one is inside the other; the context's error; and disk
// errors. If the last step fails, which makes the name of To durable, To may exist all the same,
// and is complete then.
func Export(ctx context.Context, cfg ExportConfig) (*Report, error) {
	report, err := runExport(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("export to %s: %w", cfg.To, err)
	}
	return report, nil
}

func runExport(ctx context.Context, cfg ExportConfig) (report *Report, err error) {
	if cfg.FS == nil {
		cfg.FS = vfs.OS()
	}
	if cfg.workers == 0 {
		cfg.workers = 8
	}
	if cfg.Dir == "" || cfg.To == "" || within(cfg.FS, cfg.To, cfg.Dir) || within(cfg.FS, cfg.Dir, cfg.To) {
		return nil, fmt.Errorf("%w: it takes a directory to export, and one to make beside it", fs.ErrInvalid)
	}
	if _, err := isFree(cfg.FS, filepath.Clean(cfg.To)); err != nil {
		return nil, err
	}
	ex := &exporting{cfg: cfg, root: filepath.Join(cfg.Dir, "broker-1"), copier: copier{fsys: cfg.FS}, report: &Report{Broker: 1, Clean: true, Metadata: true}}
	if err := ex.look(ctx); err != nil {
		return nil, err
	}
	lock, err := ex.hold()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	s, err := newStaging(cfg.FS, cfg.To, metaPropertiesFile)
	if err != nil {
		return nil, err
	}
	if err := ex.write(ctx, s.tmp); err != nil {
		return nil, errors.Join(err, s.abort())
	}
	return ex.report, s.finish()
}

// An exporting is one call of Export.
type exporting struct {
	cfg    ExportConfig
	root   string // of the broker
	copier copier
	meter  meter
	report *Report

	directory topic.ID // of the new directory
	topics    []topic.Info
	ends      map[record.TopicPartition]int64 // of the partitions with records
	starts    map[record.TopicPartition]int64
	recs      []metarecord.Record // of the metadata, without topics
}

// look opens the cluster, reads its metadata, and closes it cleanly.
func (ex *exporting) look(ctx context.Context) error {
	fsys := ex.cfg.FS
	if _, err := fsys.Stat(filepath.Join(ex.root, metaPropertiesFile)); errors.Is(err, fs.ErrNotExist) { // it would be founded
		return fmt.Errorf("%w: there is no cluster in %s", ErrForeign, ex.cfg.Dir)
	} else if err != nil {
		return err
	}
	c, err := replication.Open(replication.Config{
		Dir: ex.cfg.Dir, FS: fsys, RetentionCheckInterval: never, CompactionInterval: never, LeaderBalanceInterval: never,
	})
	if errors.Is(err, replication.ErrLocked) {
		return fmt.Errorf("%w: %w", ErrInUse, err)
	}
	if err != nil {
		return err
	}
	return errors.Join(ex.take(ctx, c), c.Close())
}

// take reads the metadata, settings and ends of an open cluster.
func (ex *exporting) take(ctx context.Context, c *replication.Cluster) (err error) {
	if n := len(c.Registered()); n != 1 {
		return fmt.Errorf("%w: %d of them, a Kafka broker takes the directory of one", ErrSeveralBrokers, n)
	}
	if ex.topics, err = c.Topics(ctx); err != nil {
		return err
	}
	ex.directory, ex.report.ClusterID = topic.NewID(), c.ClusterID()
	ex.report.OpenTransactions = len(c.OpenTransactions(whenever))
	ex.ends, ex.starts = map[record.TopicPartition]int64{}, map[record.TopicPartition]int64{}
	for _, t := range ex.topics {
		for _, p := range t.Partitions {
			tp := record.TopicPartition{Topic: t.Name, Partition: p.Partition}
			if p.Err != nil {
				return fmt.Errorf("%w: partition %s: %w", ErrDamaged, partitionName(tp), p.Err)
			}
			written, err := c.Written(tp)
			if err != nil {
				return err
			}
			if written {
				ex.ends[tp], ex.starts[tp] = p.LogEndOffset, p.LogStartOffset
			}
		}
		ex.report.Topics = append(ex.report.Topics, TopicReport{Name: t.Name, ID: t.ID, Partitions: len(t.Partitions), Bytes: t.SizeBytes()})
	}
	next, _, err := c.InitProducerID(ctx)
	if err != nil {
		return err
	}
	ex.report.NextProducerID = next
	ex.takeRecords(c)
	return nil
}

// hold takes the lock of the broker's directory, which must be as look has left it.
func (ex *exporting) hold() (io.Closer, error) {
	lock, err := ex.cfg.FS.Lock(filepath.Join(ex.root, lockFile))
	if errors.Is(err, vfs.ErrLocked) {
		return nil, fmt.Errorf("%w: %s", ErrInUse, ex.root)
	}
	if err != nil {
		return nil, err
	}
	for _, mark := range []string{cleanShutdownFile, "strata.closed"} {
		if _, err := ex.cfg.FS.Stat(filepath.Join(ex.root, mark)); err != nil {
			return nil, errors.Join(fmt.Errorf("%w: %s was opened meanwhile, or could not be closed in order: %w", ErrInUse, ex.root, err), lock.Close())
		}
	}
	return lock, nil
}

// write writes the log directory.
func (ex *exporting) write(ctx context.Context, dir string) error {
	type job struct {
		tp record.TopicPartition
		id topic.ID
	}
	var jobs []job
	for _, t := range ex.topics {
		for _, p := range t.Partitions {
			jobs = append(jobs, job{record.TopicPartition{Topic: t.Name, Partition: p.Partition}, t.ID})
		}
		ex.meter.total += t.SizeBytes()
	}
	ex.meter.report = ex.cfg.OnProgress
	sizes := make([][2]int64, len(jobs))
	err := each(len(jobs), ex.cfg.workers, func(i int) (err error) {
		name := partitionName(jobs[i].tp)
		if _, written := ex.ends[jobs[i].tp]; !written {
			return ex.emptyPartition(filepath.Join(dir, name), jobs[i].id)
		}
		sizes[i], err = ex.copyPartition(ctx, jobs[i].tp, filepath.Join(ex.root, name), filepath.Join(dir, name))
		return err
	})
	for _, size := range sizes {
		ex.report.Bytes, ex.report.Cloned = ex.report.Bytes+size[0], ex.report.Cloned+size[1]
	}
	if err == nil {
		err = ex.writeMetadata(dir)
	}
	if err == nil {
		err = ex.writeCheckpoints(dir)
	}
	return err
}

// emptyPartition makes the directory of a partition that was never written to.
func (ex *exporting) emptyPartition(dir string, id topic.ID) error {
	if err := ex.cfg.FS.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	return vfs.WriteFile(ex.cfg.FS, filepath.Join(dir, partitionFile), formatPartitionMetadata(id))
}

// copyPartition copies the files of a partition that Kafka knows, and checks the batches of the
// copy. It returns the bytes of all files, and the bytes of files that share their blocks.
func (ex *exporting) copyPartition(ctx context.Context, tp record.TopicPartition, from, to string) (sizes [2]int64, err error) {
	fsys := ex.cfg.FS
	if err := fsys.MkdirAll(to, 0o700); err != nil {
		return sizes, err
	}
	entries, err := fsys.ReadDir(from)
	if err != nil {
		return sizes, err
	}
	next := int64(0)
	for _, e := range entries {
		base, suffix, ok := baseOf(e.Name())
		if e.IsDir() || !ok && e.Name() != epochFile && e.Name() != partitionFile || ok && strings.Count(suffix, ".") != 1 {
			continue
		}
		path := filepath.Join(to, e.Name())
		cloned, err := ex.copier.file(ctx, filepath.Join(from, e.Name()), path)
		if err != nil {
			return sizes, err
		}
		info, err := fsys.Stat(path)
		if err != nil {
			return sizes, err
		}
		if sizes[0] += info.Size(); cloned {
			sizes[1] += info.Size()
		}
		if suffix == ".log" {
			end, err := scanLog(fsys, path, base, func(*record.Batch) error { return nil })
			if err == nil && end.why != "" {
				err = &DamagedError{Path: filepath.Join(from, e.Name()), Pos: end.pos, Reason: end.why}
			}
			if err != nil {
				return sizes, err
			}
			next = end.next
			if err := ex.emptyIndexes(entries, path, end.pos); err != nil {
				return sizes, err
			}
			ex.meter.add(partitionName(tp), info.Size())
		}
	}
	if end := ex.ends[tp]; next > end || next < end && next > ex.starts[tp] {
		return sizes, damaged(from, "the log ends at offset %d, its batches at %d", end, next)
	}
	return sizes, fsys.SyncDir(to)
}

// emptyIndexes makes the indexes of a segment without batches, if it has none: Kafka would complain
// before it does the same.
func (ex *exporting) emptyIndexes(entries []fs.DirEntry, path string, size int64) error {
	stem := strings.TrimSuffix(path, ".log")
	for _, suffix := range []string{".index", ".timeindex"} {
		name := filepath.Base(stem) + suffix
		if size > 0 || slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return e.Name() == name }) {
			continue
		}
		if err := vfs.WriteFile(ex.cfg.FS, stem+suffix, nil); err != nil {
			return err
		}
	}
	return nil
}

// writeCheckpoints writes what Kafka keeps beside the partitions, as of a broker that was stopped
// in order.
func (ex *exporting) writeCheckpoints(dir string) error {
	starts := map[record.TopicPartition]int64{}
	for tp, start := range ex.starts {
		if start > 0 {
			starts[tp] = start
		}
	}
	for name, text := range map[string][]byte{
		recoveryPointFile: formatCheckpoint(ex.ends), highWatermarkFile: formatCheckpoint(ex.ends), logStartFile: formatCheckpoint(starts),
		cleanShutdownFile:  []byte(`{"version":0,"brokerEpoch":-1}`),
		metaPropertiesFile: []byte(fmt.Sprintf("#\nversion=1\ncluster.id=%s\nnode.id=1\ndirectory.id=%s\n", ex.report.ClusterID, ex.directory)),
	} {
		if err := vfs.WriteFile(ex.cfg.FS, filepath.Join(dir, name), text); err != nil {
			return err
		}
	}
	return nil
}
