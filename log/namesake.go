package log

import (
	"fmt"
	"path/filepath"

	"github.com/stratalog/strata/log/internal/manifest"
	"github.com/stratalog/strata/vfs"
)

// What Kafka's checkpoints say of a log counts while it has no state of ours, and they go by names.
// They are written when the directory is closed, and lie there while it is in use: by then the log
// may have been removed, and another begun under its name. So a log whose name they have gets a
// state before its first file:
//
//	Remove   the directory of the old log gets another name, durably
//	Open     the new one's state names no segment, durably
//	Open     its first segment is made
//
// With that state nobody asks the checkpoints, and segments that it does not name go on with the
// log: what a Kafka broker appends that takes over after a kill counts. The checkpoints stay
// as they are, since the journal is known by them (witness). A log that they do not name gets
// its first state with its first append.

// outliveNamesake makes a log that begins at start, and has no segment yet, one that is not judged
// by what the checkpoints have of an earlier log of its name. A state that is there already was
// perhaps left by a process that did not live to sync its name.
func (l *Log) outliveNamesake(cfg *Config, start int64) error {
	if !l.dir.names(cfg.FS, l) {
		return nil
	}
	w := &l.token.writer // nobody else knows the log yet
	st := manifest.State{
		Clean: true, Start: start, RecoveryPoint: start, End: start,
		Incarnation: w.incarnation, Cuts: w.cuts, BootID: l.dir.bootID, // nothing was ever purged
	}
	err := vfs.WriteFileBeside(cfg.FS, stateName(l.path), st.AppendTo(nil), func() error {
		if !l.unentered.Load() {
			return nil
		}
		return l.dir.syncEntries(cfg.FS) // who finds a state takes the log's own entry for durable
	})
	if err != nil {
		return fmt.Errorf("write state of %s: %w", l.path, err)
	}
	l.unentered.Store(false)
	w.stateless = false
	if l.dir.holds(l) {
		l.dir.mu.Lock()
		l.dir.kafka.forget(filepath.Base(l.path))
		l.dir.mu.Unlock()
	}
	return nil
}

// names reports whether the checkpoints beside l may have its name. Those of d
// are in memory; beside a log that is open alone, or through a Directory that
// lies elsewhere, nobody has read them.
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

// forget makes the entries of a log that was removed those of an empty one. They must not go: the
// files have them until the directory is closed, for the next log of the name too.
func (k *kafkaFiles) forget(name string) {
	if k.names(name) {
		k.recoveries[name] = 0
		delete(k.starts, name)
	}
}
