package kafkadir

import (
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"path/filepath"
	"slices"
	"strings"

	"github.com/stratalog/strata/internal/txnlog"
	"github.com/stratalog/strata/log"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/vfs"
)

const never = log.Unlimited

// copied is the result of copying a partition.
type copied struct {
	bytes, cloned int64 // of files
	records       int64 // bytes of batches
	next          int64 // offset after the last batch
	epoch         int32 // largest leader epoch of a batch
	maxID         int64 // largest producer id of a batch, a snapshot or a transactional id; -1: none
	cut           int64 // bytes of an unfinished batch
	swaps         bool  // there are files of an unfinished compaction
	holes         bool  // offsets are missing inside of segments, as compaction leaves them
	gaps          [][2]int64
	doubts        []Gap
}

// copyPartition copies the files of a partition to a new directory, and checks the batches of the
// copy.
func (im *importing) copyPartition(ctx context.Context, part *partPlan, to string) error {
	fsys := im.cfg.FS
	if err := fsys.MkdirAll(to, 0o700); err != nil {
		return err
	}
	part.copied = copied{maxID: -1, epoch: -1}
	var logs []string
	for _, e := range part.found.files {
		if _, suffix, ok := baseOf(e.Name()); ok && suffix == ".log" {
			logs = append(logs, e.Name())
		}
	}
	for _, e := range part.found.files {
		if e.IsDir() || !part.wants(e.Name(), logs) {
			continue
		}
		path := filepath.Join(to, e.Name())
		cloned, err := im.copier.file(ctx, filepath.Join(part.found.dir, e.Name()), path)
		if err != nil {
			return err
		}
		info, err := fsys.Stat(path)
		if err != nil {
			return err
		}
		part.copied.bytes += info.Size()
		if cloned {
			part.copied.cloned += info.Size()
		}
		im.meter.add(partitionName(part.tp), info.Size())
		if strings.HasSuffix(e.Name(), ".snapshot") {
			if err := part.lookAtProducers(fsys, path); err != nil {
				return err
			}
		}
	}
	for i := range logs {
		if err := part.check(fsys, to, logs[:i+1], i == len(logs)-1); err != nil {
			return err
		}
	}
	if err := part.whole(logs); err != nil {
		return err
	}
	if err := vfs.WriteFile(fsys, filepath.Join(to, partitionFile), formatPartitionMetadata(part.topic)); err != nil {
		return err
	}
	return fsys.SyncDir(to)
}

// wants reports whether a file of a partition is copied. The indexes of a killed broker's last
// segment are not: they end in reserved space, and are built again.
func (part *partPlan) wants(name string, logs []string) bool {
	if name == epochFile {
		return true
	}
	base, suffix, ok := baseOf(name)
	switch {
	case !ok:
		return false
	case strings.HasSuffix(suffix, ".deleted"), strings.HasSuffix(suffix, ".tmp"):
		return false
	case strings.HasSuffix(suffix, ".swap"), strings.HasSuffix(suffix, ".cleaned"):
		part.copied.swaps = true
		return true
	case suffix == ".index", suffix == ".timeindex":
		if len(logs) == 0 {
			return false
		}
		last, _, _ := baseOf(logs[len(logs)-1])
		return part.from.clean || base < last
	}
	return slices.Contains([]string{".log", ".txnindex", ".snapshot"}, suffix)
}

// check verifies the batches of the last segment in logs, in its copy below to.
func (part *partPlan) check(fsys vfs.FS, to string, logs []string, last bool) error {
	name, n := logs[len(logs)-1], len(logs)
	base, _, _ := baseOf(name)
	path := filepath.Join(part.found.dir, name)
	c := &part.copied
	if base < c.next {
		return damaged(path, "the segment before it ends at offset %d", c.next)
	}
	if n > 1 && base > c.next {
		if err := part.gapBehind(fsys, filepath.Join(to, logs[n-2]), base); err != nil {
			return err
		}
	}
	next := base
	e, err := scanLog(fsys, filepath.Join(to, name), base, func(b *record.Batch) error {
		c.maxID, c.epoch = max(c.maxID, b.ProducerID), max(c.epoch, b.LeaderEpoch)
		c.holes = c.holes || b.BaseOffset > next || b.RecordCount <= b.LastOffsetDelta
		next = b.NextOffset()
		if part.tp.Topic == txnlog.Topic {
			return part.lookAtTransactions(path, b)
		}
		return nil
	})
	if err != nil {
		return err
	}
	switch {
	case e.why == "":
	case e.old:
		return fmt.Errorf("%w: %s has batches of before Kafka 0.11 at byte %d", ErrUnsupported, path, e.pos)
	case part.from.clean, !last, e.later:
		return &DamagedError{Path: path, Pos: e.pos, Reason: e.why}
	}
	c.records, c.next = c.records+e.pos, e.next
	if last {
		c.cut = e.rest
	}
	return nil
}

// lookAtTransactions reads the producer ids of transactional ids.
func (part *partPlan) lookAtTransactions(path string, b *record.Batch) error {
	if b.IsControl() {
		return nil
	}
	for r, err := range b.All() {
		if err != nil {
			return damaged(path, "batch at offset %d: %v", b.BaseOffset, err)
		}
		rec, known, err := txnlog.ParseRecord(r.Key, r.Value)
		if err != nil {
			return damaged(path, "record at offset %d: %v", r.Offset, err)
		}
		if known && rec.Value != nil {
			part.copied.maxID = max(part.copied.maxID, rec.Value.ProducerID, rec.Value.PreviousID, rec.Value.NextID)
		}
	}
	return nil
}

// lookAtProducers reads the producer ids of a snapshot. A damaged snapshot is built again from the
// batches when the log is opened.
func (part *partPlan) lookAtProducers(fsys vfs.FS, path string) error {
	p, err := vfs.ReadFile(fsys, path)
	if err != nil {
		return err
	}
	const header, entry, sum, summed = 10, 46, 2, 6
	if len(p) < header || binary.BigEndian.Uint32(p[sum:]) != crc32.Checksum(p[summed:], crc32.MakeTable(crc32.Castagnoli)) {
		return nil
	}
	for at := header; at+entry <= len(p); at += entry {
		part.copied.maxID = max(part.copied.maxID, int64(binary.BigEndian.Uint64(p[at:])))
	}
	return nil
}
