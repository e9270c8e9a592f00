package recovery

import (
	"fmt"
	"slices"

	"github.com/stratalog/strata/log/internal/manifest"
)

// segments decides how each segment is opened. It returns early if one has to be scanned first.
func (p *planner) segments() error {
	for i, s := range p.belong {
		next := int64(-1)
		if i+1 < len(p.belong) {
			next = p.belong[i+1].Base
		}
		size, _ := p.sizeOf(s)
		seg := Segment{Base: s.Base, Next: next, Suffix: p.suffixOf(s), Gapless: next < 0 && p.gapless(s.Base)}
		trusted, err := p.trust(&seg, s, size)
		if err != nil {
			return err
		}
		trusted = trusted && next < p.behind
		if !trusted {
			scan, ok := p.Scans[s.Base]
			if !ok {
				p.plan.Scan = &seg
				return nil
			}
			whole, err := p.takeScan(&seg, s, scan)
			if err == nil {
				whole, err = p.joins(&seg, whole)
			}
			if err != nil {
				return err
			}
			if !whole {
				p.plan.Segments = append(p.plan.Segments, seg)
				p.endAt(i)
				return nil
			}
		}
		p.plan.Segments = append(p.plan.Segments, seg)
	}
	return nil
}

// gapless reports whether the batches of the segment leave no offset out according to the
// manifest. The manifest's flag covers only the last segment that it names. A later segment was
// begun by a Kafka broker, which may have been a follower.
func (p *planner) gapless(base int64) bool {
	named := p.Facts.State.Belonging()
	return p.Facts.State.Gapless && len(named) > 0 && named[len(named)-1].Base == base
}

// trust reports whether the end of seg is known without a scan of its batches, and then sets it.
func (p *planner) trust(seg *Segment, s manifest.Segment, size int64) (bool, error) {
	clean := p.plan.Clean
	// A segment of unknown size was closed after our last state: a power cut can have brought back
	// the space that was reserved behind its end.
	reserved := s.Size < 0 && p.Facts.State.Version > 0 && !clean
	switch rp := p.state.RecoveryPoint; {
	case seg.Next >= 0 && (clean || p.plan.SameBoot || seg.Next <= rp && !reserved):
		if s.Size >= 0 && s.Size != size {
			return false, &Damage{Name: logName(s.Base), Pos: min(s.Size, size), Offset: s.Base, Reason: fmt.Sprintf("file has %d bytes, %d were written", size, s.Size)}
		}
		seg.NextOffset, seg.Size = seg.Next, size
		seg.Unsynced = !clean && (seg.Next > rp || reserved) // killed before the sync
	case seg.Next < 0 && size == 0 && rp <= s.Base && (!clean || p.state.End <= s.Base): // never written to
		seg.NextOffset, seg.Size = s.Base, 0
		seg.Unsynced = !clean // perhaps emptied by a cut that is not durable
	case seg.Next < 0 && clean && size == p.state.Size && p.state.End >= s.Base:
		seg.NextOffset, seg.Size = p.state.End, size
	default:
		return false, nil
	}
	seg.Trusted = true
	return true, nil
}

// takeScan applies the scan of seg. whole is false if the segment has lost its end, so that no
// segment can follow.
func (p *planner) takeScan(seg *Segment, s manifest.Segment, scan Scan) (whole bool, err error) {
	sealed := seg.Next >= 0
	// A gap before the next segment comes from compaction or the leader if no byte is missing.
	// That is so if the scan reaches the size in the manifest, or if all offsets below the next
	// segment were durable.
	whole = !sealed || s.Size >= 0 && scan.Size >= s.Size || scan.Cut == 0 && (scan.Next == seg.Next || s.Size < 0 && seg.Next <= p.state.RecoveryPoint)
	lost := int64(-1)
	switch {
	case p.plan.SameBoot || p.plan.Clean || sealed && whole:
	case sealed:
		lost = min(p.state.RecoveryPoint, seg.Next)
	default:
		lost = p.state.RecoveryPoint
	}
	damage := &Damage{Name: logName(s.Base), Pos: scan.Size, Offset: scan.Next}
	if !whole && s.Role == manifest.Installing { // it was synced before it could replace a segment
		damage.Reason = "written by compaction, and not whole"
		return false, damage
	}
	if scan.Next < lost {
		damage.Reason = fmt.Sprintf("file ends, although everything below offset %d was on stable storage", p.state.RecoveryPoint)
		return whole, damage
	}
	// If the log was closed behind a gap, no batch reaches its end. The recovery point is then the
	// end of the last batch.
	if p.plan.Clean && !sealed && scan.Next < min(p.state.RecoveryPoint, p.state.End) {
		damage.Reason = fmt.Sprintf("file ends, although the log was closed at offset %d", p.state.End)
		return whole, damage
	}
	seg.NextOffset, seg.Size, seg.Unsynced = scan.Next, scan.Size, true
	if scan.Cut > 0 {
		p.plan.CutOffset = scan.Next
		p.out.cuts = append(p.out.cuts, Step{Kind: Cut, Name: logName(s.Base), Offset: scan.Next, Bytes: scan.Cut, Reason: "no whole batch"})
	}
	return whole, nil
}

// joins reports whether the next segment continues the log behind a scanned one. A segment without
// a place in the manifest does so only if there is no gap before it: an older copy of the manifest
// lacks the newer segments, and the records in the gap are missing. A power cut can have taken the
// end of the scanned segment.
func (p *planner) joins(seg *Segment, whole bool) (bool, error) {
	if seg.Next < p.behind || seg.Next == seg.NextOffset {
		return whole, nil
	}
	if whole || p.plan.Clean || p.plan.SameBoot {
		return false, &Hole{Name: logName(seg.Base), End: seg.NextOffset, Next: seg.Next}
	}
	return false, nil
}

// endAt makes segment i the last: it has lost its end, so later segments cannot be joined to it.
func (p *planner) endAt(i int) {
	p.plan.Segments[i].Next = -1
	p.plan.CutOffset = p.plan.Segments[i].NextOffset
	p.belong[i].Size = -1 // it is the active segment again
	for _, s := range p.belong[i+1:] {
		p.gone = append(p.gone, manifest.Segment{Base: s.Base, Size: s.Size, Role: manifest.Aside})
	}
	slices.SortFunc(p.gone, byBase)
	p.belong = p.belong[:i+1]
	p.store = true
}

// end returns the log end offset: the end of the last batch, or the base of the last segment. If
// compaction has removed the records below the end, and the name of the next segment was lost in a
// crash, it is the end in the manifest.
func (p *planner) end() int64 {
	end := int64(0)
	if n := len(p.plan.Segments); n > 0 {
		last := p.plan.Segments[n-1]
		end = max(last.NextOffset, last.Base)
	}
	return max(end, p.state.End)
}
