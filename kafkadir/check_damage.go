package kafkadir

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/replication"
	"github.com/stratalog/strata/vfs"
)

// A Damage is a fault of a file or directory below CheckConfig.Dir.
type Damage struct {
	Path string
	Text string // the fault
}

// A damagePlace is the broker, and the partition or file of its directory, that a Damage is in.
type damagePlace struct {
	Damage
	broker    int32  // 0: outside of the brokers' directories
	name      string // of the partition's directory or of the broker's file; "": the broker's directory
	file      string // in the partition's directory; "": the directory
	partition *kafkaPartition
	old       bool // the broker's directory is an older copy
}

// madeAgain are the files of a partition that the next open of the cluster, or Kafka, makes again.
// Removing one of the others would lose records.
var madeAgain = []string{".index", ".timeindex", ".snapshot"}

// isMadeAgain reports whether an export succeeds without the damaged file. In the only copy of the
// metadata the epochs prove that the copy is not an old one: an open may reject it without them.
func (ck *checking) isMadeAgain(d *damagePlace) bool {
	switch {
	case d.file == "":
		return d.name == recoveryPointFile
	case d.file == epochFile:
		return d.name != metadataDir || len(ck.report.Brokers) > 1
	}
	return d.file == partitionFile || slices.Contains(madeAgain, filepath.Ext(d.file))
}

// readDamages finds out which replicas and copies of the metadata are damaged: by the given faults,
// and by the brokers' evidence of their records.
func (ck *checking) readDamages(ctx context.Context, fsys vfs.FS, given []Damage) error {
	ck.faulty, ck.stale = map[int32]map[string]bool{}, map[int32]bool{}
	for _, d := range given {
		ck.damages = append(ck.damages, ck.locate(d))
	}
	err := replication.CheckEvidence(ctx, fsys, ck.dir)
	var missing []error
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		missing = joined.Unwrap()
	}
	for _, m := range missing {
		e, ok := errors.AsType[*replication.DirectoryError](m)
		if !ok {
			return err
		}
		if within := func(d *damagePlace) bool { return isBelow(e.Dir, d.Path) }; slices.ContainsFunc(ck.damages, within) {
			continue
		}
		d := ck.locate(Damage{e.Dir, e.Error()})
		d.old = d.name == "" && e.Reason == replication.ErrDirectoryWentBack
		ck.damages = append(ck.damages, d)
	}
	if err != nil && missing == nil {
		return err
	}
	for _, d := range ck.damages {
		switch {
		case d.broker == 0:
		case d.name == "", d.name == metaPropertiesFile:
			ck.stale[d.broker] = true
		case d.name == metadataDir && !ck.isMadeAgain(d):
			if ck.badCopies[d.broker] == nil {
				ck.badCopies[d.broker] = errors.New(d.Text)
			}
		case d.partition != nil && !ck.isMadeAgain(d):
			if ck.faulty[d.broker] == nil {
				ck.faulty[d.broker] = map[string]bool{}
			}
			ck.faulty[d.broker][d.name] = true
		}
	}
	return nil
}

// isBelow reports whether path is dir or below it.
func isBelow(dir, path string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && filepath.IsLocal(rel)
}

// locate finds the broker and the partition of a fault.
func (ck *checking) locate(d Damage) *damagePlace {
	at := &damagePlace{Damage: d}
	rel, err := filepath.Rel(ck.dir, d.Path)
	if err != nil {
		return at
	}
	parts := strings.SplitN(filepath.ToSlash(rel), "/", 3)
	id, ok := brokerID(parts[0])
	if !ok {
		return at
	}
	at.broker = id
	if len(parts) > 1 {
		at.name = parts[1]
	}
	if len(parts) > 2 {
		at.file = parts[2]
	}
	if i := strings.LastIndexByte(at.name, '-'); i > 0 {
		n, err := strconv.ParseInt(at.name[i+1:], 10, 32)
		if t := ck.meta.topics[ck.meta.names[at.name[:i]]]; err == nil && t != nil {
			if p := t.partitions[int32(n)]; p != nil && slices.Contains(p.replicas, at.broker) {
				at.partition = p
			}
		}
	}
	return at
}

// reportDamages reports each fault: a Blocker if no whole replica or copy remains for the export.
func (ck *checking) reportDamages() {
	const rejects = ", so export rejects the cluster"
	see := "strata verify " + ck.dir + " shows the damage; put the files back, or restore a backup"
	for _, d := range ck.damages {
		whole := ck.wholeReplica(d.partition, d.name)
		switch {
		case d.old: // its replicas are judged one by one
			ck.find(Note, d.Path, d.Text+"; the export takes the replicas of the other brokers", "")
		case ck.isMadeAgain(d) && d.partition == nil:
			ck.find(Note, d.Path, d.Text+"; the export does not need it", "")
		case d.name == metadataDir:
			ck.findBadCopy(d.broker, d.Path, d.Text, see)
		case ck.isMadeAgain(d) && slices.Contains(madeAgain, filepath.Ext(d.file)):
			ck.find(Change, d.Path, d.Text+"; the export copies it as it is", "remove the file: it is made again from the records")
		case ck.isMadeAgain(d):
			ck.find(Note, d.Path, d.Text+"; the export makes it again", "")
		case d.partition != nil && whole > 0:
			ck.find(Note, d.Path, fmt.Sprintf("%s; the export takes the replica of broker %d, and Kafka copies it", d.Text, whole), "")
		case d.partition == nil && strings.Contains(d.name, "-") && d.file != "":
			ck.find(Note, d.Path, d.Text+"; it belongs to no partition of the cluster", "")
		default:
			ck.find(Blocker, d.Path, d.Text+rejects, see)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(ck.badCopies)) {
		if !slices.ContainsFunc(ck.damages, func(d *damagePlace) bool { return d.broker == id && d.name == metadataDir }) {
			text := ck.badCopies[id].Error()
			if e, ok := errors.AsType[*DamagedError](ck.badCopies[id]); ok {
				text = e.Reason
			}
			ck.findBadCopy(id, filepath.Join(ck.dir, brokerDir(id), metadataDir), text, see)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(ck.stale)) {
		for _, t := range ck.meta.sortedTopics() {
			for _, n := range slices.Sorted(maps.Keys(t.partitions)) {
				p := t.partitions[n]
				name := partitionName(record.TopicPartition{Topic: t.name, Partition: n})
				if slices.Contains(p.replicas, id) && p.whole(id) && ck.wholeReplica(p, name) == 0 {
					ck.find(Blocker, filepath.Join(ck.dir, brokerDir(id), name), "no other broker has its records"+rejects, see)
				}
			}
		}
	}
}

// findBadCopy reports a damaged copy of the metadata. An open needs more than half of the copies.
func (ck *checking) findBadCopy(broker int32, path, text, see string) {
	if whole := len(ck.report.Brokers) - len(ck.badCopies); 2*whole > len(ck.report.Brokers) {
		ck.find(Note, path, text+"; the export takes the metadata of the other brokers", "")
		return
	}
	ck.find(Blocker, path, text+", and more than half of the brokers need a whole copy of the metadata, so export rejects the cluster", see)
}

// wholeReplica returns the broker with the replica that the export takes: the first in sync whose
// files are whole; 0 if there is none.
func (ck *checking) wholeReplica(p *kafkaPartition, name string) int32 {
	if p == nil {
		return 0
	}
	for _, id := range append(slices.Clone(p.isr), p.replicas...) {
		if p.whole(id) && ck.usable(id, name) {
			return id
		}
	}
	return 0
}

// usable reports whether nothing is known against the replica of a broker.
func (ck *checking) usable(id int32, name string) bool {
	return slices.Contains(ck.there, id) && !ck.stale[id] && !ck.faulty[id][name]
}

// replicaFiles returns the directory of the replica that the export takes, "" if it has no files,
// and the bytes of the files of all replicas after the export's open has copied missing ones.
func (ck *checking) replicaFiles(tp record.TopicPartition, p *kafkaPartition) (dir string, bytes int64, err error) {
	name := partitionName(tp)
	best := ck.wholeReplica(p, name)
	if best == 0 && len(p.replicas) > 0 { // a Blocker: any replica is as good
		best = p.replicas[0]
	}
	dir, size, err := ck.filesOf(best, name)
	if err != nil {
		return "", 0, err
	}
	for _, id := range p.replicas {
		own := size
		if id != best && p.whole(id) && ck.usable(id, name) {
			if _, own, err = ck.filesOf(id, name); err != nil {
				return "", 0, err
			}
		}
		bytes += own
	}
	return dir, bytes, nil
}

// filesOf returns the directory of a broker's replica and the bytes of its files; "" if there is no
// directory.
func (ck *checking) filesOf(id int32, name string) (dir string, bytes int64, err error) {
	dir = filepath.Join(ck.dir, brokerDir(id), name)
	entries, err := ck.fsys.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return "", 0, nil
	}
	if err != nil {
		return "", 0, err
	}
	for _, e := range entries {
		if _, suffix, ok := baseOf(e.Name()); !ok || strings.Count(suffix, ".") != 1 {
			continue
		}
		info, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) { // a running process may remove it
			continue
		}
		if err != nil {
			return "", 0, err
		}
		bytes += info.Size()
	}
	return dir, bytes, nil
}
