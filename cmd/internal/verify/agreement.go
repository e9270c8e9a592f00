package verify

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/stratalog/strata/cmd/internal/kafkafile"
)

// orphans reports indexes without a segment. A broker of Kafka removes a segment before them, and
// leaves it beside them under another name first. Where there is a state, it has the segments.
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

// leftOf reports whether there is a file that a deletion or a compaction has left of one.
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

// againstEnd holds what other files say of start and end against the segments.
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
	case s.Emptied: // it begins anew at its start offset
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

// againstStart holds the first segment of a log of Kafka's against the checkpoint of the start,
// which a broker that is closed in order writes if the segment begins before it. With tiered
// storage logs begin elsewhere.
func (p *part) againstStart() {
	if !p.facts.clean || p.facts.tiered || p.facts.start < 0 || len(p.segments) == 0 {
		return
	}
	if first := p.segments[0]; p.facts.start < first {
		p.damage(p.path(segmentName(first, ".log")), -1, "begins at %d, and the log at %d: segments before it are missing", first, p.facts.start)
	}
}

// ahead reports a file that is ahead of the log: damage if the
// log cannot have lost its end by a crash.
func (p *part) ahead(path, format string, args ...any) {
	if p.facts.clean {
		p.damage(path, -1, format, args...)
		return
	}
	p.note(path, format+"; the log was not closed in order", args...)
}
