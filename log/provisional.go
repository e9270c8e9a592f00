package log

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"sync"
	"time"

	"github.com/stratalog/strata/log/internal/manifest"
	"github.com/stratalog/strata/vfs"
)

// A new log under SyncNever or SyncInterval does not promise that its records survive a power
// failure until it is synced, so its first append waits for no disk. The facts that have to survive
// the death of the process are in provisionalFile. It is a state of which nothing is synced,
// neither its bytes nor its name nor the names of the files that it lists. It is valid while
//
//   - there is no strata.state. The first one is written before any change of the log other than an
//     append (roll, truncation, DeleteRecords, another policy, Close ...);
//   - the machine has not been restarted: its boot id is the present one. Then the system has all
//     written data. An invalid state was being written when the process died, and nothing was
//     appended.
//
// After a power failure it is unknown which part of that is on the disk. The log is read as one
// without a state, by Kafka's rules: its batches are checked one by one, and it ends at the first
// incomplete one; its leader epochs are in the batches. That is correct as long as durable records
// are: a sync makes the names durable, too (syncNamesBeside), and nothing was durable before that
// sync.

// provisionalFile is only ours; Kafka ignores it. Its format is that of stateFile.
const provisionalFile = "strata.provisional"

// safety is the required durability of a state, or of an epoch in it, before the log continues.
type safety uint8

const (
	durable  safety = iota // on stable storage
	asRecord               // as safe as the policy makes the log's records
)

// mayBeProvisional reports whether a state need not be durable to append under cfg. Where runs of
// the machine cannot be distinguished, a provisional state would never be valid.
func (w *writer) mayBeProvisional(cfg *Config) bool {
	return w.stateless && w.made && w.gapless && !w.cutPending && cfg.Sync != SyncOnAck && w.log.dir.bootID != ""
}

// mark marks the log in its state as being written to. An existing state is replaced if it is less
// durable than required.
func (w *writer) mark(how safety) error {
	cfg := w.log.cfg.Load()
	if how == asRecord && w.mayBeProvisional(cfg) {
		if w.marked {
			return nil
		}
		return w.storeProvisional(cfg)
	}
	return w.markOpen()
}

// storeProvisional writes the provisional state.
func (w *writer) storeProvisional(cfg *Config) error {
	l := w.log
	w.journalTag = newIncarnation()
	w.marked, w.leftover = false, true
	l.durability.unnamed.Store(true) // before a reader can see a record
	s := w.stateOf(cfg, l.list(), false)
	if err := writeUnsynced(cfg.FS, filepath.Join(l.path, provisionalFile), s.AppendTo(nil)); err != nil {
		return fmt.Errorf("write provisional state of %s: %w", l.path, err)
	}
	w.marked, w.provisional = true, true
	return nil
}

// settleProvisional puts everything of a log with a provisional state on stable storage, and gives
// it its first state, under the settings of cfg. It waits for the disk in two rounds. The first
// syncs the state's content, the records and their names, and the second the state's name. So the
// state may mark the records as on stable storage: if it is found, they are.
func (w *writer) settleProvisional(cfg *Config) error {
	l := w.log
	d := &l.durability
	d.syncing.Lock()
	defer d.syncing.Unlock()
	if err := d.failed(); err != nil {
		return err
	}
	// There is one segment, and nothing is written meanwhile: a roll and a cut write a state first,
	// and only the holder of the token does either.
	cuts, end, active := d.cuts.Load(), l.segments.end.Load(), l.active()
	s := w.stateOf(cfg, l.list(), false)
	s.RecoveryPoint = active.NextOffset()
	w.unlisted = w.unlisted && d.unnamed.Load()
	defer l.dir.observeSync(time.Now())
	d.syncs.Add(1)
	if err := w.storeStateBeside(s, active.Sync); err != nil {
		return err
	}
	l.durableTo(end, cuts)
	return nil
}

// dropProvisional removes the provisional state, now that there is one that counts in its place.
func (w *writer) dropProvisional(cfg *Config) {
	if err := cfg.FS.Remove(filepath.Join(w.log.path, provisionalFile)); err == nil || errors.Is(err, fs.ErrNotExist) {
		w.leftover = false // else the next state removes it: it has no effect meanwhile
	}
}

// syncNamesBeside syncs records. At the same time it makes the names durable by which the log is
// found: its directory, its segment, and the files that its owner keeps there. They are durable
// already if a state is on stable storage, which is written after them. It is safe for concurrent
// use: its callers have read an end, and unnamed was set before there was one.
func (l *Log) syncNamesBeside(records func() error) error {
	if !l.durability.unnamed.Load() {
		return records()
	}
	cfg := l.cfg.Load()
	if err := l.syncAround(cfg, func() error { return cfg.FS.SyncDir(l.path) }, records); err != nil {
		return err
	}
	l.unentered.Store(false)
	l.durability.unnamed.Store(false)
	return nil
}

// syncAround waits at the same time for listed, which syncs the log's directory or nothing, for
// the directory's own entry, for the owner's files in it, and for beside if that is not nil.
func (l *Log) syncAround(cfg *Config, listed, beside func() error) error {
	var wg sync.WaitGroup
	var entered, owned, other error
	if l.unentered.Load() {
		wg.Go(func() { entered = l.dir.syncEntries(cfg.FS) })
	}
	if cfg.Beside != nil {
		wg.Go(func() { owned = cfg.Beside(l.path) })
	}
	if beside != nil {
		wg.Go(func() { other = beside() })
	}
	err := listed()
	wg.Wait()
	return errors.Join(err, entered, owned, other)
}

// stateBytes returns the state of the log in dir, or a valid provisional one if there is no other.
// If there is none, the error matches fs.ErrNotExist.
func stateBytes(fsys vfs.FS, dir string) ([]byte, error) {
	p, err := vfs.ReadFile(fsys, stateName(dir))
	if !errors.Is(err, fs.ErrNotExist) {
		return p, err
	}
	missing := err
	if p, err = vfs.ReadFile(fsys, filepath.Join(dir, provisionalFile)); err == nil {
		if s, err := manifest.Parse(p); err == nil && s.BootID != "" && s.BootID == fsys.BootID() {
			return p, nil
		}
		return nil, missing
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	// The first state may have been written, and the provisional one removed, in between.
	return vfs.ReadFile(fsys, stateName(dir))
}
