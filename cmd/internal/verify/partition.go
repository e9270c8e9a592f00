package verify

import (
	"errors"
	"io/fs"
	"math"
	"path/filepath"
	"slices"

	"github.com/stratalog/strata/cmd/internal/kafkafile"
)

// facts are values about a log in files outside its directory; -1 if unknown.
type facts struct {
	recoveryPoint int64 // all records below it were on stable storage
	start, high   int64 // checkpoints of the log start offset and the high watermark
	clean         bool  // after a clean shutdown: recoveryPoint is the log end offset
	tiered        bool  // the broker had tiered storage
	compacted     known // whether compaction has ever removed anything
}

type known int8

const (
	unknown known = iota
	no
	yes
)

var noFacts = facts{recoveryPoint: -1, start: -1, high: -1}

// found is the result of a partition's check that the check of the broker's directory needs.
type found struct {
	id    [16]byte
	hasID bool
	end   int64
	// stated is set if the log has a strata.state file. It has been compared with the log end
	// offset.
	stated bool
}

// A part is a partition being checked.
type part struct {
	*verifier
	dir      string
	facts    facts
	files    map[string]bool
	left     map[string]bool // files with an additional suffix such as .swap
	segments []int64         // base offsets
	state    *kafkafile.LogState
	epochs   []kafkafile.Epoch
	txns     openTxns

	next  int64 // offset after the last batch so far, -1 before the first
	epoch int32 // highest leader epoch so far; -1 before the first batch
	// lostTo is the first offset after the last damaged range. If that is unknown, it is the offset
	// after the first lost one. -1 if no batch is damaged.
	lostTo int64
	cut    []int64 // base offsets of segments whose end is damaged
	short  bool    // the end of a segment is missing, or zeros
	gaps   bool    // offsets are missing or batches damaged: other files cannot be checked by them
}

// check checks a partition once.
func (v *verifier) check(dir string, fx facts) (found, error) {
	p := &part{verifier: v, dir: dir, facts: fx, files: map[string]bool{}, left: map[string]bool{}, next: -1, epoch: -1, lostTo: -1, txns: openTxns{}}
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
	out.end, out.stated = p.endOffset(), p.state != nil
	p.orphans()
	p.snapshots()
	p.againstEnd()
	p.wayOut()
	return out, nil
}

// applyRoles removes segments that are no part of the log by strata.state. It adds segments that a
// committed compaction has not renamed yet.
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

// segmentFile returns the present name of a segment's file. It still ends in .cleaned or .swap if a
// compaction was interrupted after its commit.
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

// file records one name in the directory.
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

// endOffset returns the log end offset. It may be above all batches and segment names: if a
// truncation ends the log where compaction had removed records, only strata.state has the end.
func (p *part) endOffset() int64 {
	if p.state != nil && !p.state.Clean && !p.state.Emptied {
		return max(p.endOfFiles(), p.state.EndOffset)
	}
	return p.endOfFiles()
}

// endOfFiles returns the log end offset by the batches and the names of segments.
func (p *part) endOfFiles() int64 {
	switch {
	case len(p.segments) == 0:
		return max(p.facts.start, 0)
	case p.next < 0:
		return p.segments[0]
	}
	return max(p.next, p.segments[len(p.segments)-1])
}

const maxRelative = math.MaxInt32
