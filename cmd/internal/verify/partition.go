package verify

import (
	"errors"
	"io/fs"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"github.com/stratalog/strata/cmd/internal/kafkafile"
	"github.com/stratalog/strata/topic"
)

// facts are what is known of a log from files outside its directory. -1: nothing.
type facts struct {
	recoveryPoint int64 // everything below was on stable storage
	start, high   int64 // checkpoints of the start and the high watermark
	clean         bool  // closed in order: recoveryPoint is the end
	compacted     known // whether compaction has ever removed anything
}

type known int8

const (
	unknown known = iota
	no
	yes
)

var noFacts = facts{recoveryPoint: -1, start: -1, high: -1}

// found is what a partition's check tells a broker's.
type found struct {
	id    [16]byte
	hasID bool
	end   int64
}

// A part is a partition being checked.
type part struct {
	*verifier
	dir      string
	facts    facts
	files    map[string]bool
	left     map[string]bool // files with a suffix behind their own, such as .swap
	segments []int64         // base offsets
	state    *kafkafile.LogState
	epochs   []kafkafile.Epoch
	txns     openTxns

	next  int64 // offset after the last batch so far, -1 before the first
	epoch int32 // of the last batch so far
	gaps  bool  // offsets are missing, or a part is damaged: what other files say of them cannot be checked
}

// check checks a partition once.
func (v *verifier) check(dir string, fx facts) (found, error) {
	p := &part{verifier: v, dir: dir, facts: fx, files: map[string]bool{}, left: map[string]bool{}, next: -1, epoch: -1, txns: openTxns{}}
	v.n.Partitions++
	names, err := v.list(dir)
	if errors.Is(err, fs.ErrNotExist) {
		v.note(dir, "was removed meanwhile")
		return found{}, nil
	}
	if err != nil {
		v.damage(dir, -1, "cannot be read: %v", err)
		return found{}, nil
	}
	left, aside := 0, 0
	for _, name := range names {
		switch _, set := kafkafile.KindOf(name); set {
		case "":
			p.file(name)
		case ".aside":
			aside++
		default:
			left++
			p.left[name] = true
		}
	}
	if left > 0 {
		p.note(dir, "%d files are left behind (.deleted, .cleaned, .swap, .tmp); the next open removes them or finishes what they are part of", left)
	}
	if aside > 0 {
		p.note(dir, "%d files were set aside by recovery (.aside); they are no part of the log, and yours to remove", aside)
	}
	var out found
	p.smallFiles(&out)
	p.applyRoles()
	for i, base := range p.segments {
		if err := p.segment(base, i == len(p.segments)-1); err != nil {
			return out, err
		}
	}
	out.end = p.endOffset()
	p.orphans()
	p.snapshots()
	p.againstEnd()
	return out, nil
}

// applyRoles takes away what the state says is no part of the log, and adds
// what a compaction has committed to it.
func (p *part) applyRoles() {
	if p.state == nil {
		return
	}
	for _, s := range p.state.Segments {
		i, found := slices.BinarySearch(p.segments, s.BaseOffset)
		switch gone := s.Role == kafkafile.Obsolete || s.Role == kafkafile.SetAside; {
		case gone && found:
			p.segments = slices.Delete(p.segments, i, i+1)
		case !gone && !found && p.segmentFile(s.BaseOffset, ".log") != segmentName(s.BaseOffset, ".log"):
			p.segments = slices.Insert(p.segments, i, s.BaseOffset)
		}
	}
}

// segmentFile returns the name that a file of a segment has: another than its own if a compaction
// has committed it and was interrupted.
func (p *part) segmentFile(base int64, suffix string) string {
	name := segmentName(base, suffix)
	if p.state == nil || !slices.ContainsFunc(p.state.Segments, func(s kafkafile.SegmentState) bool { return s.BaseOffset == base && s.Role == kafkafile.Installing }) {
		return name
	}
	for _, set := range []string{".cleaned", ".swap"} {
		if p.left[name+set] {
			return name + set
		}
	}
	return name
}

func (p *part) path(name string) string { return filepath.Join(p.dir, name) }

// file takes note of one name in the directory.
func (p *part) file(name string) {
	kind, _ := kafkafile.KindOf(name)
	if kind == kafkafile.Unknown {
		return
	}
	p.files[name] = true
	if kind != kafkafile.Log {
		return
	}
	base, ok := kafkafile.BaseOffset(name)
	if !ok {
		p.damage(p.path(name), -1, "a segment is named by 20 digits")
		return
	}
	p.segments = append(p.segments, base)
	slices.Sort(p.segments)
}

// metadataTopicID is the id that every cluster's controller's
// log has. Kafka: Uuid.METADATA_TOPIC_ID.
var metadataTopicID = [16]byte{15: 1}

// smallFiles reads what speaks of the segments, before they are read.
func (p *part) smallFiles(out *found) {
	if p.files["strata.state"] {
		path := p.path("strata.state")
		if b := p.small(path); b != nil {
			s, err := kafkafile.ParseState(b)
			if err != nil {
				p.damage(path, -1, "%v", err)
			} else {
				p.state = &s
				p.facts.recoveryPoint, p.facts.clean = s.RecoveryPoint, s.Clean
			}
		}
	}
	if p.files["strata.suspect"] {
		path := p.path("strata.suspect")
		p.note(path, "a sync has failed; the next open writes what may be missing once more")
		if b := p.small(path); b != nil {
			if _, err := kafkafile.ParseState(b); err != nil {
				p.damage(path, -1, "%v", err)
			}
		}
	}
	if p.files["leader-epoch-checkpoint"] {
		path := p.path("leader-epoch-checkpoint")
		if b := p.small(path); b != nil {
			es, err := kafkafile.ParseEpochs(b)
			if err != nil {
				p.damage(path, -1, "%v", err)
			}
			p.epochs = es
		}
	}
	if p.files["partition.metadata"] {
		path := p.path("partition.metadata")
		if b := p.small(path); b != nil {
			id, err := kafkafile.ParsePartitionMetadata(b)
			if err != nil {
				p.damage(path, -1, "%v", err)
			}
			out.id, out.hasID = id, err == nil
			if filepath.Base(p.dir) == topic.MetadataTopic+"-0" && err == nil && id != metadataTopicID {
				p.damage(path, -1, "not the id of the controller's log")
			}
		}
	}
	if p.files["cleaner-offset-checkpoint"] { // Strata keeps it here
		path := p.path("cleaner-offset-checkpoint")
		p.facts.compacted = yes
		if b := p.small(path); b != nil {
			if _, err := kafkafile.ParseOffsets(b); err != nil {
				p.damage(path, -1, "%v", err)
			}
		}
	}
}

// endOffset returns the log end offset. It may be past every batch and name: a truncation has cut
// where compaction had taken the records before, and the state alone says where the log ends.
func (p *part) endOffset() int64 {
	if p.state != nil && !p.state.Clean && !p.state.Emptied {
		return max(p.endOfFiles(), p.state.EndOffset)
	}
	return p.endOfFiles()
}

// endOfFiles returns the log end offset as batches and names of segments tell it.
func (p *part) endOfFiles() int64 {
	switch {
	case len(p.segments) == 0:
		return max(p.facts.start, 0)
	case p.next < 0:
		return p.segments[0]
	}
	return max(p.next, p.segments[len(p.segments)-1])
}

// orphans reports indexes without a segment.
func (p *part) orphans() {
	for name := range p.files {
		switch kind, _ := kafkafile.KindOf(name); kind {
		case kafkafile.Index, kafkafile.TimeIndex, kafkafile.TxnIndex:
			if !p.files[strings.TrimSuffix(name, filepath.Ext(name))+".log"] {
				p.note(p.path(name), "an index without its segment")
			}
		}
	}
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

// ahead reports a file that is ahead of the log: damage if the
// log cannot have lost its end by a crash.
func (p *part) ahead(path, format string, args ...any) {
	if p.facts.clean {
		p.damage(path, -1, format, args...)
		return
	}
	p.note(path, format+"; the log was not closed in order", args...)
}

// againstEnd holds what other files say of start and end against the segments.
func (p *part) againstEnd() {
	end := p.endOffset()
	if n := len(p.epochs); n > 0 && p.epochs[n-1].StartOffset > end {
		p.ahead(p.path("leader-epoch-checkpoint"), "epoch %d begins at %d, and the log ends at %d", p.epochs[n-1].Epoch, p.epochs[n-1].StartOffset, end)
	}
	if p.state == nil {
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
	for i, want := range p.state.Segments {
		if want.Role == kafkafile.Obsolete || want.Role == kafkafile.SetAside {
			continue
		}
		if !slices.Contains(p.segments, want.BaseOffset) {
			p.damage(p.path(p.segmentFile(want.BaseOffset, ".log")), -1, "the segment is missing")
			continue
		}
		size := want.Size
		if p.state.Clean && i == len(p.state.Segments)-1 {
			size = p.state.LastSize
		}
		if have, err := p.fs.Stat(p.path(p.segmentFile(want.BaseOffset, ".log"))); err == nil && size >= 0 && have.Size() != size {
			p.damage(p.path(p.segmentFile(want.BaseOffset, ".log")), -1, "%d bytes, where there were %d", have.Size(), size)
		}
	}
}

// epochAt returns the epoch that leader-epoch-checkpoint has for offset, -1 if it says nothing.
func (p *part) epochAt(offset int64) int32 {
	i, exact := slices.BinarySearchFunc(p.epochs, offset, func(e kafkafile.Epoch, o int64) int {
		switch {
		case e.StartOffset < o:
			return -1
		case e.StartOffset > o:
			return 1
		}
		return 0
	})
	if exact {
		return p.epochs[i].Epoch
	}
	if i == 0 {
		return -1
	}
	return p.epochs[i-1].Epoch
}

const maxRelative = math.MaxInt32
