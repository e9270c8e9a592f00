package log

import (
	"fmt"
	"math"

	"github.com/stratalog/strata/log/internal/recovery"
)

// Known has bounds of a log that its owner keeps outside the log's directory. Open compares them
// with the directory, and fails with an *IncompleteError before it changes a file. Without them, a
// directory whose files were removed counts as a log that was never written.
type Known struct {
	// Start and End are the offsets that the log had when they were noted. A Start below 0 is
	// unknown; an End of 0 is not checked.
	Start, End int64
	// Exact means that nothing has changed since, so that the log must start at Start: a state that is
	// an older copy would bring deleted records back. Otherwise the start may have moved; the log's
	// state has the new one, if the state exists.
	Exact bool
	// Stated means that strata.state was on stable storage (Log.Stated).
	Stated bool
	// SameRun means that the log was closed in order, or that the machine was not restarted since: no
	// power cut can have taken the first state of a new log.
	SameRun bool
}

// An IncompleteError is returned for a log whose directory contradicts Config.Known. errors.Is(err,
// ErrMissingSegment) is true for it.
type IncompleteError struct {
	Path       string
	Start, End int64 // of the records in the directory; equal if there are none
	Stateless  bool  // the directory has segments and no strata.state, and there was one
	Known      Known
}

func (e *IncompleteError) Error() string {
	if e.Stateless {
		return fmt.Sprintf("%v: %s has no %s, and there was one: restore its files", ErrMissingSegment, e.Path, stateFile)
	}
	if e.Start == e.End {
		return fmt.Sprintf("%v: %s has no records, and there were some: restore its files", ErrMissingSegment, e.Path)
	}
	return fmt.Sprintf("%v: %s has offsets %d to %d, and there were %d to %d: restore its files",
		ErrMissingSegment, e.Path, e.Start, e.End, max(e.Known.Start, 0), e.Known.End)
}

// Unwrap returns ErrMissingSegment.
func (e *IncompleteError) Unwrap() error { return ErrMissingSegment }

// compare returns an error if the directory has the files of another log, or fewer records than are
// known.
func (o *opening) compare(plan *recovery.Plan) error {
	cfg, st := o.cfg, &o.facts.State
	known := st.Identity != 0 || cfg.IdentityRequired && st.Version >= 6
	if cfg.Identity != 0 && known && st.Identity != cfg.Identity {
		return ErrOtherLog
	}
	return cfg.Known.compare(o, plan)
}

// compare returns an *IncompleteError if the plan makes less of the directory than is known.
func (k *Known) compare(o *opening, plan *recovery.Plan) error {
	if k == nil {
		return nil
	}
	stated := o.facts.State.Version > 0
	start, end := plan.Start, plan.Start
	if len(plan.Segments) > 0 {
		end = plan.End
		start = min(max(plan.Start, plan.Segments[0].Base), end)
	}
	first := k.Start
	if first < 0 {
		first = math.MaxInt64
	}
	if k.lacksState(o) {
		return &IncompleteError{Path: o.log.path, Start: start, End: end, Stateless: len(plan.Segments) > 0, Known: *k}
	}
	switch {
	case len(plan.Segments) == 0 && !stated, end < k.End, start > first && (k.Exact || !stated), k.Exact && start < k.Start:
		return &IncompleteError{Path: o.log.path, Start: start, End: end, Known: *k}
	}
	return nil
}

// lacksState reports whether the state is missing. Without it the directory would be read by
// Kafka's rules: holes would be no damage, and deleted records would be there again. A log without
// a state is valid only in these cases: it has no bytes; its provisional state counts; a power cut
// came before the first state was on stable storage. In all of them it has one segment, and it
// starts at 0: a roll and DeleteRecords write a state first.
func (k *Known) lacksState(o *opening) bool {
	had := o.facts.State.Version > 0
	if had && !o.provisional {
		return false
	}
	var bytes, rolled bool
	first := int64(math.MaxInt64)
	for _, f := range o.facts.Files {
		if base, ok := recovery.LogBase(f.Name); ok && f.Size > 0 {
			rolled = rolled || bytes
			bytes, first = true, min(first, base)
		}
	}
	switch {
	case k.Stated, k.Start > 0, k.Exact && k.End > 0:
		return true
	case rolled, bytes && first > 0:
		return true
	}
	return bytes && !had && k.SameRun
}
