package kafkafile

import (
	"encoding/binary"

	"github.com/cespare/xxhash/v2"
)

// A LogState is a strata.state (or strata.suspect) file: how Strata left a log. See docs/format/directory.md.
type LogState struct {
	Version       int
	Clean         bool // closed in order: EndOffset and LastSize hold
	Emptied       bool // everything was being removed
	SyncOnAck     bool // written to under SyncOnAck only
	StartOffset   int64
	RecoveryPoint int64
	EndOffset     int64
	LastSize      int64
	BootID        string
	Segments      []SegmentState
}

// A SegmentState is a segment that must be there.
type SegmentState struct {
	BaseOffset int64
	Size       int64 // -1: any
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
	if s.Version = int(be.Uint32(p[8:])); s.Version != 1 {
		return s, damaged("format %d, of which this program knows nothing", s.Version)
	}
	flags := be.Uint32(p[12:])
	s.Clean, s.Emptied, s.SyncOnAck = flags&1 != 0, flags&2 != 0, flags&4 != 0
	for i, v := range []*int64{&s.StartOffset, &s.RecoveryPoint, &s.EndOffset, &s.LastSize} {
		*v = int64(be.Uint64(p[16+8*i:]))
	}
	rest := body[fixed:]
	n := int(be.Uint16(rest))
	if len(rest) < 2+n+4 {
		return s, damaged("a boot id of %d bytes", n)
	}
	s.BootID, rest = string(rest[2:2+n]), rest[2+n:]
	count := int64(be.Uint32(rest))
	if rest = rest[4:]; int64(len(rest)) != 16*count {
		return s, damaged("%d segments in %d bytes", count, len(rest))
	}
	for ; len(rest) > 0; rest = rest[16:] {
		s.Segments = append(s.Segments, SegmentState{int64(be.Uint64(rest)), int64(be.Uint64(rest[8:]))})
	}
	return s, nil
}
