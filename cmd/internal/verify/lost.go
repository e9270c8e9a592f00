package verify

import (
	"fmt"
	"path/filepath"
	"slices"

	"github.com/stratalog/strata/cmd/internal/kafkafile"
	"github.com/stratalog/strata/topic"
)

// unreported is a damaged range that is not reported yet. The report names the lost offsets, so it
// needs the next batch or the end of the segment.
type unreported struct {
	kafkafile.Damage
	from int64 // first offset after the batches before the range
}

// takeDamage keeps d until its last offset is known.
func (s *seg) takeDamage(d kafkafile.Damage) {
	s.damages = append(s.damages, d)
	s.part.gaps = true
	s.unreported = &unreported{d, max(s.next, s.base)}
}

// reportLost reports the damaged range before the offset to, if there is one.
func (s *seg) reportLost(to int64) {
	d := s.unreported
	if d == nil {
		return
	}
	s.unreported = nil
	text := fmt.Sprintf("%d bytes: %s%s", d.Size, d.Reason, lostOffsets(d.from, to))
	if s.state != nil && to >= 0 && to <= s.state.StartOffset {
		s.note(s.name, "%d bytes at %d below the start of the log are damaged (%s)", d.Size, d.Pos, d.Reason)
		return
	}
	s.lostTo = max(s.lostTo, to, d.from+1)
	s.damage(s.name, d.Pos, "%s", text)
}

// lostOffsets returns the text that ends a finding. to is -1 if no file has the log end offset.
func lostOffsets(from, to int64) string {
	switch {
	case to < 0:
		return fmt.Sprintf("; offsets from %d on are lost", from)
	case to <= from:
		return ""
	case to == from+1:
		return fmt.Sprintf("; offset %d is lost", from)
	}
	return fmt.Sprintf("; offsets %d..%d are lost", from, to-1)
}

// reportLostEnd reports the damaged range at the end of the segment and returns whether there is
// one. It then takes the log end offset from strata.state and the checkpoints. A comparison of
// these with the last valid batch would only report the same damage again.
func (s *seg) reportLostEnd(size int64, end kafkafile.End) bool {
	want := s.recordedSize(s.base)
	switch {
	case s.unreported != nil:
	case want > size: // truncated at the end of a batch
		s.takeDamage(kafkafile.Damage{Pos: size, Size: want - size, Reason: "are missing"})
	case end.Zeros > 0 && s.last && s.recordedEnd() > max(s.next, s.base):
		s.takeDamage(kafkafile.Damage{Pos: end.Pos, Size: end.Zeros, Reason: "zeros"})
	default:
		return false
	}
	s.part.cut = append(s.part.cut, s.base)
	s.part.short = s.part.short || want > size || s.unreported.Reason == "zeros"
	if want > size {
		s.unreported.Reason += fmt.Sprintf("; the file has %d bytes, and had %d", size, want)
	}
	to := s.recordedEnd()
	if !s.last {
		to = s.limit
	}
	s.reportLost(to)
	if s.last {
		s.next = max(s.next, to)
	}
	return true
}

// recordedEnd returns a lower bound of the log end offset, from strata.state and the checkpoints;
// -1 if they have none.
func (p *part) recordedEnd() int64 {
	end := max(p.facts.recoveryPoint, p.facts.high)
	if p.state != nil && p.state.Clean {
		end = max(end, p.state.EndOffset)
	}
	return end
}

// recordedSize returns the size of a segment's .log file in strata.state; -1 if it is unknown.
func (p *part) recordedSize(base int64) int64 {
	if p.state == nil {
		return -1
	}
	i := slices.IndexFunc(p.state.Segments, func(s kafkafile.SegmentState) bool { return s.BaseOffset == base })
	switch {
	case i < 0:
		return -1
	case p.state.Clean && i == len(p.state.Segments)-1:
		return p.state.LastSize
	}
	return p.state.Segments[i].Size
}

// wayOut adds a note that names the ways to repair a log with damaged batches.
func (p *part) wayOut() {
	if p.lostTo < 0 {
		return
	}
	name, partition, _, ok := kafkafile.SplitPartition(filepath.Base(p.dir))
	if !ok || name == topic.MetadataTopic {
		p.note(p.dir, "what helps: the directory of another replica, or a backup")
		return
	}
	const helps = "what helps: the directory of another replica, or a backup; with neither, "
	deleting := "strata topics delete " + name
	switch inLast := len(p.segments) > 0 && p.lostTo > p.segments[len(p.segments)-1]; {
	case topic.IsInternal(name):
		p.note(p.dir, helps+"stop the broker and remove this directory and strata.partitions beside it, which gives up all records of the partition")
	case p.facts.compacted == yes, p.state != nil && inLast && (p.short || !p.facts.clean):
		// delete-records is rejected, or the partition is offline
		p.note(p.dir, helps+"give up all records of the topic: %s", deleting)
	default:
		text := fmt.Sprintf("give up all records below offset %d: strata topics delete-records %s --partition %d --before %d", p.lostTo, name, partition, p.lostTo)
		if p.lostTo >= p.endOffset() { // the header of the last batch may be wrong
			text += "; if appends fail then, give up all records of the topic: " + deleting
		}
		p.note(p.dir, "%s%s", helps, text)
	}
}
