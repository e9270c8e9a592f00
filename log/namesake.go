package log

import (
	"fmt"
	"path/filepath"

	"github.com/stratalog/strata/log/internal/manifest"
	"github.com/stratalog/strata/vfs"
)

// Kafka's checkpoints count for a log that has no state of ours, and they identify logs by name.
// They are written when the directory is closed, and stay there while it is in use. Meanwhile the
// log may have been removed, and another one created under its name. So a log whose name is in the
// checkpoints gets a state before its first file:
//
//	Remove   the directory of the old log gets another name, durably
//	Open     the new one's state names no segment, durably
//	Open     its first segment is created
//
// With that state the checkpoints are not used. Segments that the state does not name continue the
// log: the appends of a Kafka broker that takes over after a kill count. The checkpoints do not
// change, since they identify the journal (witness). A log that is not in the checkpoints gets its
// first state with its first append.

// outliveNamesake protects a log that begins at start, and has no segment yet, from the checkpoints
// of an earlier log of its name. An existing state may have been left by a process that was killed
// before it synced the state's name.
func (l *Log) outliveNamesake(cfg *Config, start int64) error {
	if !l.dir.names(cfg.FS, l) {
		return nil
	}
	w := &l.token.writer // no other goroutine has the log yet
	st := manifest.State{
		Clean: true, Start: start, RecoveryPoint: start, End: start,
		Identity: l.identity, Incarnation: w.incarnation, Cuts: w.cuts, BootID: l.dir.bootID, // nothing was ever purged
	}
	err := vfs.WriteFileBeside(cfg.FS, stateName(l.path), st.AppendTo(nil), func() error {
		if !l.unentered.Load() {
			return nil
		}
		// A process that finds a state assumes that the log's own entry is durable.
		return l.dir.syncEntries(cfg.FS)
	})
	if err != nil {
		return fmt.Errorf("write state of %s: %w", l.path, err)
	}
	l.unentered.Store(false)
	l.durability.stated.Store(true)
	w.stateless = false
	if l.dir.holds(l) {
		l.dir.mu.Lock()
		l.dir.kafka.forget(filepath.Base(l.path))
		l.dir.mu.Unlock()
	}
	return nil
}

// names reports whether the checkpoints beside l may have its name. Those of d are in memory.
// Beside a log that is open alone, or through a Directory elsewhere, they have not been read.
func (d *Directory) names(fsys vfs.FS, l *Log) bool {
	parent, name := filepath.Split(l.claim.name)
	if d.holds(l) {
		d.mu.Lock()
		defer d.mu.Unlock()
		return d.kafka.names(filepath.Base(l.path))
	}
	var k kafkaFiles
	var err error
	if k.recoveries, err = readOffsets(fsys, filepath.Join(parent, recoveryPointFile)); err == nil {
		k.starts, err = readOffsets(fsys, filepath.Join(parent, logStartFile))
	}
	return err != nil || k.names(name)
}

// holds reports whether l lies right below d, so that the checkpoints of d may speak of it. A log
// that is only read has a Directory of its own, which has those beside it.
func (d *Directory) holds(l *Log) bool {
	return l.readOnly || filepath.Dir(l.claim.name) == d.real || !d.solo && filepath.Dir(filepath.Clean(l.path)) == filepath.Clean(d.path)
}

func (k *kafkaFiles) names(name string) bool {
	_, recovery := k.recoveries[name]
	_, start := k.starts[name]
	return recovery || start
}

// forget replaces the entries of a removed log with the entries of an empty one. They must not be
// removed: the files keep them until the directory is closed, also for the next log of the name.
func (k *kafkaFiles) forget(name string) {
	if k.names(name) {
		k.recoveries[name] = 0
		delete(k.starts, name)
	}
}
