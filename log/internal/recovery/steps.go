package recovery

import (
	"fmt"
	"slices"
	"strings"

	"github.com/stratalog/strata/log/internal/manifest"
)

// A Kind is the kind of a Step.
type Kind uint8

// The kinds of steps.
const (
	Store    Kind = iota // replace the manifest by State
	Sync                 // sync the directory
	Remove               // delete the file Name, which a durable record marks as obsolete
	Install              // rename Name, written by compaction, to To
	SetAside             // rename Name to To, which is never read, and keep it
	Cut                  // remove the last Bytes of Name, which follow its last whole batch
	Begin                // start an empty log at Offset: ignore the files other than segments
)

func (k Kind) String() string {
	return [...]string{"store", "sync", "remove", "install", "set aside", "cut", "begin"}[k]
}

// A Step is a change that is needed before the log can be used.
type Step struct {
	Kind   Kind
	Name   string         // file
	To     string         // Install, SetAside: its new name
	Offset int64          // Cut, Begin: where the log continues
	Bytes  int64          // Cut
	State  manifest.State // Store
	Reason string
}

// String describes the step in one line, without its reason.
func (s Step) String() string {
	switch s.Kind {
	case Install, SetAside:
		return fmt.Sprintf("%v %s as %s", s.Kind, s.Name, s.To)
	case Remove:
		return fmt.Sprintf("%v %s", s.Kind, s.Name)
	case Cut:
		return fmt.Sprintf("%v %d bytes off %s, offset %d is next", s.Kind, s.Bytes, s.Name, s.Offset)
	case Begin:
		return fmt.Sprintf("%v anew at offset %d", s.Kind, s.Offset)
	case Store:
		return "replace the manifest"
	}
	return "sync the directory"
}

// steps collects the steps in groups, in the order in which order runs them.
type steps struct {
	// .cleaned and .swap files that the manifest does not name. They go first: Kafka ignores .swap
	// files while a .cleaned file is left.
	strays   []Step
	swaps    []Step // .cleaned to .swap
	sources  []Step // removal of obsolete files
	installs []Step // .swap to the final name
	aside    []Step
	cuts     []Step
	deleted  []Step // .deleted files
}

// finish puts the steps in order.
func (p *planner) finish() Plan {
	p.findStrays()
	for _, s := range p.belong {
		p.install(s)
	}
	for _, g := range p.gone {
		p.takeAway(g)
	}
	for _, name := range p.obsolete {
		p.out.deleted = append(p.out.deleted, Step{Kind: Remove, Name: name, Reason: "was waiting to be deleted"})
	}
	p.plan.Steps = p.order()
	p.plan.Clean = p.plan.Clean && !p.store // the stored manifest is no longer a clean one
	return p.plan
}

func (p *planner) order() (all []Step) {
	state := p.state.With(p.belong, p.gone)
	state.Clean = state.Clean && !p.store
	if p.store {
		all = append(all, Step{Kind: Store, State: state, Reason: "says what becomes of the files"})
	}
	groups := [][]Step{p.out.strays, p.out.swaps, p.out.sources, p.out.installs, p.out.aside}
	names := slices.Concat(groups...)
	// The next manifest does not name removed files any more, so their removal must be durable
	// before it. The directory is also synced if only a file name shows the log's end, which must
	// be durable before it is reported as such.
	if len(all) == 0 && (p.endsInName() || len(names)+len(p.out.deleted)+len(p.gone) > 0) {
		all = append(all, Step{Kind: Sync, Reason: "what a killed process named may not be durable"})
	}
	for _, g := range groups {
		if len(g) > 0 {
			all = append(append(all, g...), Step{Kind: Sync})
		}
	}
	all = append(all, p.out.cuts...)
	if p.plan.Restart {
		all = append(all, Step{Kind: Begin, Offset: p.plan.Start, Reason: "everything before was removed"})
	}
	return append(all, p.out.deleted...)
}

// endsInName reports whether the last segment is empty. Then only its name shows the log's end,
// since behind a gap no batch does. The process that began the segment may have died before its
// name, or the manifest's, was durable.
func (p *planner) endsInName() bool {
	n := len(p.plan.Segments)
	return n > 1 && p.plan.Segments[n-1].Size == 0
}

// findStrays plans the removal of results of compaction that the manifest does not name. Without a
// manifest of format 2 a .swap file is only set aside: by Kafka's rules it may be the last of its
// records.
func (p *planner) findStrays() {
	for _, base := range p.cleaned {
		p.stray(base, CleanedSuffix, Remove)
	}
	kind := Remove
	if p.Facts.State.Version < 2 {
		kind = SetAside
	}
	for _, base := range p.swapped {
		p.stray(base, SwapSuffix, kind)
	}
}

func (p *planner) stray(base int64, suffix string, kind Kind) {
	s, ok := find(p.belong, base)
	if ok && (s.Role == manifest.Installing || suffix == SwapSuffix && p.Facts.State.Version < 2 && !p.has(logName(base)+suffix)) {
		return // Kafka renames the data first, so its indexes may still have to be renamed
	}
	for _, own := range segmentSuffixes {
		name := fileName(base, own) + suffix
		switch {
		case !p.has(name):
		case kind == SetAside && own == logSuffix:
			p.out.aside = append(p.out.aside, Step{Kind: SetAside, Name: name, To: p.vacant(name), Reason: "left by a compaction that did not end"})
		default:
			p.out.strays = append(p.out.strays, Step{Kind: Remove, Name: name, Reason: "left by a compaction that was not committed"})
		}
	}
}

// install plans the renames that give s's files their final names.
func (p *planner) install(s manifest.Segment) {
	legacy := p.Facts.State.Version < 2
	if s.Role != manifest.Installing && !legacy {
		return
	}
	for _, own := range segmentSuffixes {
		name := fileName(s.Base, own)
		switch {
		case s.Role == manifest.Installing && p.has(name+CleanedSuffix) && p.committed(s, own):
			p.out.swaps = append(p.out.swaps, Step{Kind: Install, Name: name + CleanedSuffix, To: name + SwapSuffix, Reason: "written by compaction"})
		case s.Role == manifest.Installing && p.has(name+CleanedSuffix):
			p.out.strays = append(p.out.strays, Step{Kind: Remove, Name: name + CleanedSuffix, Reason: "left by a compaction that was not committed"})
			if !p.has(name + SwapSuffix) {
				continue
			}
		case !p.has(name + SwapSuffix), s.Role != manifest.Installing && p.has(logName(s.Base)+SwapSuffix):
			continue
		}
		p.out.installs = append(p.out.installs, Step{Kind: Install, Name: name + SwapSuffix, To: name, Reason: "written by compaction"})
	}
	if p.suffixOf(s) == "" {
		return
	}
	// Indexes of the source with this name are obsolete if the result has none.
	for _, own := range []string{".index", ".timeindex"} {
		if name := fileName(s.Base, own); p.has(name) && !p.has(name+CleanedSuffix) && !p.has(name+SwapSuffix) {
			p.out.sources = append(p.out.sources, Step{Kind: Remove, Name: name, Reason: "index of a segment that was replaced"})
		}
	}
}

// committed reports whether the .cleaned file of s with the given suffix is part of the result that
// the manifest names.
func (p *planner) committed(s manifest.Segment, own string) bool {
	if p.Facts.State.Version < 2 {
		return false // by Kafka's rules a .cleaned file never counts
	}
	return own != logSuffix || p.suffixOf(s) == CleanedSuffix
}

// takeAway plans the removal of a segment that no longer belongs to the log.
func (p *planner) takeAway(g manifest.Segment) {
	size, found := p.logs[g.Base]
	_, belongs := find(p.belong, g.Base)
	if belongs {
		return
	}
	if g.Role == manifest.Obsolete && (!found || g.Size < 0 || size <= g.Size) {
		for _, own := range append([]string{snapshotSuffix}, segmentSuffixes...) {
			if name := fileName(g.Base, own); p.has(name) && (found || own != snapshotSuffix) {
				p.out.sources = append(p.out.sources, Step{Kind: Remove, Name: name, Reason: "obsolete by the manifest"})
			}
		}
		return
	}
	reason := "not joined to the log any more"
	if g.Role == manifest.Obsolete {
		reason = "obsolete by the manifest, but larger than it was"
	}
	for _, own := range segmentSuffixes {
		if name := fileName(g.Base, own); p.has(name) {
			p.out.aside = append(p.out.aside, Step{Kind: SetAside, Name: name, To: p.vacant(name), Reason: reason})
		}
	}
}

// vacant returns an unused name for a file that is set aside.
func (p *planner) vacant(name string) string {
	to := name + AsideSuffix
	for i := 1; p.has(to); i++ {
		to = fmt.Sprintf("%s.%d%s", strings.TrimSuffix(name, AsideSuffix), i, AsideSuffix)
	}
	p.names[to] = 0
	return to
}
