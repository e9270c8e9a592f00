package recovery

import (
	"slices"

	"github.com/stratalog/strata/log/internal/manifest"
)

// adopt makes a manifest of format 2 for a directory that has none, by Kafka's rules (LogLoader):
// all .log files are segments; if there is a .cleaned file then .swap files from its base on are
// unfinished; any other .swap replaces the segments in its range. What there is of an older
// manifest is kept.
func (p *planner) adopt() {
	own := p.Facts.State.Version == 1
	p.plan.Adopted = !own && len(p.bases)+len(p.SwapEnds) > 0
	if p.state.Emptied {
		return // format 1: nothing that is there counts
	}
	if !own && !p.Known && p.state.RecoveryPoint == 0 && len(p.bases) == 1 && p.logs[p.bases[0]] == 0 && len(p.SwapEnds) == 0 {
		// Made and never written to: there is nothing that could be wrong, and nothing to be noted.
		base := p.bases[0]
		p.plan.Clean, p.plan.SameBoot, p.plan.Adopted, p.plan.Start = true, true, false, base
		p.state = manifest.State{Clean: true, Start: base, RecoveryPoint: base, End: base}
	}
	segments := slices.Clone(p.state.Segments)
	for i, base := range p.bases {
		if _, named := find(segments, base); !named {
			size := p.logs[base]
			if i == len(p.bases)-1 {
				size = -1
			}
			segments = append(segments, manifest.Segment{Base: base, Size: size})
		}
	}
	slices.SortFunc(segments, byBase)
	for _, base := range p.swapped {
		size, ok := p.names[logName(base)+SwapSuffix]
		if !ok || p.unfinished(base, size) {
			continue // indexes only, or to be set aside as a stray
		}
		segments = replaced(segments, manifest.Segment{Base: base, Size: size, Role: manifest.Installing}, p.SwapEnds[base])
		p.store = true
	}
	p.state.Segments = segments
}

// unfinished reports whether the .swap file with the given base does not count: a .cleaned file is
// left of the same attempt. A manifest that asks for a segment of just that size, which is nowhere
// else, says that it does count.
func (p *planner) unfinished(base, size int64) bool {
	if len(p.cleaned) == 0 || base < p.cleaned[0] {
		return false
	}
	_, there := p.logs[base]
	named, ok := p.Facts.State.Find(base)
	return there || !ok || named.Size != size
}

// replaced returns the segments with s in the place of those from its base up to end.
func replaced(segments []manifest.Segment, s manifest.Segment, end int64) []manifest.Segment {
	var out []manifest.Segment
	for _, old := range segments {
		switch {
		case old.Base == s.Base:
		case old.Base > s.Base && old.Base < end:
			old.Role = manifest.Obsolete
			out = append(out, old)
		default:
			out = append(out, old)
		}
	}
	out = append(out, s)
	slices.SortFunc(out, byBase)
	return out
}
