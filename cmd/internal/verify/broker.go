package verify

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/stratalog/strata/cmd/internal/kafkafile"
	"github.com/stratalog/strata/internal/metarecord"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/topic"
)

// Names of the files beside the partitions in a broker's directory.
const (
	recoveryFile = "recovery-point-offset-checkpoint"
	startFile    = "log-start-offset-checkpoint"
	highFile     = "replication-offset-checkpoint"
	cleanerFile  = "cleaner-offset-checkpoint"
	cleanFile    = ".kafka_cleanshutdown"
	tieredDir    = "remote-log-index-cache"
)

// rootFiles are the contents of those files. Keys are "TOPIC-PARTITION".
type rootFiles struct {
	recovery, start, high, cleaner map[string]int64 // nil: there is no such file, or it is damaged
	clean, tiered                  bool
}

func (v *verifier) rootFiles(dir string, names []string) rootFiles {
	var r rootFiles
	for _, name := range names {
		path := filepath.Join(dir, name)
		switch name {
		case recoveryFile:
			r.recovery = v.offsets(path)
		case startFile:
			r.start = v.offsets(path)
		case highFile:
			r.high = v.offsets(path)
		case cleanerFile:
			r.cleaner = v.offsets(path)
		case tieredDir:
			r.tiered = true
		case cleanFile:
			if b := v.small(path); b != nil {
				_, err := kafkafile.ParseCleanShutdown(b)
				if r.clean = err == nil; err != nil {
					v.damage(path, -1, "%v", err)
				}
			}
		case string(kafkafile.MetaProperties):
			if b := v.small(path); b != nil {
				if _, err := kafkafile.ParseProperties(b); err != nil {
					v.damage(path, -1, "%v", err)
				}
			}
		}
	}
	return r
}

func (v *verifier) offsets(path string) map[string]int64 {
	b := v.small(path)
	if b == nil {
		return nil
	}
	os, err := kafkafile.ParseOffsets(b)
	if err != nil {
		v.damage(path, -1, "%v", err)
		return nil
	}
	m := make(map[string]int64, len(os))
	for _, o := range os {
		m[fmt.Sprintf("%s-%d", o.Topic, o.Partition)] = o.Offset
	}
	return m
}

// facts returns the entries of the files for one partition.
func (r rootFiles) facts(name string) facts {
	f := noFacts
	f.tiered = r.tiered
	if o, ok := r.recovery[name]; ok {
		f.recoveryPoint, f.clean = o, r.clean
	}
	if o, ok := r.start[name]; ok {
		f.start = o
	}
	if o, ok := r.high[name]; ok {
		f.high = o
	}
	if _, ok := r.cleaner[name]; ok {
		f.compacted = yes
	} else if r.cleaner != nil {
		f.compacted = no
	}
	return f
}

// factsFromParent returns the facts for a partition that is checked alone, if its parent directory
// is a broker's. Findings in the parent directory are dropped.
func (v *verifier) factsFromParent(dir string) facts {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return noFacts
	}
	names, err := v.list(filepath.Dir(abs))
	if err != nil || !isBroker(names) {
		return noFacts
	}
	quiet := &verifier{ctx: v.ctx, o: Options{Found: func(Finding) {}}, fs: v.fs, perFile: map[string]int{}}
	return quiet.rootFiles(filepath.Dir(abs), names).facts(filepath.Base(abs))
}

// broker checks a broker's directory with all its partitions.
func (v *verifier) broker(dir string, names []string) error {
	root := v.rootFiles(dir, names)
	if name := string(kafkafile.MetaProperties); !slices.Contains(names, name) && !v.o.Copy {
		v.damage(filepath.Join(dir, name), -1, "is missing: it says whose directory this is, and without it no broker starts")
	}
	have := map[string]found{}
	for _, name := range names {
		path := filepath.Join(dir, name)
		if kind, set := kafkafile.KindOf(name); set != "" {
			v.note(path, "left behind by a write that was interrupted")
			continue
		} else if kind == kafkafile.MetadataSnapshot {
			v.metadataSnapshot(path)
			continue
		}
		info, err := v.fs.Stat(path)
		if err != nil || !info.IsDir() {
			continue
		}
		_, _, set, ok := kafkafile.SplitPartition(name)
		switch {
		case !ok:
			v.note(path, "not the name of a partition; not looked at")
			continue
		case set == "-delete":
			v.note(path, "being deleted; not looked at")
			continue
		case set == "-stray":
			v.note(path, "belonged to no topic when a broker was started")
		}
		f, err := v.partition(path, root.facts(name))
		if err != nil {
			return err
		}
		if set == "" {
			have[name] = f
		}
	}
	v.checkpoints(dir, root, have)
	v.topicIDs(dir, have)
	return nil
}

// metadataSnapshot checks a controller's snapshot. It consists of batches, but their offsets need
// not grow as in a log.
func (v *verifier) metadataSnapshot(path string) {
	f, size := v.open(path)
	if f == nil {
		return
	}
	defer v.closing(path, f)
	_, err := kafkafile.ScanLog(f, size, kafkafile.Visitor{
		Batch:  func(int64, *record.Batch) error { v.n.Batches++; return v.ctx.Err() },
		Damage: func(d kafkafile.Damage) error { v.damage(path, d.Pos, "%d bytes: %s", d.Size, d.Reason); return nil },
	})
	if err != nil && v.ctx.Err() == nil {
		v.damage(path, -1, "%v", err)
	}
}

// checkpoints checks the offsets in the checkpoints against the log end offsets.
func (v *verifier) checkpoints(dir string, root rootFiles, have map[string]found) {
	for file, m := range map[string]map[string]int64{recoveryFile: root.recovery, startFile: root.start, highFile: root.high, cleanerFile: root.cleaner} {
		for name, offset := range m {
			path := filepath.Join(dir, file)
			p, ok := have[name]
			switch {
			case !ok && file == recoveryFile && root.clean && offset > 0: // lists present logs
				v.damage(path, -1, "%s was closed at %d, and has no directory", name, offset)
			case !ok:
				v.note(path, "%s has offset %d, and no directory", name, offset)
			case offset > p.end && p.stated && !root.clean: // file older than strata.state
				v.note(path, "%s has offset %d of an earlier log, and its log ends at %d", name, offset, p.end)
			case offset > p.end:
				v.damage(path, -1, "%s has offset %d, and its log ends at %d", name, offset, p.end)
			case file == recoveryFile && root.clean && offset != p.end:
				v.damage(path, -1, "%s was closed at %d, and its log ends at %d", name, offset, p.end)
			}
		}
	}
}

// topicIDs checks the ids in the partition.metadata files against the controller's log if it is in
// this directory, and otherwise against each other.
func (v *verifier) topicIDs(dir string, have map[string]found) {
	known := v.metadataIDs(dir)
	// topic -> first partition, whose id counts if the controller's log does not have the topic
	first := map[string]string{}
	for name, f := range have {
		tp, _, _, _ := kafkafile.SplitPartition(name)
		path := filepath.Join(dir, name, string(kafkafile.PartitionMetadata))
		if !f.hasID || tp == topic.MetadataTopic {
			continue
		}
		id, ok := known.ids[tp]
		switch {
		case ok && id != f.id && known.removed[f.id]:
			v.note(path, "of a deleted topic; the next open removes the directory")
		case ok && id != f.id:
			v.damage(path, -1, "another topic id than that of %s in the controller's log", tp)
		case ok:
		case first[tp] == "":
			first[tp] = name
		case have[first[tp]].id != f.id:
			v.damage(path, -1, "another topic id than %s has", first[tp])
		}
	}
}

type topicIDs struct {
	ids     map[string][16]byte
	removed map[[16]byte]bool
}

// metadataIDs reads the topic ids from the controller's log. Damage there has been reported
// already.
func (v *verifier) metadataIDs(dir string) topicIDs {
	t := topicIDs{map[string][16]byte{}, map[[16]byte]bool{}}
	dir = filepath.Join(dir, topic.MetadataTopic+"-0")
	names, err := v.list(dir)
	if err != nil {
		return t
	}
	for _, name := range names {
		if kind, set := kafkafile.KindOf(name); kind != kafkafile.Log || set != "" {
			continue
		}
		f, err := v.fs.OpenFile(filepath.Join(dir, name), os.O_RDONLY, 0)
		if err != nil {
			continue
		}
		if size, err := f.Size(); err == nil {
			_, _ = kafkafile.ScanLog(f, size, kafkafile.Visitor{Batch: func(_ int64, b *record.Batch) error { return t.batch(b) }})
		}
		v.closing(name, f)
	}
	return t
}

func (t topicIDs) batch(b *record.Batch) error {
	if b.IsControl() {
		return nil
	}
	for r, err := range b.All() {
		if err != nil {
			return nil // reported with the partition
		}
		rec, err := metarecord.Parse(r.Value)
		if err != nil {
			continue // Kafka's log has more kinds of records
		}
		switch m := rec.(type) {
		case *metarecord.Topic:
			t.ids[strings.Clone(m.Name)] = m.ID
		case *metarecord.RemoveTopic:
			t.removed[m.ID] = true
			for name, id := range t.ids {
				if id == m.ID {
					delete(t.ids, name)
				}
			}
		}
	}
	return nil
}
