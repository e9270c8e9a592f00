package manifest

import "encoding/binary"

// A Mark identifies the content of a log's files: as long as it is the same, no byte was
// overwritten. The zero Mark belongs to a log without a state, or with a state of version 1.
type Mark struct {
	Incarnation uint64 // of the log: another incarnation has other files
	Cuts        uint64 // of its files, see State.Cuts
}

// Mark returns the mark of the state.
func (s *State) Mark() Mark { return Mark{s.Incarnation, s.Cuts} }

// MarkBytes is the number of bytes from the beginning of a state that ParseMark needs.
const MarkBytes = head3

// ParseMark parses the mark at the beginning of a state, without verifying its checksum: a damaged
// mark is a different one, as is a mark of a later version.
func ParseMark(p []byte) Mark {
	be := binary.BigEndian
	var m Mark
	if len(p) < head2 || string(p[:len(magic)]) != magic {
		return m
	}
	switch v := be.Uint32(p[len(magic):]); {
	case v > Version:
		return Mark{^uint64(0), ^uint64(0)}
	case v >= 2:
		m.Incarnation = be.Uint64(p[head:])
		if v >= 3 && len(p) >= head3 {
			m.Cuts = be.Uint64(p[head2:])
		}
	}
	return m
}
