package verify

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/stratalog/strata/cmd/internal/kafkafile"
)

// orphans reports indexes without a segment. Kafka renames and removes the .log file of a segment
// before its indexes, so with a renamed .log file this is a note. With strata.state it is a note
// too: the state lists the segments.
func (p *part) orphans() {
	for name := range p.files {
		switch kind, _ := kafkafile.KindOf(name); kind {
		case kafkafile.Index, kafkafile.TimeIndex, kafkafile.TxnIndex:
		default:
			continue
		}
		log := strings.TrimSuffix(name, filepath.Ext(name)) + ".log"
		switch {
		case p.files[log]:
		case p.state != nil || p.leftOf(log):
			p.note(p.path(name), "an index without its segment")
		default:
			p.damage(p.path(log), -1, "the segment is missing, and %s is there", name)
		}
	}
}

// leftOf reports whether a deletion or a compaction has left a renamed file of that name.
func (p *part) leftOf(name string) bool {
	for left := range p.left {
		if strings.HasPrefix(left, name+".") {
			return true
		}
	}
	return false
}

// snapshots checks the producer snapshots.
func (p *part) snapshots() {
	for name := range p.files {
		if kind, _ := kafkafile.KindOf(name); kind != kafkafile.Snapshot {
			continue
		}
		path := p.path(name)
		offset, ok := kafkafile.BaseOffset(name)
		if !ok {
			p.damage(path, -1, "a snapshot is named by 20 digits")
			continue
		}
		b := p.small(path)
		if b == nil {
			continue
		}
		producers, err := kafkafile.ParseSnapshot(b)
		if err != nil {
			p.damage(path, -1, "%v", err)
		}
		seen := map[int64]bool{}
		for _, e := range producers {
			if e.ProducerID < 0 || seen[e.ProducerID] || e.LastOffset >= offset || e.TxnFirstOffset >= offset {
				p.damage(path, -1, "producer %d cannot be as it says at offset %d", e.ProducerID, offset)
			}
			seen[e.ProducerID] = true
		}
		if end := p.endOffset(); offset > end {
			p.ahead(path, "a snapshot of offset %d, and the log ends at %d", offset, end)
		}
	}
}

// againstEnd checks the start and end offsets in other files against the segments.
func (p *part) againstEnd() {
	end := p.endOffset()
	if n := len(p.epochs); n > 0 && p.epochs[n-1].StartOffset > end {
		p.ahead(p.path("leader-epoch-checkpoint"), "epoch %d begins at %d, and the log ends at %d", p.epochs[n-1].Epoch, p.epochs[n-1].StartOffset, end)
	}
	if p.state == nil {
		p.againstStart()
		return
	}
	path := p.path("strata.state")
	switch s := p.state; {
	case s.Emptied: // the next open begins an empty log at StartOffset
		return
	case s.StartOffset > end:
		p.damage(path, -1, "the log starts at %d and ends at %d", s.StartOffset, end)
	case s.RecoveryPoint > end:
		p.damage(path, -1, "everything below %d was on stable storage, and the log ends at %d", s.RecoveryPoint, end)
	case s.Clean && s.EndOffset != end:
		p.damage(path, -1, "closed at %d, and the log ends at %d", s.EndOffset, end)
	}
	for _, want := range p.state.Segments {
		if want.Role == kafkafile.Obsolete || want.Role == kafkafile.SetAside {
			continue
		}
		if !slices.Contains(p.segments, want.BaseOffset) {
			p.damage(p.path(p.segmentFile(want.BaseOffset, ".log")), -1, "the segment is missing")
			continue
		}
		if slices.Contains(p.cut, want.BaseOffset) {
			continue // reported with the damage
		}
		size := p.recordedSize(want.BaseOffset)
		if have, err := p.fs.Stat(p.path(p.segmentFile(want.BaseOffset, ".log"))); err == nil && size >= 0 && have.Size() != size {
			p.damage(p.path(p.segmentFile(want.BaseOffset, ".log")), -1, "%d bytes, where there were %d", have.Size(), size)
		}
	}
}

// againstStart checks the first segment of a log of Kafka's against the checkpoint of the log start
// offset. A clean shutdown writes the checkpoint if the start is above the base offset of the first
// segment. With tiered storage a log may start below its first local segment.
func (p *part) againstStart() {
	if !p.facts.clean || p.facts.tiered || p.facts.start < 0 || len(p.segments) == 0 {
		return
	}
	if first := p.segments[0]; p.facts.start < first {
		p.damage(p.path(segmentName(first, ".log")), -1, "begins at %d, and the log at %d: segments before it are missing", first, p.facts.start)
	}
}

// ahead reports a file with an offset above the log end offset. It is damage after a clean
// shutdown, and otherwise a note: the crash may have taken the end of the log.
func (p *part) ahead(path, format string, args ...any) {
	if p.facts.clean {
		p.damage(path, -1, format, args...)
		return
	}
	p.note(path, format+"; the log was not closed in order", args...)
}
