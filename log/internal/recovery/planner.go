package recovery

import (
	"math"
	"slices"

	"github.com/stratalog/strata/log/internal/manifest"
)

// A planner makes one Plan.
type planner struct {
	Facts
	inventory

	plan  Plan
	state manifest.State // in format 2, after the steps planned so far
	store bool           // state has to be written before any other step

	belong []manifest.Segment
	gone   []manifest.Segment
	behind int64 // base of the first segment not in the manifest; math.MaxInt64 if none
	out    steps
}

// Make returns the plan for a directory. It returns *Missing, *Hole or *Damage if the directory has
// a state that no crash explains.
func Make(f Facts) (Plan, error) {
	p := &planner{Facts: f, inventory: takeStock(f.Files), state: f.State, behind: math.MaxInt64}
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

// split separates the segments that belong to the log from the others.
func (p *planner) split() {
	for _, s := range p.state.Segments {
		if s.Role.Belongs() {
			p.belong = append(p.belong, s)
		} else {
			p.gone = append(p.gone, s)
		}
	}
}

// undone restores the sources of compactions that a Kafka broker undid while it had the directory.
// In that case the result has neither a .cleaned nor a .swap file, and the segment with its name
// is another one.
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

// sourcesOf returns the obsolete segments from base up to upper as segments of the log. whole is
// false if one of them is missing.
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

// unnamed handles the segments that a manifest of format 2 does not name. Segments behind all
// named ones continue the log: a Kafka broker began them. Empty ones at the end are obsolete: they
// are left from rolls that were not committed. The log may have grown past their names since, so
// they do not show its end. Any other unnamed segment is unknown and is set aside.
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
	if len(p.belong) > known {
		p.behind = p.belong[known].Base
	}
	slices.SortFunc(p.gone, byBase)
}

// missing checks that the segments of the log exist. A segment below the start offset may be
// missing, since its removal had begun.
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

// restartAbove makes the log empty at its start offset. A power cut has removed all records that
// DeleteRecords had left, and only deleted records are there. Kafka's UnifiedLog restarts there,
// too.
func (p *planner) restartAbove() {
	for _, s := range p.belong {
		p.gone = append(p.gone, manifest.Segment{Base: s.Base, Size: -1, Role: manifest.Obsolete})
	}
	slices.SortFunc(p.gone, byBase)
	p.state = manifest.State{Emptied: true, Identity: p.state.Identity, Start: p.state.Start, RecoveryPoint: p.state.Start, BootID: p.Boot, Incarnation: p.Fresh, JournalTag: p.state.JournalTag, Cuts: p.state.Cuts}
	p.store = true
	p.out.cuts = nil
	p.beginAnew()
}

// beginAnew plans a log without segments: a crash interrupted the removal of all segments.
func (p *planner) beginAnew() {
	for _, base := range p.bases {
		if _, named := find(p.gone, base); named {
			continue
		}
		role := manifest.Aside
		if p.logs[base] == 0 || p.Facts.State.Version == 1 { // the new first segment
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
