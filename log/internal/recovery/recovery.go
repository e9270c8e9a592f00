// Package recovery decides what has to be done with the files of a log before it can be used. It
// only computes: Make takes what is known of a directory and returns a Plan, which package log
// carries out.
//
// # Rules
//
//   - The manifest (strata.state) is the one authority. A .cleaned or .swap file that it does not name is obsolete, one
//     that it names belongs to the log and gets its final name.
//   - A file is deleted only if a durable record says that it is obsolete: the manifest, or Kafka's suffix .deleted or
//     .cleaned. Everything else that cannot stay is set aside: renamed, and never read or deleted by us or by Kafka.
//   - A directory without a manifest is Kafka's and read by Kafka's rules, as is one of format 1.
//   - A gap in the offsets between two segments is no damage, since compaction leaves gaps. A closed segment has lost
//     its end if it has fewer bytes than the manifest says, or ends in invalid ones: what follows cannot be joined to it.
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
	"math"
	"slices"

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

// planner makes one Plan.
type planner struct {
	Facts
	inventory

	plan  Plan
	state manifest.State // of format 2, as of the steps done so far
	store bool           // state has to be written before anything else is done

	belong []manifest.Segment
	gone   []manifest.Segment
	out    steps
}

// Make plans. It returns *Missing or *Damage if the directory holds what no crash explains.
func Make(f Facts) (Plan, error) {
	p := &planner{Facts: f, inventory: takeStock(f.Files), state: f.State}
	p.plan.Clean = f.Known && f.State.Clean
	p.plan.SameBoot = f.Known && f.State.BootID != "" && f.State.BootID == f.Boot
	p.plan.Start, p.plan.CutOffset = f.State.Start, -1
	if f.State.Version < 2 {
		p.adopt()
	}
	p.split()
	p.undone()
	if p.state.Emptied {
		p.beginAnew()
		return p.finish(), nil
	}
	p.unnamed()
	if err := p.missing(); err != nil {
		return Plan{}, err
	}
	if err := p.segments(); err != nil || p.plan.Scan != nil {
		return p.plan, err
	}
	p.plan.End, p.plan.RecoveryPoint = p.end(), p.state.RecoveryPoint
	n := len(p.plan.Segments)
	p.state.Gapless = n > 0 && p.plan.Segments[n-1].Gapless
	if p.state.Start > p.plan.End && len(p.plan.Segments) > 0 {
		p.restartAbove()
	}
	return p.finish(), nil
}

// split parts what belongs to the log from what does not.
func (p *planner) split() {
	for _, s := range p.state.Segments {
		if s.Role.Belongs() {
			p.belong = append(p.belong, s)
		} else {
			p.gone = append(p.gone, s)
		}
	}
}

// undone takes back compactions that a Kafka broker has undone which had the directory in between:
// neither the result's .cleaned nor its .swap is there, and the segment of its name is another one.
// The sources count then.
func (p *planner) undone() {
	for i := range p.belong {
		s := &p.belong[i]
		size, found := p.logs[s.Base]
		if s.Role != manifest.Installing || !found || p.suffixOf(*s) != "" {
			continue
		}
		upper := int64(math.MaxInt64)
		if i+1 < len(p.belong) {
			upper = p.belong[i+1].Base
		}
		sources, whole := p.sourcesOf(s.Base, upper)
		if size == s.Size || !whole || size < s.Size && len(sources) == 0 {
			continue
		}
		s.Role, s.Size = manifest.Held, size
		p.belong = append(p.belong, sources...)
		p.gone = slices.DeleteFunc(p.gone, func(g manifest.Segment) bool {
			_, held := find(sources, g.Base)
			return held
		})
		p.store = true
	}
	slices.SortFunc(p.belong, byBase)
}

// sourcesOf returns the obsolete segments between base and upper as what they were; whole is false
// if one is gone.
func (p *planner) sourcesOf(base, upper int64) (sources []manifest.Segment, whole bool) {
	for _, g := range p.gone {
		if g.Role != manifest.Obsolete || g.Base < base || g.Base >= upper {
			continue
		}
		size, found := p.logs[g.Base]
		if !found {
			return nil, false
		}
		sources = append(sources, manifest.Segment{Base: g.Base, Size: size})
	}
	return sources, true
}

// unnamed deals with segments of which a manifest of format 2 says nothing. Those behind all others
// go on with the log: a Kafka broker began them. But for empty ones at the end: they are what rolls
// have left that were never committed. The log may have gone on past their names since, so they say
// nothing about where it ends. Any other is nothing we know of.
func (p *planner) unnamed() {
	last, known := int64(-1), len(p.belong)
	if known > 0 {
		last = p.belong[known-1].Base
	}
	for _, base := range p.bases {
		if _, named := find(p.belong, base); named {
			continue
		}
		if _, named := find(p.gone, base); named {
			continue
		}
		if base > last {
			p.belong = append(p.belong, manifest.Segment{Base: base, Size: -1})
			continue
		}
		p.gone = append(p.gone, manifest.Segment{Base: base, Size: -1, Role: manifest.Aside})
	}
	for n := len(p.belong); n > max(known, 1) && p.logs[p.belong[n-1].Base] == 0; n-- {
		p.gone = append(p.gone, manifest.Segment{Base: p.belong[n-1].Base, Size: 0, Role: manifest.Obsolete})
		p.belong, p.store = p.belong[:n-1], true
	}
	slices.SortFunc(p.gone, byBase)
}

// missing checks that what belongs to the log is there. What lies below the start offset was being
// removed.
func (p *planner) missing() error {
	kept := p.belong[:0:0]
	for i, s := range p.belong {
		switch _, ok := p.sizeOf(s); {
		case ok:
			kept = append(kept, s)
		case i+1 < len(p.belong) && p.belong[i+1].Base <= p.state.Start:
		default:
			return &Missing{logName(s.Base)}
		}
	}
	p.belong = kept
	return nil
}

// restartAbove begins the log anew at its start offset: a power cut took all that DeleteRecords had
// left, and what is there was deleted by it. Kafka: UnifiedLog restarts there, too.
func (p *planner) restartAbove() {
	for _, s := range p.belong {
		p.gone = append(p.gone, manifest.Segment{Base: s.Base, Size: -1, Role: manifest.Obsolete})
	}
	slices.SortFunc(p.gone, byBase)
	p.state = manifest.State{Emptied: true, Start: p.state.Start, RecoveryPoint: p.state.Start, BootID: p.Boot, Incarnation: p.Fresh, JournalTag: p.state.JournalTag, Cuts: p.state.Cuts}
	p.store = true
	p.out.cuts = nil
	p.beginAnew()
}

// beginAnew plans a log without segments: a crash interrupted the removal of everything.
func (p *planner) beginAnew() {
	for _, base := range p.bases {
		if _, named := find(p.gone, base); named {
			continue
		}
		role := manifest.Aside
		if p.logs[base] == 0 || p.Facts.State.Version == 1 { // the new first segment, not named yet
			role = manifest.Obsolete
		}
		p.gone = append(p.gone, manifest.Segment{Base: base, Size: -1, Role: role})
	}
	slices.SortFunc(p.gone, byBase)
	p.belong, p.plan.Segments, p.plan.Restart = nil, nil, true
}

func byBase(a, b manifest.Segment) int {
	switch {
	case a.Base < b.Base:
		return -1
	case a.Base > b.Base:
		return 1
	}
	return 0
}

func find(list []manifest.Segment, base int64) (manifest.Segment, bool) {
	for _, s := range list {
		if s.Base == base {
			return s, true
		}
	}
	return manifest.Segment{}, false
}
