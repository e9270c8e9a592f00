package manifest

import "encoding/binary"

// A Mark tells whether bytes of a log's files can have been replaced by others: not while it is the
// same. The zero Mark is that of a log without a state, or with one of version 1.
type Mark struct {
	Incarnation uint64 // of the log: another one has other files
	Cuts        uint64 // of its files, see State.Cuts
}

// Mark returns that of the state.
func (s *State) Mark() Mark { return Mark{s.Incarnation, s.Cuts} }

// MarkBytes is how many bytes from the beginning of a state ParseMark wants.
const MarkBytes = head3

// ParseMark reads the mark from the beginning of a state, without looking at its checksum: a mark
// that is damaged is another one. So is that of a later version, of which nothing is known.
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
