package kafkadir

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"time"

	"github.com/stratalog/strata/internal/offsets"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/vfs"
)

// inUse reports a directory that a process has open. It makes no lock file.
func (ck *checking) inUse(fsys vfs.FS) error {
	for _, id := range ck.there {
		lock, err := vfs.LockShared(fsys, filepath.Join(ck.dir, brokerDir(id), lockFile))
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case errors.Is(err, vfs.ErrLocked):
			ck.find(Blocker, fmt.Sprintf("broker %d", id), "a process has its directory open, so export rejects it", "stop that process, then check again")
		case err != nil:
			return err
		default:
			if err := lock.Close(); err != nil {
				return err
			}
		}
	}
	return nil
}

// defaultRetention is Kafka's log.retention.hours.
const defaultRetention = 7 * 24 * time.Hour

// expiredRecords returns about how many records of a partition are in closed segments whose newest
// record is older than defaultRetention, by the last entries of their time indexes.
func (ck *checking) expiredRecords(dir string) (n int64, err error) {
	entries, err := ck.fsys.ReadDir(dir)
	if err != nil {
		return 0, err
	}
	var bases []int64
	for _, e := range entries {
		if base, suffix, ok := baseOf(e.Name()); ok && suffix == ".log" {
			bases = append(bases, base)
		}
	}
	slices.Sort(bases)
	for i := range len(bases) - 1 { // the last one is in use
		index, err := vfs.ReadFile(ck.fsys, filepath.Join(dir, fmt.Sprintf("%020d.timeindex", bases[i])))
		if errors.Is(err, fs.ErrNotExist) {
			continue // Kafka builds it
		}
		if err != nil {
			return 0, err
		}
		if whole := len(index) / minIndexBytes * minIndexBytes; whole > 0 {
			newest := time.UnixMilli(int64(binary.BigEndian.Uint64(index[whole-minIndexBytes:])))
			if time.Since(newest) > defaultRetention {
				n += bases[i+1] - bases[i]
			}
		}
	}
	return n, nil
}

// readOffsets reads the groups, and the sizes of all partitions.
func (ck *checking) readOffsets(ctx context.Context) error {
	ck.groups, ck.expired = map[string]*groupSeen{}, map[string]int64{}
	for _, t := range ck.meta.sortedTopics() {
		for _, n := range slices.Sorted(maps.Keys(t.partitions)) {
			if err := ctx.Err(); err != nil {
				return err
			}
			p := t.partitions[n]
			dir, bytes, err := ck.replicaFiles(record.TopicPartition{Topic: t.name, Partition: n}, p)
			if err != nil {
				return err
			}
			if dir != "" {
				old, err := ck.expiredRecords(dir)
				if err != nil {
					return err
				}
				ck.expired[t.name] += old
			}
			ck.report.Partitions, ck.report.Replicas, ck.report.Bytes = ck.report.Partitions+1, ck.report.Replicas+len(p.replicas), ck.report.Bytes+bytes
			if t.name == offsets.Topic && dir != "" {
				if err := ck.readGroups(dir); err != nil {
					return err
				}
			}
		}
		ck.report.Topics++
	}
	for id, g := range ck.groups {
		if len(g.committed) == 0 && len(g.members) == 0 && !g.share && !g.streams {
			delete(ck.groups, id) // all of it was deleted
		}
	}
	return nil
}

// readGroups reads a partition of the offsets topic.
func (ck *checking) readGroups(dir string) error {
	entries, err := ck.fsys.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries { // sorted, so by offset
		base, suffix, ok := baseOf(e.Name())
		if !ok || suffix != ".log" {
			continue
		}
		_, err := scanLog(ck.fsys, filepath.Join(dir, e.Name()), base, func(b *record.Batch) error {
			if b.IsControl() {
				return nil
			}
			for r, err := range b.All() {
				if err != nil {
					return damaged(filepath.Join(dir, e.Name()), "batch at offset %d: %v", b.BaseOffset, err)
				}
				ck.takeGroup(r.Key, r.Value)
			}
			return nil
		})
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // compaction in another process removes segments
			return err
		}
	}
	return nil
}

// takeGroup applies a record of the offsets topic. Records that cannot be read are skipped: a check
// of the files finds them.
func (ck *checking) takeGroup(key, value []byte) {
	k, known, err := offsets.ParseKey(key)
	if err != nil || !known {
		return
	}
	g := ck.groups[k.Group]
	if g == nil {
		g = &groupSeen{committed: map[record.TopicPartition]bool{}}
		ck.groups[k.Group] = g
	}
	switch k.Type {
	case offsets.KeyOffset:
		if tp := (record.TopicPartition{Topic: k.Topic, Partition: k.Partition}); value == nil {
			delete(g.committed, tp)
		} else {
			g.committed[tp] = true
		}
	case offsets.KeyGroup:
		if value == nil {
			g.members = nil
		} else if v, err := offsets.ParseGroupValue(value); err == nil {
			// Members of earlier generations stay: applications are stopped before a move.
			for _, m := range v.Members {
				if g.members == nil {
					g.members = map[string]int32{}
				}
				g.members[m.ClientID] = m.SessionTimeoutMs
			}
		}
	case offsets.KeyShareGroup:
		g.share = value != nil
	case offsets.KeyStreamsGroup:
		g.streams = value != nil
	}
}
