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

// A RecoveryReport describes the state that Open found and the changes it made. For OpenReadOnly
// and PlanRecovery it has the changes that Open would make.
type RecoveryReport struct {
	Clean          bool  // the log was closed cleanly and needed no recovery
	SameBoot       bool  // the machine has not been restarted since: only the process ended
	ScannedBytes   int64 // of segments
	CutBytes       int64 // bytes removed after the last valid batch
	CutOffset      int64 // offset from which on records were lost; -1 if none were
	RebuiltIndexes int
	JournalBytes   int64 // written from the directory's journal to the log's last segment, before anything else

	// SetAside has the names of files of segments that are no longer part of the log and were
	// renamed, with the suffix .aside. Neither Strata nor Kafka reads or deletes them; delete them
	// when they are not needed.
	SetAside []string
	// Steps has the changes of the files, in order; it is empty if the files needed none.
	Steps []RecoveryStep
}

// uneventful are the reports of logs that were closed in order: before a restart of the machine,
// and since. Never changed.
var uneventful = [...]RecoveryReport{{Clean: true, CutOffset: -1}, {Clean: true, SameBoot: true, CutOffset: -1}}

// shared returns r, or an equal report that takes no memory.
func (r *RecoveryReport) shared() *RecoveryReport {
	switch {
	case !r.Clean || r.CutOffset != -1 || r.ScannedBytes+r.CutBytes+r.JournalBytes+int64(r.RebuiltIndexes+len(r.SetAside)+len(r.Steps)) > 0:
		return r
	case r.SameBoot:
		return &uneventful[1]
	}
	return &uneventful[0]
}

// A RecoveryStep is one change of a log's directory by recovery.
type RecoveryStep struct {
	Action string // the operation and its object, in one line
	File   string // name in the log's directory; "" if the step has no single file
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

// PlanRecovery returns the changes that Open would make to the files of the log in dir, without
// making them. It reads the same files as Open, takes no lock and changes no file, like
// OpenReadOnly. No process may write to the log at the same time. Errors are those of Open except
// ErrLocked; fs.ErrNotExist if there is no log.
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
	if err == nil {
		err = o.compare(&plan)
	}
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
	var hole *recovery.Hole
	switch {
	case errors.As(err, &hole):
		return fmt.Errorf("%w: %s ends at offset %d, and the next segment begins at %d: restore the directory from one copy",
			ErrMissingSegment, filepath.Join(l.path, hole.Name), hole.End, hole.Next)
	case errors.As(err, &missing):
		return fmt.Errorf("%w: %s: restore it", ErrMissingSegment, filepath.Join(l.path, missing.Name))
	case errors.As(err, &damage):
		return &CorruptError{Path: filepath.Join(l.path, damage.Name), Pos: damage.Pos, Offset: damage.Offset, Reason: damage.Reason}
	}
	return err
}
