// Package manifest implements the content of strata.state: the files that make up a log, and facts
// that the files themselves cannot show. It only computes; package log reads and replaces the file.
//
// The manifest is the one authority on a log's segments. A file that it does not name belongs to no
// log, and recovery deletes a file only if the manifest marks it as obsolete.
//
// # Format
//
// Version 6; integers are big endian. Version 5 has neither hash of the leader epochs nor identity,
// version 4 no hashes of aborted transactions either, version 3 does not record which offsets
// compaction has purged, version 2 has no cuts, version 1 neither incarnation, journal tag nor
// roles.
//
//	magic "STRATALG" (8 B) | version (4 B) | flags (4 B) | start offset (8 B) | recovery point (8 B) |
//	end offset (8 B) | size of the last segment (8 B) | incarnation (8 B) | journal tag (8 B) |
//	cuts (8 B) | purged (8 B) | purge id (8 B) | hash of the leader epochs (8 B) | identity (8 B) |
//	boot id (length 2 B, bytes) |
//	segments (count 4 B; base offset 8 B, bytes 8 B, role 1 B, aborted 8 B each) |
//	first leader epoch (4 B, if the flag is set) | xxhash64 of all before (8 B)
package manifest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/cespare/xxhash/v2"
)

// Version is the format version that is written. Older ones are read.
const Version = 6

const magic = "STRATALG"

// Flags of the format.
const (
	flagClean   = 1 << 0
	flagEmptied = 1 << 1
	flagStrict  = 1 << 2
	flagEpochs  = 1 << 3
	flagFirst   = 1 << 4
	flagGapless = 1 << 5
)

// A State describes how a log was left. The zero State means that nothing is known of the log.
type State struct {
	Version       int   // of the file it was read from; 0 means no file. Always written as Version
	Clean         bool  // closed cleanly: End and Size are valid
	Emptied       bool  // everything was being removed: in version 1, no segment that still exists counts
	Strict        bool  // written to under SyncOnAck only: no more than one round can be unsynced
	Epochs        bool  // leader epochs were recorded: their file must exist
	Gapless       bool  // the last segment has no gap in its offsets, from its base on
	Start         int64 // first readable offset, as set by DeleteRecords and retention
	RecoveryPoint int64 // everything below is on stable storage
	End, Size     int64 // of a clean log: next offset, and bytes of its last segment. Otherwise End is a lower bound of later offsets

	// Incarnation is a random number that is drawn when the log is created or emptied
	// (TruncateFully), so that data stored elsewhere for an earlier log of the same name is not
	// used for this one. 0 means that none was drawn yet.
	Incarnation uint64
	// JournalTag is the tag of the log's valid entries in the journal of its directory; other
	// entries are void. 0 means that no entry is valid.
	JournalTag uint64

	// Cuts is the number of times that the end of a file was cut off before the file was written to
	// again. If a reader of the files finds the same number and incarnation before and after a
	// read, the read is consistent: the state is replaced before any byte is overwritten.
	Cuts uint64

	// Purged is the offset below which compaction has removed tombstones or transaction markers
	// without a trace. Records that these ended are missing in this log, but not in a copy that
	// ends before them. PurgeID is a random number that changes each time; 0 means that nothing was
	// ever purged. A copy that was begun later has both from its original. Versions before 4 have
	// neither.
	Purged  int64
	PurgeID uint64

	// EpochsHash is a hash of the file of leader epochs of a clean log, which has no checksum of its
	// own. 0 means unknown.
	EpochsHash uint64
	// Identity identifies the log wherever its directory is. 0 means unknown.
	Identity uint64

	// FirstEpoch is the only leader epoch so far, which began at offset 0, if FirstOnly is set. A
	// file of leader epochs takes precedence; there is none before the second epoch, or before the
	// log is closed.
	FirstOnly  bool
	FirstEpoch int32

	BootID   string    // run of the machine in which the log was last written to; "" means unknown
	Segments []Segment // by base offset, including obsolete segments and those set aside
}

// A Segment describes a segment of the log, or the rest of a former one.
type Segment struct {
	Base int64
	Size int64 // bytes of its batches once it is closed; -1 means any: it is or was active
	Role Role
	// Aborted is a hash of the segment's entries in the transaction index. 0: unknown, as before
	// version 5, and of the active segment unless the log is clean.
	Aborted uint64
}

// A Role is the relation of a segment to the log.
type Role uint8

// The roles of a segment.
const (
	Held       Role = iota // belongs to the log, under its own name
	Installing             // likewise, written by compaction: possibly still named .cleaned or .swap
	Obsolete               // replaced or removed: its file is to be deleted
	Aside                  // no longer part of the log: its file is to be renamed and kept
)

// Belongs reports whether the segment is part of the log.
func (r Role) Belongs() bool { return r == Held || r == Installing }

// ErrNewer is returned for a state that a later version of this program wrote.
var ErrNewer = errors.New("format of a later version")

// AppendTo appends the file's content to dst.
func (s *State) AppendTo(dst []byte) []byte {
	be, begin := binary.BigEndian, len(dst)
	p := append(dst, magic...)
	p = be.AppendUint32(p, Version)
	var flags uint32
	for _, f := range []struct {
		set bool
		bit uint32
	}{{s.Clean, flagClean}, {s.Emptied, flagEmptied}, {s.Strict, flagStrict}, {s.Epochs, flagEpochs}, {s.FirstOnly, flagFirst}, {s.Gapless, flagGapless}} {
		if f.set {
			flags |= f.bit
		}
	}
	p = be.AppendUint32(p, flags)
	for _, v := range []uint64{uint64(s.Start), uint64(s.RecoveryPoint), uint64(s.End), uint64(s.Size), s.Incarnation, s.JournalTag, s.Cuts, uint64(s.Purged), s.PurgeID, s.EpochsHash, s.Identity} {
		p = be.AppendUint64(p, v)
	}
	p = be.AppendUint16(p, uint16(len(s.BootID)))
	p = append(p, s.BootID...)
	p = be.AppendUint32(p, uint32(len(s.Segments)))
	for _, seg := range s.Segments {
		p = be.AppendUint64(p, uint64(seg.Base))
		p = be.AppendUint64(p, uint64(seg.Size))
		p = append(p, byte(seg.Role))
		p = be.AppendUint64(p, seg.Aborted)
	}
	if s.FirstOnly {
		p = be.AppendUint32(p, uint32(s.FirstEpoch))
	}
	return be.AppendUint64(p, xxhash.Sum64(p[begin:]))
}

// Sizes of the parts of the format.
const (
	head      = len(magic) + 4 + 4 + 4*8
	head2     = head + 2*8 // version 2
	head3     = head2 + 8  // version 3
	head4     = head3 + 16 // version 4
	head6     = head4 + 16 // version 6
	entry     = 16
	entry2    = entry + 1  // version 2
	entry5    = entry2 + 8 // version 5
	checksum  = 8
	minLength = head + 2 + 4 + checksum
)

// layouts has, by version, where the fields of a fixed size end, and the size of a segment's entry.
var layouts = [Version + 1]struct{ head, entry int }{
	1: {head, entry}, 2: {head2, entry2}, 3: {head3, entry2}, 4: {head4, entry2}, 5: {head4, entry5}, 6: {head6, entry5},
}

// Parse parses a file's content. After an error that matches ErrNewer the file may be valid; any
// other error means damage. Memory is bounded by the length of p.
func Parse(p []byte) (s State, err error) {
	be := binary.BigEndian
	if len(p) < minLength || string(p[:len(magic)]) != magic {
		return s, errors.New("not a state file")
	}
	v := be.Uint32(p[len(magic):])
	if v > Version {
		return s, fmt.Errorf("%w (format %d, this one knows %d): open it with that version", ErrNewer, v, Version)
	}
	body := p[:len(p)-checksum]
	if v == 0 || xxhash.Sum64(body) != be.Uint64(p[len(body):]) {
		return s, errors.New("checksum does not match")
	}
	s.Version = int(v)
	s.setFlags(be.Uint32(p[12:]))
	for i, v := range []*int64{&s.Start, &s.RecoveryPoint, &s.End, &s.Size} {
		if *v = int64(be.Uint64(p[16+8*i:])); *v < 0 {
			return s, errors.New("negative offset")
		}
	}
	rest, size, err := s.parseLaterFields(body[head:])
	if err != nil {
		return s, err
	}
	n := int(be.Uint16(rest))
	if len(rest) < 2+n+4 {
		return s, errors.New("too short")
	}
	s.BootID, rest = string(rest[2:2+n]), rest[2+n:]
	count := int(be.Uint32(rest))
	rest = rest[4:]
	if s.FirstOnly {
		if len(rest) < 4 {
			return s, errors.New("too short")
		}
		if s.FirstEpoch = int32(be.Uint32(rest[len(rest)-4:])); s.FirstEpoch < 0 {
			return s, errors.New("negative leader epoch")
		}
		rest = rest[:len(rest)-4]
	}
	if len(rest) != size*count {
		return s, errors.New("wrong number of segments")
	}
	return s, s.parseSegments(rest, size)
}

// parseLaterFields parses the fields of a fixed size that versions after the first have added. It
// returns the bytes behind them, and the size of a segment's entry.
func (s *State) parseLaterFields(rest []byte) (left []byte, size int, err error) {
	be := binary.BigEndian
	layout := layouts[s.Version]
	n := layout.head - head
	if len(rest) < n+2+4 {
		return nil, 0, errors.New("too short")
	}
	var fields [(head6 - head) / 8]uint64
	for i := range n / 8 {
		fields[i] = be.Uint64(rest[8*i:])
	}
	s.Incarnation, s.JournalTag, s.Cuts = fields[0], fields[1], fields[2]
	s.Purged, s.PurgeID = int64(fields[3]), fields[4]
	s.EpochsHash, s.Identity = fields[5], fields[6]
	if s.Purged < 0 {
		return nil, 0, errors.New("negative offset")
	}
	return rest[n:], layout.entry, nil
}

func (s *State) setFlags(flags uint32) {
	s.Clean, s.Emptied = flags&flagClean != 0, flags&flagEmptied != 0
	s.Strict, s.Epochs = flags&flagStrict != 0, flags&flagEpochs != 0
	s.FirstOnly = flags&flagFirst != 0 && s.Version >= 2
	s.Gapless = flags&flagGapless != 0 && s.Version >= 3
}

func (s *State) parseSegments(p []byte, size int) error {
	be := binary.BigEndian
	for ; len(p) > 0; p = p[size:] {
		seg := Segment{Base: int64(be.Uint64(p)), Size: int64(be.Uint64(p[8:]))}
		if size >= entry2 {
			seg.Role = Role(p[16])
		}
		if size >= entry5 {
			seg.Aborted = be.Uint64(p[entry2:])
		}
		if seg.Base < 0 || seg.Size < -1 || seg.Role > Aside {
			return fmt.Errorf("segment %d cannot be", seg.Base)
		}
		s.Segments = append(s.Segments, seg)
	}
	return nil
}

// With returns s with the given segments: belong are part of the log, and gone are not. Both ascend
// by base. A segment in both is part of the log: it has replaced the other one.
func (s State) With(belong, gone []Segment) State {
	s.Segments = slices.Clone(belong)
	for _, g := range gone {
		if _, found := slices.BinarySearchFunc(belong, g.Base, compareBase); !found {
			s.Segments = append(s.Segments, g)
		}
	}
	slices.SortFunc(s.Segments, func(a, b Segment) int { return compareBase(a, b.Base) })
	return s
}

// Belonging returns the segments that are part of the log, ascending.
func (s *State) Belonging() []Segment {
	return slices.DeleteFunc(slices.Clone(s.Segments), func(g Segment) bool { return !g.Role.Belongs() })
}

// Installs reports whether one of the segments may still be named .cleaned or .swap.
func (s *State) Installs() bool {
	return slices.ContainsFunc(s.Segments, func(g Segment) bool { return g.Role == Installing })
}

// Find returns the segment with the given base.
func (s *State) Find(base int64) (seg Segment, ok bool) {
	i, ok := slices.BinarySearchFunc(s.Segments, base, compareBase)
	if !ok {
		return seg, false
	}
	return s.Segments[i], true
}

func compareBase(s Segment, base int64) int {
	switch {
	case s.Base < base:
		return -1
	case s.Base > base:
		return 1
	}
	return 0
}
