package recovery

import (
	"slices"

	"github.com/stratalog/strata/log/internal/manifest"
)

// adopt makes a manifest of format 2 for a directory that has none, by Kafka's rules (LogLoader).
// All .log files are segments. If there is a .cleaned file, .swap files from its base on are
// unfinished. Any other .swap file replaces the segments in its range. The content of a manifest
// of format 1 is kept.
func (p *planner) adopt() {
	own := p.Facts.State.Version == 1
	p.plan.Adopted = !own && len(p.bases)+len(p.SwapEnds) > 0
	if p.state.Emptied {
		return // format 1: no file counts
	}
	if !own && !p.Known && p.state.RecoveryPoint == 0 && len(p.bases) == 1 && p.logs[p.bases[0]] == 0 && len(p.SwapEnds) == 0 {
		// Created and never written to: it cannot be damaged, and needs no new manifest.
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

// unfinished reports whether the .swap file with the given base does not count, because a .cleaned
// file of the same attempt is left. It does count if the manifest names a segment of this base and
// size that no other file holds.
func (p *planner) unfinished(base, size int64) bool {
	if len(p.cleaned) == 0 || base < p.cleaned[0] {
		return false
	}
	_, there := p.logs[base]
	named, ok := p.Facts.State.Find(base)
	return there || !ok || named.Size != size
}

// replaced returns the segments with s instead of the segments from its base up to end.
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
