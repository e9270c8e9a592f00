package kafkadir

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/topic"
	"github.com/stratalog/strata/vfs"
)

// A replicaCopy is the copy of one replica.
type replicaCopy struct {
	broker    *exportedBroker
	dir       string // of the partition in the broker's new directory
	topic     topic.ID
	partition *topic.PartitionInfo // an element of exporting.topics
	tp        record.TopicPartition
	sizes     [2]int64 // bytes, and those of them that share their blocks
	damage    error    // of the replica's files; nil if they are whole
}

// write writes the log directories.
func (ex *exporting) write(ctx context.Context, dir string) error {
	dirs := map[int32]string{}
	for _, b := range ex.brokers {
		dirs[b.id] = dir
		if len(ex.brokers) > 1 {
			dirs[b.id] = filepath.Join(dir, brokerDir(b.id))
			if err := vfs.MakeDir(ex.cfg.FS, dirs[b.id], 0o700); err != nil {
				return err
			}
		}
	}
	var copies []*replicaCopy
	for _, t := range ex.topics {
		for i := range t.Partitions {
			p := &t.Partitions[i]
			tp := record.TopicPartition{Topic: t.Name, Partition: p.Partition}
			for _, id := range p.Replicas {
				copies = append(copies, &replicaCopy{broker: ex.broker(id), dir: filepath.Join(dirs[id], partitionName(tp)), topic: t.ID, partition: p, tp: tp})
			}
			ex.meter.total += p.SizeBytes * int64(max(len(p.ISR), 1))
		}
	}
	ex.meter.report = ex.cfg.OnProgress
	err := each(len(copies), ex.cfg.workers, func(i int) (err error) {
		r := copies[i]
		if _, whole := r.broker.ends[r.tp]; !whole {
			return ex.emptyPartition(r.dir, r.topic)
		}
		r.sizes, err = ex.copyPartition(ctx, r.broker, r.tp, r.dir)
		if errors.Is(err, ErrDamaged) {
			r.damage, err = err, nil
		}
		return err
	})
	if err == nil {
		err = ex.leaveOut(copies)
	}
	if err != nil {
		return err
	}
	for _, r := range copies {
		ex.report.Bytes, ex.report.Cloned = ex.report.Bytes+r.sizes[0], ex.report.Cloned+r.sizes[1]
	}
	boot, all, end, err := ex.snapshots()
	for _, b := range ex.brokers {
		if err == nil {
			err = ex.writeMetadata(dirs[b.id], boot, all, end)
		}
		if err == nil {
			err = ex.writeCheckpoints(dirs[b.id], b)
		}
		if err == nil && len(ex.brokers) > 1 {
			err = ex.cfg.FS.SyncDir(dirs[b.id])
		}
	}
	return err
}

// leaveOut removes the copies of damaged replicas and their place in the ISR: Kafka copies them from
// a replica that is whole. It returns the damage if no other replica in sync is whole.
func (ex *exporting) leaveOut(copies []*replicaCopy) error {
	for _, r := range copies {
		if r.damage == nil {
			continue
		}
		p := r.partition
		p.ISR = slices.DeleteFunc(p.ISR, func(id int32) bool { return id == r.broker.id })
		if len(p.ISR) == 0 {
			return r.damage
		}
		if p.Leader == r.broker.id {
			p.Leader = p.ISR[0]
		}
		if err := ex.cfg.FS.RemoveAll(r.dir); err != nil {
			return err
		}
		if err := ex.emptyPartition(r.dir, r.topic); err != nil {
			return err
		}
		r.sizes = [2]int64{}
		delete(r.broker.ends, r.tp)
		delete(r.broker.starts, r.tp)
		ex.report.Behind = append(ex.report.Behind, ReplicaBehind{r.tp, r.broker.id, r.damage.Error()})
	}
	slices.SortStableFunc(ex.report.Behind, func(a, b ReplicaBehind) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
	})
	return nil
}

// emptyPartition makes the directory of a replica without records: of a partition that was never
// written to, behind its leader, or damaged.
func (ex *exporting) emptyPartition(dir string, id topic.ID) error {
	if err := ex.cfg.FS.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	return vfs.WriteFile(ex.cfg.FS, filepath.Join(dir, partitionFile), formatPartitionMetadata(id))
}

// copyPartition copies the files of a partition that Kafka knows, and checks the batches of the
// copy. It returns the bytes of all files, and the bytes of files that share their blocks.
func (ex *exporting) copyPartition(ctx context.Context, b *exportedBroker, tp record.TopicPartition, to string) (sizes [2]int64, err error) {
	fsys, from := ex.cfg.FS, filepath.Join(b.root, partitionName(tp))
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
	if end := b.ends[tp]; next > end || next < end && next > b.starts[tp] {
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
func (ex *exporting) writeCheckpoints(dir string, b *exportedBroker) error {
	starts := map[record.TopicPartition]int64{}
	for tp, start := range b.starts {
		if start > 0 {
			starts[tp] = start
		}
	}
	for name, text := range map[string][]byte{
		recoveryPointFile: formatCheckpoint(b.ends), highWatermarkFile: formatCheckpoint(b.ends), logStartFile: formatCheckpoint(starts),
		cleanShutdownFile:  []byte(`{"version":0,"brokerEpoch":-1}`),
		metaPropertiesFile: []byte(fmt.Sprintf("#\nversion=1\ncluster.id=%s\nnode.id=%d\ndirectory.id=%s\n", ex.report.ClusterID, b.id, b.directory)),
	} {
		if err := vfs.WriteFile(ex.cfg.FS, filepath.Join(dir, name), text); err != nil {
			return err
		}
	}
	return nil
}
