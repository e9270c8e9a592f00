// Package recovery decides which changes the files of a log need before the log can be used. It
// only computes: Make takes the facts of a directory and returns a Plan, which package log carries
// out.
//
// # Rules
//
//   - The manifest (strata.state) is the one authority. A .cleaned or .swap file that it does not
//     name is obsolete; a file that it names belongs to the log and gets its final name.
//   - A file is deleted only if a durable record marks it as obsolete: the manifest, or Kafka's
//     suffix .deleted or .cleaned. Any other file that cannot stay is set aside: it is renamed, and
//     neither Strata nor Kafka reads or deletes it.
//   - A directory without a manifest is Kafka's and is read by Kafka's rules, as is one of format
//     1.
//   - A gap in the offsets between two segments of the manifest is no damage, since compaction
//     leaves gaps. A closed segment has lost its end if it has fewer bytes than in the manifest, or
//     ends in invalid ones: later segments cannot be joined to it.
//   - A segment behind the last one of the manifest continues the log if there is no gap before it.
//   - Nothing is changed if the directory has a state that no crash explains.
//
// # Order of the steps
//
// After a crash between any two steps, the next Plan makes the same log. Before the first step the
// directory is synced, or the manifest replaced, which has the same effect: name changes by a
// killed process may not be durable yet. A manifest that marks a file as obsolete is stored before
// the step that deletes it. The intermediate names are those of Kafka's cleaner, in its order. So a
// Kafka broker that takes over the directory after a kill finds its own protocol and all records.
package recovery

import (
	"fmt"

	"github.com/stratalog/strata/log/internal/manifest"
)

// A File is a name in the log's directory. Size is used only for data files of segments.
type File struct {
	Name string
	Size int64
}

// Facts describe a directory before anything is changed.
type Facts struct {
	Files []File         // of the directory, without its directories
	State manifest.State // Version 0 means that there is none: then it is from Kafka's checkpoints
	Known bool           // State.Clean and State.BootID are reliable
	Boot  string         // the machine's run; "" means unknown

	// SwapEnds has, for a directory without a manifest of format 2, the offset after the last batch
	// of each .log.swap file, by base. Kafka's rule for the replaced segments needs it.
	SwapEnds map[int64]int64
	// Scans has the results for the segments that an earlier Plan requested to scan, by base.
	Scans map[int64]Scan
	// Fresh is the new incarnation if the log has to start again.
	Fresh uint64
}

// A Scan is the result of a walk over the batches of a segment, all of them valid up to its end.
type Scan struct {
	Next int64 // offset after the last batch; the base if there is none
	Size int64 // bytes of the batches
	Cut  int64 // bytes after them that are neither zeros nor a batch
}

// A Segment is part of the log that the plan makes.
type Segment struct {
	Base   int64
	Next   int64  // base of the following segment; -1 if this one is active
	Suffix string // of the names its files have before the steps; usually ""

	// Trusted means that the end is known without reading the batches: it is at NextOffset, after
	// Size bytes.
	Trusted          bool
	NextOffset, Size int64
	// Gapless means that no batch leaves an offset out.
	Gapless bool
	// Unsynced means that the process that made the end may have been killed before its sync.
	Unsynced bool
}

// A Plan has the segments that make up the log, and the steps that are needed first.
type Plan struct {
	Segments []Segment // ascending; empty means that the log begins at Start with a new one
	Steps    []Step    // in the order in which they must be done
	// Scan, if it is not nil, must be scanned before the plan can be made: the rest of the Plan is
	// not valid then.
	Scan *Segment

	Clean    bool // closed cleanly
	SameBoot bool // only the process had ended
	Restart  bool // the log is empty and begins at Start: files other than segments are ignored
	Adopted  bool // there was no manifest: one has to be written

	Start, End    int64 // of the log; End only if there are segments
	RecoveryPoint int64
	CutOffset     int64 // the log end offset if later records were lost; -1 if none were
}

// Missing reports a required segment that does not exist.
type Missing struct{ Name string }

func (e *Missing) Error() string { return e.Name + " is missing" }

// A Hole reports that a segment does not end where the next one begins, which the manifest does not
// name.
type Hole struct {
	Name      string // of the segment
	End, Next int64  // offset where it ends, and where the next one begins
}

func (e *Hole) Error() string {
	return fmt.Sprintf("%s ends at offset %d, and the next one begins at %d", e.Name, e.End, e.Next)
}

// Damage reports a segment whose content is invalid.
type Damage struct {
	Name   string
	Pos    int64 // byte in the file
	Offset int64 // of the log
	Reason string
}

func (e *Damage) Error() string { return fmt.Sprintf("%s: byte %d: %s", e.Name, e.Pos, e.Reason) }
