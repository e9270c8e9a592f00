package kafkafile

import (
	"encoding/binary"

	"github.com/cespare/xxhash/v2"
)

// A LogState is the content of a strata.state, strata.suspect or strata.provisional file: Strata's
// state of a log. See docs/format/directory.md.
type LogState struct {
	Version       int
	Clean         bool // after a clean close: EndOffset and LastSize are valid
	Emptied       bool // all records were being removed
	SyncOnAck     bool // all records were written under SyncOnAck
	StartOffset   int64
	RecoveryPoint int64
	EndOffset     int64
	LastSize      int64
	Incarnation   uint64 // random, drawn when the log was created or emptied; 0 in version 1
	JournalTag    uint64 // tag of its valid entries in the directory's journal; 0 in version 1
	Cuts          uint64 // number of truncations of a file still written to; 0 before version 3
	Purged        int64  // compaction removed tombstones or markers below it; 0 before version 4
	PurgeID       uint64 // random for each purge; copies keep it; 0: none, or version < 4
	EpochsHash    uint64 // of leader-epoch-checkpoint if Clean; 0: unknown, or before version 6
	Identity      uint64 // of the log; 0: unknown, or before version 6
	BootID        string
	FirstEpoch    *int32         // the only leader epoch, from offset 0 on; nil: not stored here
	Segments      []SegmentState // by base offset
}

// A SegmentState is a segment that the state names.
type SegmentState struct {
	BaseOffset int64
	Size       int64 // -1: unknown
	Role       SegmentRole
	Aborted    uint64 // hash of its entries in the transaction index; 0: unknown, or before version 5
}

// A SegmentRole is the role of a segment in the log. In version 1 all are Held.
type SegmentRole uint8

// The roles of a segment.
const (
	Held       SegmentRole = iota // must exist
	Installing                    // must exist; its name may still end in .cleaned or .swap
	Obsolete                      // to be deleted
	SetAside                      // to be renamed and kept
)

func (r SegmentRole) String() string {
	return [...]string{"held", "installing", "obsolete", "aside"}[r]
}

// ParseState reads a state file, all of whose bytes are p. The error matches ErrDamaged.
func ParseState(p []byte) (s LogState, err error) {
	const fixed = 16 + 4*8
	be := binary.BigEndian
	if len(p) < fixed+2+4+8 || string(p[:8]) != "STRATALG" {
		return s, damaged("not a state file")
	}
	body, sum := p[:len(p)-8], be.Uint64(p[len(p)-8:])
	if have := xxhash.Sum64(body); have != sum {
		return s, damaged("checksum %016x, computed %016x", sum, have)
	}
	if s.Version = int(be.Uint32(p[8:])); s.Version < 1 || s.Version > 6 {
		return s, damaged("format %d, of which this program knows nothing", s.Version)
	}
	flags := be.Uint32(p[12:])
	s.Clean, s.Emptied, s.SyncOnAck = flags&1 != 0, flags&2 != 0, flags&4 != 0
	for i, v := range []*int64{&s.StartOffset, &s.RecoveryPoint, &s.EndOffset, &s.LastSize} {
		*v = int64(be.Uint64(p[16+8*i:]))
	}
	rest, entry, err := s.parseLaterFields(body[fixed:])
	if err != nil {
		return s, err
	}
	n := int(be.Uint16(rest))
	if len(rest) < 2+n+4 {
		return s, damaged("a boot id of %d bytes", n)
	}
	s.BootID, rest = string(rest[2:2+n]), rest[2+n:]
	count := int64(be.Uint32(rest))
	if rest = rest[4:]; flags&16 != 0 && s.Version >= 2 && len(rest) >= 4 {
		first := int32(be.Uint32(rest[len(rest)-4:]))
		s.FirstEpoch, rest = &first, rest[:len(rest)-4]
	}
	if int64(len(rest)) != entry*count {
		return s, damaged("%d segments in %d bytes", count, len(rest))
	}
	for ; len(rest) > 0; rest = rest[entry:] {
		seg := SegmentState{BaseOffset: int64(be.Uint64(rest)), Size: int64(be.Uint64(rest[8:]))}
		if entry > 16 {
			seg.Role = SegmentRole(rest[16])
		}
		if entry > 17 {
			seg.Aborted = be.Uint64(rest[17:])
		}
		if seg.Role > SetAside {
			return s, damaged("segment %d has role %d, of which this program knows nothing", seg.BaseOffset, seg.Role)
		}
		s.Segments = append(s.Segments, seg)
	}
	return s, nil
}

// parseLaterFields reads the fixed-size fields that versions after the first have added. It returns
// the bytes after them, and the size of a segment's entry.
func (s *LogState) parseLaterFields(rest []byte) (left []byte, entry int64, err error) {
	layout := [...]struct{ fields, entry int }{1: {0, 16}, 2: {2, 17}, 3: {3, 17}, 4: {5, 17}, 5: {5, 25}, 6: {7, 25}}[s.Version]
	if len(rest) < 8*layout.fields+2+4 {
		return nil, 0, damaged("too short")
	}
	var v [7]uint64
	for i := range layout.fields {
		v[i] = binary.BigEndian.Uint64(rest[8*i:])
	}
	s.Incarnation, s.JournalTag, s.Cuts = v[0], v[1], v[2]
	s.Purged, s.PurgeID = int64(v[3]), v[4]
	s.EpochsHash, s.Identity = v[5], v[6]
	return rest[8*layout.fields:], int64(layout.entry), nil
}
