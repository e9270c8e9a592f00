// Package recovery decides what has to be done with the files of a log before it can be used. It
// only computes: Make takes what is known of a directory and returns a Plan, which package log
// carries out.
//
// # Rules
//
//   - The manifest (strata.state) is the one authority. A .cleaned or .swap file that it does not
//     name is obsolete, one that it names belongs to the log and gets its final name.
//   - A file is deleted only if a durable record says that it is obsolete: the manifest, or Kafka's
//     suffix .deleted or .cleaned. Everything else that cannot stay is set aside: renamed, and
//     never read or deleted by us or by Kafka.
//   - A directory without a manifest is Kafka's and read by Kafka's rules, as is one of format 1.
//   - A gap in the offsets between two segments is no damage, since compaction leaves gaps. A
//     closed segment has lost its end if it has fewer bytes than the manifest says, or ends in
//     invalid ones: what follows cannot be joined to it.
//   - Nothing is changed if anything is found that no crash explains.
//
// # Order of the steps
//
// A crash between any two steps leaves a directory of which the next Plan makes the same log.
// Before the first step the directory is synced, or the manifest replaced, which does the same:
// what a killed process did to names may not be durable yet. The manifest that says what must go
// precedes the step that takes it away. The names on the way are those of Kafka's cleaner, in its
// order, so that a Kafka broker which takes the directory over after a kill sees its own protocol
// and finds all records.
package recovery

import (
	"fmt"

	"github.com/stratalog/strata/log/internal/manifest"
)

// A File is a name in the log's directory. Size counts only for the data of segments.
type File struct {
	Name string
	Size int64
}

// Facts are what is known before anything is changed.
type Facts struct {
	Files []File         // of the directory, without its directories
	State manifest.State // Version 0: there is none; then what Kafka's checkpoints say
	Known bool           // State.Clean and State.BootID can be relied on
	Boot  string         // the machine's run; "" unknown

	// SwapEnds has, for a directory without a manifest of format 2, the offset after the last batch
	// of each .log.swap file, by base: Kafka's rule for which segments it replaces.
	SwapEnds map[int64]int64
	// Scans has what was found in segments that an earlier Plan asked to be scanned, by base.
	Scans map[int64]Scan
	// Fresh is the incarnation to go on with if the log has to begin anew.
	Fresh uint64
}

// A Scan is what the walk over the batches of a segment found, all of them valid up to its end.
type Scan struct {
	Next int64 // offset after the last batch; the base if there is none
	Size int64 // bytes of the batches
	Cut  int64 // bytes behind them that are no zeros and no batch
}

// A Segment is part of the log that the plan makes.
type Segment struct {
	Base   int64
	Next   int64  // base of the following segment; -1: this one is active
	Suffix string // of the names its files have before the steps; "" most of the time

	// Trusted says that the end is known without a look at the batches: at NextOffset, after Size
	// bytes.
	Trusted          bool
	NextOffset, Size int64
	// Gapless says that no batch leaves an offset out.
	Gapless bool
	// Unsynced says that the end may have been brought about by a process that did not live to sync
	// it.
	Unsynced bool
}

// A Plan says which segments make up the log and what has to be done first.
type Plan struct {
	Segments []Segment // ascending; empty: the log begins at Start with a new one
	Steps    []Step    // in the order in which they must be done
	// Scan, if it is not nil, has to be looked at before the plan can be made: the rest of the Plan
	// does not count then.
	Scan *Segment

	Clean    bool // closed in order
	SameBoot bool // only the process had died
	Restart  bool // the log begins anew at Start: nothing that lies beside the segments counts
	Adopted  bool // there was no manifest: one has to be written

	Start, End    int64 // of the log; End only if there are segments
	RecoveryPoint int64
	CutOffset     int64 // where the log ends now because something behind it was lost; -1: nothing was
}

// Missing says that a segment which must be there is not.
type Missing struct{ Name string }

func (e *Missing) Error() string { return e.Name + " is missing" }

// Damage says that a segment is not what it must be.
type Damage struct {
	Name   string
	Pos    int64 // byte in the file
	Offset int64 // of the log
	Reason string
}

func (e *Damage) Error() string { return fmt.Sprintf("%s: byte %d: %s", e.Name, e.Pos, e.Reason) }
