// Package manifest is the content of strata.state: which files make up a log, and what they cannot
// tell by themselves. It only computes; package log reads and replaces the file.
//
// The manifest is the one authority on a log's segments. A file that it does not name belongs to
// nobody, and a file is deleted by recovery only if the manifest calls it obsolete.
//
// # Format
//
// Version 4; integers are big endian. Version 3 does not know what compaction has purged, version 2
// has no cuts either, version 1 neither incarnation, journal tag nor roles.
//
//	magic "STRATALG" (8 B) | version (4 B) | flags (4 B) | start offset (8 B) | recovery point (8 B) |
//	end offset (8 B) | size of the last segment (8 B) | incarnation (8 B) | journal tag (8 B) |
//	cuts (8 B) | purged (8 B) | purge id (8 B) |
//	boot id (length 2 B, bytes) | segments (count 4 B; base offset 8 B, bytes 8 B, role 1 B each) |
//	first leader epoch (4 B, if the flag says so) | xxhash64 of all before (8 B)
package manifest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/cespare/xxhash/v2"
)

// Version is the format that is written. Older ones are read.
const Version = 4

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

// A State is how a log was left. The zero State is that of a log of which nothing is known.
type State struct {
	Version       int   // of the file it was read from; 0: from none. Always written as Version
	Clean         bool  // closed in order: End and Size hold
	Emptied       bool  // everything was being removed: in version 1, no segment that is still there counts
	Strict        bool  // written to under SyncOnAck only: no more than one round can be unsynced
	Epochs        bool  // leader epochs were recorded: their file must be there
	Gapless       bool  // the batches of the last segment follow each other without a gap in the offsets, from its base on
	Start         int64 // first readable offset, as set by DeleteRecords and retention
	RecoveryPoint int64 // everything below is on stable storage
	End, Size     int64 // of a clean log: next offset, and bytes of its last segment. End of any other: no offset below is given again

	// Incarnation is drawn at random when the log is created or begun anew (TruncateFully), so that
	// what was written elsewhere for an earlier log of the same name is not taken for this one's.
	// 0: none was drawn yet.
	Incarnation uint64
	// JournalTag is what the log's entries in the journal of its directory carry that count; all
	// others are void. 0: none counts.
	JournalTag uint64

	// Cuts counts how often the end was taken off a file that went on to be written to. A reader of
	// the files who finds the same number, and the same incarnation, after reading
	// as before has read what was there before: the state is replaced before a byte
	// is written in the place of another.
	Cuts uint64

	// Purged: below this offset compaction has taken tombstones or markers of transactions of which
	// no later record tells. What they ended is gone from this log, and not from a copy of it that
	// ends before them. PurgeID is drawn anew each time; 0: nothing was ever taken. A copy that was
	// begun later has both from its original. Not in versions before 4.
	Purged  int64
	PurgeID uint64

	// FirstEpoch is the only leader epoch so far, which began at offset 0, if FirstOnly is set. A
	// file of leader epochs that is there knows better; there is none before the second epoch, or
	// before the log is closed.
	FirstOnly  bool
	FirstEpoch int32

	BootID   string    // run of the machine in which the log was last written to; "": unknown
	Segments []Segment // by base offset; those that are obsolete or set aside too
}

// A Segment is a segment's place in the log, or what is left of one.
type Segment struct {
	Base int64
	Size int64 // bytes of its batches once it is closed; -1: any, it is or was active
	Role Role
}

// A Role says what a segment is to the log.
type Role uint8

// The roles of a segment.
const (
	Held       Role = iota // belongs to the log, under its own name
	Installing             // likewise, written by compaction: perhaps still named .cleaned or .swap
	Obsolete               // replaced or removed: its file is to be deleted
	Aside                  // not joined to the log any more: its file is to be renamed and kept
)

// Belongs reports whether the segment is part of the log.
func (r Role) Belongs() bool { return r == Held || r == Installing }

// ErrNewer says that a state was written by a later version of this program.
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
	for _, v := range []uint64{uint64(s.Start), uint64(s.RecoveryPoint), uint64(s.End), uint64(s.Size), s.Incarnation, s.JournalTag, s.Cuts, uint64(s.Purged), s.PurgeID} {
		p = be.AppendUint64(p, v)
	}
	p = be.AppendUint16(p, uint16(len(s.BootID)))
	p = append(p, s.BootID...)
	p = be.AppendUint32(p, uint32(len(s.Segments)))
	for _, seg := range s.Segments {
		p = be.AppendUint64(p, uint64(seg.Base))
		p = be.AppendUint64(p, uint64(seg.Size))
		p = append(p, byte(seg.Role))
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
	entry     = 16
	entry2    = entry + 1 // version 2
	checksum  = 8
	minLength = head + 2 + 4 + checksum
)

// Parse reads a file's content. An error that matches ErrNewer says that the file may be fine; any
// other, that it is damaged. Memory is bounded by the length of p.
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
	rest, size := body[head:], entry
	if s.Version >= 2 {
		if len(rest) < head2-head+2+4 {
			return s, errors.New("too short")
		}
		s.Incarnation, s.JournalTag = be.Uint64(rest), be.Uint64(rest[8:])
		rest, size = rest[head2-head:], entry2
	}
	if s.Version >= 3 {
		if len(rest) < head3-head2+2+4 {
			return s, errors.New("too short")
		}
		s.Cuts, rest = be.Uint64(rest), rest[head3-head2:]
	}
	if s.Version >= 4 {
		if len(rest) < head4-head3+2+4 {
			return s, errors.New("too short")
		}
		if s.Purged, s.PurgeID = int64(be.Uint64(rest)), be.Uint64(rest[8:]); s.Purged < 0 {
			return s, errors.New("negative offset")
		}
		rest = rest[head4-head3:]
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
		if size == entry2 {
			seg.Role = Role(p[16])
		}
		if seg.Base < 0 || seg.Size < -1 || seg.Role > Aside {
			return fmt.Errorf("segment %d cannot be", seg.Base)
		}
		s.Segments = append(s.Segments, seg)
	}
	return nil
}

// With returns s with the given segments, of which belong are the log's and gone are not; both
// ascend by base. A segment that is in both belongs: it has taken the place of the other one.
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

// Installs reports whether one of the segments is perhaps still named .cleaned or .swap.
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
