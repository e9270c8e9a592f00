package log

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/stratalog/strata/log/internal/recovery"
	"github.com/stratalog/strata/vfs"
)

// unsyncedWindow is the most that a log under SyncOnAck has written and not synced, generously: one
// round, or one batch.
const unsyncedWindow = 64 << 20

// A RecoveryReport tells what Open found and did; OpenReadOnly and PlanRecovery, what Open would
// do.
type RecoveryReport struct {
	Clean          bool  // the log was closed in order: nothing needed to be looked at
	SameBoot       bool  // the machine has not been restarted since: only the process had died
	ScannedBytes   int64 // of segments
	CutBytes       int64 // behind the last good batch, removed
	CutOffset      int64 // next offset where something was lost behind it; -1: nothing was
	RebuiltIndexes int
	JournalBytes   int64 // written to its last segment from the directory's journal, before anything else

	// SetAside names the files of segments that are no part of the log any more and were renamed
	// (suffix .aside). Neither Strata nor Kafka reads or deletes them: that is for whoever knows
	// that they are not needed.
	SetAside []string
	// Steps is what was done to the files, in order; empty if they were as they should be.
	Steps []RecoveryStep
}

// uneventful are the reports of logs that were closed in order: before a restart of the machine,
// and since. Never changed.
var uneventful = [...]RecoveryReport{{Clean: true, CutOffset: -1}, {Clean: true, SameBoot: true, CutOffset: -1}}

// shared returns r, or one that says the same and takes no memory.
func (r *RecoveryReport) shared() *RecoveryReport {
	switch {
	case !r.Clean || r.CutOffset != -1 || r.ScannedBytes+r.CutBytes+r.JournalBytes+int64(r.RebuiltIndexes+len(r.SetAside)+len(r.Steps)) > 0:
		return r
	case r.SameBoot:
		return &uneventful[1]
	}
	return &uneventful[0]
}

// A RecoveryStep is one change that recovery makes to a log's directory.
type RecoveryStep struct {
	Action string // what is done to what, in one line
	File   string // name in the log's directory; "" if it is none in particular
	Reason string
}

func (r *RecoveryReport) add(s recovery.Step) {
	r.Steps = append(r.Steps, RecoveryStep{Action: s.String(), File: s.Name, Reason: s.Reason})
}

// noteCut reports the cut of a torn write.
func (r *RecoveryReport) noteCut(s recovery.Step) {
	r.CutBytes, r.CutOffset = s.Bytes, s.Offset
	r.add(s)
}

// PlanRecovery returns what Open would do to the files of the log in dir, and does nothing: it
// reads what Open reads, takes no lock and changes no file, as OpenReadOnly. Nobody may be writing
// to the log meanwhile. Its errors are those of Open but ErrLocked; fs.ErrNotExist if there is no
// log.
func PlanRecovery(dir string, cfg Config) (RecoveryReport, error) {
	if cfg.FS == nil && cfg.Dir != nil {
		cfg.FS = cfg.Dir.fs
	}
	cfg.Dir = nil
	cfg, err := cfg.withDefaults()
	if err != nil {
		return RecoveryReport{}, err
	}
	cfg.FS = vfs.ReadOnly(cfg.FS)
	l := newReadOnly(dir, &cfg)
	o := &opening{log: l, cfg: &cfg, scanned: map[int64]scanned{}}
	defer o.drop()
	plan, err := o.plan()
	if err == nil && len(plan.Segments) == 0 && !plan.Restart {
		err = fs.ErrNotExist
	}
	if err != nil {
		return RecoveryReport{}, fmt.Errorf("plan recovery of %s: %w", dir, err)
	}
	return *l.recovery, nil
}

// planError makes an error of package recovery one of ours.
func (l *Log) planError(err error) error {
	var missing *recovery.Missing
	var damage *recovery.Damage
	switch {
	case errors.As(err, &missing):
		return fmt.Errorf("%w: %s: restore it, or remove the directory to give the log up", ErrMissingSegment, filepath.Join(l.path, missing.Name))
	case errors.As(err, &damage):
		return &CorruptError{Path: filepath.Join(l.path, damage.Name), Pos: damage.Pos, Offset: damage.Offset, Reason: damage.Reason}
	}
	return err
}
