package recovery

import (
	"math"
	"slices"

	"github.com/stratalog/strata/log/internal/manifest"
)

// planner makes one Plan.
type planner struct {
	Facts
	inventory

	plan  Plan
	state manifest.State // of format 2, as of the steps done so far
	store bool           // state has to be written before anything else is done

	belong []manifest.Segment
	gone   []manifest.Segment
	behind int64 // base of the first segment that the manifest does not name; math.MaxInt64: none
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
	if len(p.belong) > known {
		p.behind = p.belong[known].Base
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
	p.state = manifest.State{Emptied: true, Identity: p.state.Identity, Start: p.state.Start, RecoveryPoint: p.state.Start, BootID: p.Boot, Incarnation: p.Fresh, JournalTag: p.state.JournalTag, Cuts: p.state.Cuts}
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
