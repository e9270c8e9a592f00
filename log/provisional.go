package log

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"sync"

	"github.com/stratalog/strata/log/internal/manifest"
	"github.com/stratalog/strata/vfs"
)

// A new log under SyncNever or SyncInterval promises nothing of its records to survive a power cut
// until it is synced, so its first append waits for no disk. What has to survive the death of the
// process is in provisionalFile: a state of which nothing is synced, neither its bytes nor its name
// nor the names of what it speaks of. It counts while
//
//   - there is no strata.state. The first one is written before anything but an append happens to
//     the log (roll, truncation, DeleteRecords, another policy, Close ...);
//   - the machine runs on: its boot id is the present one. Then the system has all that was
//     written. One that does not check was being written when the process died, and nothing was
//     appended.
//
// After a power cut nobody knows which part of all that is on the disk. The log is read as one
// without a state, by Kafka's rules: its batches are checked one by one, and it ends at the first
// that is not whole; its leader epochs are in them. That is right as long as what was called
// durable is: a sync makes the names durable, too (syncNamesBeside), and nothing before that was.

// provisionalFile is only ours; Kafka ignores it. Its format is that of stateFile.
const provisionalFile = "strata.provisional"

// safety is how safe a state, or an epoch in it, has to be before the log goes on.
type safety uint8

const (
	durable  safety = iota // on stable storage
	asRecord               // as safe as the policy makes the log's records
)

// mayBeProvisional reports whether a state need not be durable to append under cfg. Where the
// machine's runs cannot be told apart it would never count.
func (w *writer) mayBeProvisional(cfg *Config) bool {
	return w.stateless && w.made && w.gapless && !w.cutPending && cfg.Sync != SyncOnAck && w.log.dir.bootID != ""
}

// mark makes a state say that the log is being written to. One that is there is replaced if
// it is less safe than asked for.
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
	l.durability.unnamed.Store(true) // before anybody sees a record
	s := w.stateOf(cfg, l.list(), false)
	if err := writeUnsynced(cfg.FS, filepath.Join(l.path, provisionalFile), s.AppendTo(nil)); err != nil {
		return fmt.Errorf("write provisional state of %s: %w", l.path, err)
	}
	w.marked, w.provisional = true, true
	return nil
}

// settleProvisional puts everything on stable storage that a log with a provisional state has, and
// gives it its first state, under the settings of cfg. All of it waits for the disk together, in
// two turns: first what the state speaks of, records and names and what the state itself says; then
// the state's name. The state may say that the records are on stable storage: where it is found,
// they are.
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
		w.leftover = false // else the next state sees to it: it says nothing meanwhile
	}
}

// syncNamesBeside syncs records and, at the same time, makes durable what a log needs besides these
// to be found with them: the names of its segment and its directory, and what its owner keeps
// there. That is there already if a state is on stable storage, which came after them. Safe for
// concurrent use: who has read an end calls it, and unnamed was set before there was any.
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

// syncAround waits at the same time for listed, which syncs the log's directory or nothing, for the
// entry of that directory, for what the owner keeps in it, and for beside if that is not nil.
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

// stateBytes returns the state of the log in dir, the provisional one if there is no other and it
// counts. An error that matches fs.ErrNotExist says that there is none.
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
	return vfs.ReadFile(fsys, stateName(dir)) // the first one may have come, and that one have gone
}
