package log

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/cespare/xxhash/v2"

	"github.com/stratalog/strata/vfs"
)

// stateFile holds what the segments cannot tell by themselves. It is only ours; Kafka ignores it. It is replaced whole, and is on stable
// storage before anything relies on it.
//
//	magic "STRATALG" (8 B) | version (4 B) | flags (4 B) | start offset (8 B) | recovery point (8 B) | end offset (8 B) | size of the last
//	segment (8 B) | boot id (length 2 B, bytes) | segments (count 4 B; base offset 8 B, bytes 8 B each, -1 if any number) | xxhash64 of
//	all before (8 B); integers are big endian
const stateFile = "strata.state"

const (
	stateMagic   = "STRATALG"
	stateVersion = 1
	stateClean   = 1 << 0 // closed in order: end offset and size hold
	stateEmptied = 1 << 1 // everything was being removed: segments that are still there do not count
	stateStrict  = 1 << 2 // written to under SyncOnAck only: no more than unsyncedWindow can be lost
	stateEpochs  = 1 << 3 // leader epochs were recorded: their file must be there
)

type state struct {
	clean         bool
	emptied       bool
	strict        bool
	epochs        bool
	start         int64  // set by DeleteRecords and retention
	recoveryPoint int64  // everything below is on stable storage
	end, size     int64  // of a clean log: next offset, and bytes of its last segment
	bootID        string // of the machine's run in which the log was last written to; "" unknown
	segments      []segmentState
}

// segmentState is a segment that must be there. size is -1 if it may have any.
type segmentState struct{ base, size int64 }

func (s state) encode() []byte {
	be := binary.BigEndian
	p := append([]byte(nil), stateMagic...)
	p = be.AppendUint32(p, stateVersion)
	var flags uint32
	if s.clean {
		flags |= stateClean
	}
	if s.emptied {
		flags |= stateEmptied
	}
	if s.strict {
		flags |= stateStrict
	}
	if s.epochs {
		flags |= stateEpochs
	}
	p = be.AppendUint32(p, flags)
	for _, v := range []int64{s.start, s.recoveryPoint, s.end, s.size} {
		p = be.AppendUint64(p, uint64(v))
	}
	p = be.AppendUint16(p, uint16(len(s.bootID)))
	p = append(p, s.bootID...)
	p = be.AppendUint32(p, uint32(len(s.segments)))
	for _, seg := range s.segments {
		p = be.AppendUint64(p, uint64(seg.base))
		p = be.AppendUint64(p, uint64(seg.size))
	}
	return be.AppendUint64(p, xxhash.Sum64(p))
}

const stateFixed = len(stateMagic) + 4 + 4 + 4*8

func decodeState(p []byte) (s state, err error) {
	be := binary.BigEndian
	if len(p) < stateFixed+2+4+8 || string(p[:len(stateMagic)]) != stateMagic {
		return s, errors.New("not a state file")
	}
	body := p[:len(p)-8]
	if v := be.Uint32(p[8:]); v > stateVersion {
		return s, fmt.Errorf("%w (format %d, this one knows %d): open it with that version", ErrNewerFormat, v, stateVersion)
	}
	if xxhash.Sum64(body) != be.Uint64(p[len(p)-8:]) {
		return s, errors.New("checksum does not match")
	}
	s.clean = be.Uint32(p[12:])&stateClean != 0
	s.strict = be.Uint32(p[12:])&stateStrict != 0
	s.emptied = be.Uint32(p[12:])&stateEmptied != 0
	s.epochs = be.Uint32(p[12:])&stateEpochs != 0
	for i, v := range []*int64{&s.start, &s.recoveryPoint, &s.end, &s.size} {
		*v = int64(be.Uint64(p[16+8*i:]))
		if *v < 0 {
			return s, errors.New("negative offset")
		}
	}
	rest := body[stateFixed:]
	n := int(be.Uint16(rest))
	if len(rest) < 2+n+4 {
		return s, errors.New("too short")
	}
	s.bootID, rest = string(rest[2:2+n]), rest[2+n:]
	count := int(be.Uint32(rest))
	if rest = rest[4:]; len(rest) != 16*count {
		return s, errors.New("wrong number of segments")
	}
	for ; len(rest) > 0; rest = rest[16:] {
		s.segments = append(s.segments, segmentState{int64(be.Uint64(rest)), int64(be.Uint64(rest[8:]))})
	}
	return s, nil
}

// readState returns the state in dir; ok is false if there is none.
func readState(fsys vfs.FS, dir string) (s state, ok bool, err error) {
	path := filepath.Join(dir, stateFile)
	p, err := vfs.ReadFile(fsys, path)
	if errors.Is(err, fs.ErrNotExist) {
		return s, false, nil
	}
	if err != nil {
		return s, false, fmt.Errorf("read %s: %w", path, err)
	}
	if s, err = decodeState(p); err != nil {
		if errors.Is(err, ErrNewerFormat) {
			return s, false, fmt.Errorf("%s: %w", path, err)
		}
		return s, false, &CorruptError{Path: path, Reason: err.Error()}
	}
	return s, true, nil
}

func (s state) write(fsys vfs.FS, dir string) error {
	if err := vfs.WriteFile(fsys, filepath.Join(dir, stateFile), s.encode()); err != nil {
		return fmt.Errorf("write state of %s: %w", dir, err)
	}
	return nil
}
