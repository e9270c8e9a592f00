package journal

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/cespare/xxhash/v2"
)

// Version is the format version that is written. A file of a later version is ErrNewerFormat.
const Version = 1

const (
	fileMagic   = "STRATAJL"
	headerBytes = 4096

	frameMagic = "SJF1"
	frameFixed = 4 + 4 + 8 + 8 + 8 // bytes before the entries
	sumBytes   = 8
	// alignment of frames in bytes: no frame shares a sector with an earlier, acknowledged one.
	alignment   = 512
	entryFixed  = 2 + 8 + 8 + 8 + 4
	maxNameSize = 1<<16 - 1
)

// An Entry has bytes of one log and their position.
type Entry struct {
	Log  string // name of the log's directory
	Tag  uint64 // set by the log, which uses it to decide whether the entry is valid
	Base int64  // base offset of the segment
	Pos  int64  // of Data in the segment's file, in bytes
	Data []byte
}

// A Frame collects the entries that are made durable together. The zero Frame is empty. It is not
// safe for concurrent use.
type Frame struct{ buf []byte }

// Reset empties the frame and keeps its memory.
func (f *Frame) Reset() { f.buf = f.buf[:0] }

// Empty reports whether the frame has no entry.
func (f *Frame) Empty() bool { return len(f.buf) <= frameFixed }

// Cap returns the bytes of memory that the frame keeps.
func (f *Frame) Cap() int { return cap(f.buf) }

// Add appends an entry whose data is the concatenation of pieces; they are copied. e.Data is
// ignored.
func (f *Frame) Add(e Entry, pieces ...[]byte) {
	if len(f.buf) == 0 {
		f.buf = append(f.buf, make([]byte, frameFixed)...)
	}
	be, n := binary.BigEndian, 0
	for _, p := range pieces {
		n += len(p)
	}
	f.buf = be.AppendUint16(f.buf, uint16(len(e.Log)))
	f.buf = append(f.buf, e.Log...)
	f.buf = be.AppendUint64(f.buf, e.Tag)
	f.buf = be.AppendUint64(f.buf, uint64(e.Base))
	f.buf = be.AppendUint64(f.buf, uint64(e.Pos))
	f.buf = be.AppendUint32(f.buf, uint32(n))
	for _, p := range pieces {
		f.buf = append(f.buf, p...)
	}
}

// size returns the bytes that the frame takes up in the file.
func (f *Frame) size() int64 { return align(int64(max(len(f.buf), frameFixed) + sumBytes)) }

// A place identifies a frame: the use of a half, the file, and the frame's number in the half.
type place struct{ generation, id, number uint64 }

// seal completes the frame and returns the bytes to write. Afterwards the frame can only be reset.
func (f *Frame) seal(at place) []byte {
	size, be := f.size(), binary.BigEndian
	copy(f.buf, frameMagic)
	be.PutUint32(f.buf[4:], uint32(len(f.buf)-frameFixed))
	be.PutUint64(f.buf[8:], at.generation)
	be.PutUint64(f.buf[16:], at.id)
	be.PutUint64(f.buf[24:], at.number)
	f.buf = be.AppendUint64(f.buf, xxhash.Sum64(f.buf))
	var padding [alignment]byte
	f.buf = append(f.buf, padding[:size-int64(len(f.buf))]...)
	return f.buf
}

func align(n int64) int64 { return (n + alignment - 1) / alignment * alignment }

// parseFrame returns the frame at the start of p; ok is false if there is no complete one.
func parseFrame(p []byte) (at place, entries []byte, size int64, ok bool) {
	be := binary.BigEndian
	if len(p) < frameFixed+sumBytes || string(p[:4]) != frameMagic {
		return at, nil, 0, false
	}
	n := int64(be.Uint32(p[4:]))
	if n > int64(len(p))-frameFixed-sumBytes {
		return at, nil, 0, false
	}
	end := frameFixed + n
	if xxhash.Sum64(p[:end]) != be.Uint64(p[end:]) {
		return at, nil, 0, false
	}
	return placeOf(p), p[frameFixed:end:end], align(end + sumBytes), true
}

// placeOf returns the place in the beginning of a frame, which may be incomplete.
func placeOf(p []byte) place {
	be := binary.BigEndian
	return place{generation: be.Uint64(p[8:]), id: be.Uint64(p[16:]), number: be.Uint64(p[24:])}
}

var errEntry = errors.New("entries are no entries, though their checksum matches")

// parseEntries appends the entries of a frame to dst; their data aliases p.
func parseEntries(dst []Entry, p []byte) ([]Entry, error) {
	be := binary.BigEndian
	for len(p) > 0 {
		if len(p) < entryFixed {
			return dst, errEntry
		}
		name := int(be.Uint16(p))
		if len(p) < entryFixed+name {
			return dst, errEntry
		}
		e := Entry{Log: string(p[2 : 2+name])}
		p = p[2+name:]
		e.Tag, e.Base, e.Pos = be.Uint64(p), int64(be.Uint64(p[8:])), int64(be.Uint64(p[16:]))
		n := int64(be.Uint32(p[24:]))
		p = p[28:]
		if n > int64(len(p)) || e.Base < 0 || e.Pos < 0 || e.Pos+n < 0 {
			return dst, errEntry
		}
		e.Data, p = p[:n:n], p[n:]
		dst = append(dst, e)
	}
	return dst, nil
}

// A Header is the header of a journal file.
type Header struct {
	ID      uint64 // random: frames with the id of another file are invalid
	Witness uint64 // the caller's, from Config.Witness
	BootID  string // of the boot of the machine in which the file was created
	half    int64  // bytes
}

func (h *Header) encode() []byte {
	be := binary.BigEndian
	p := make([]byte, 0, headerBytes)
	p = append(p, fileMagic...)
	p = be.AppendUint32(p, Version)
	p = be.AppendUint64(p, uint64(h.half))
	p = be.AppendUint64(p, h.ID)
	p = be.AppendUint64(p, h.Witness)
	p = be.AppendUint16(p, uint16(len(h.BootID)))
	p = append(p, h.BootID...)
	p = be.AppendUint64(p, xxhash.Sum64(p))
	return p[:headerBytes]
}

const headerFixed = len(fileMagic) + 4 + 8 + 8 + 8 + 2

// ErrNewerFormat is returned for a file of a later version of the format.
var ErrNewerFormat = errors.New("journal: newer format")

// decodeHeader parses the header of a file of the given size.
func decodeHeader(p []byte, size int64) (h Header, err error) {
	be := binary.BigEndian
	if len(p) < headerBytes || !bytes.HasPrefix(p, []byte(fileMagic)) {
		return h, errors.New("not a journal")
	}
	if v := be.Uint32(p[8:]); v > Version {
		return h, fmt.Errorf("%w (format %d, this one knows %d): open it with that version", ErrNewerFormat, v, Version)
	}
	n := headerFixed + int(be.Uint16(p[headerFixed-2:]))
	if n+sumBytes > headerBytes || xxhash.Sum64(p[:n]) != be.Uint64(p[n:]) {
		return h, errors.New("checksum of the header does not match")
	}
	h = Header{ID: be.Uint64(p[20:]), Witness: be.Uint64(p[28:]), BootID: string(p[headerFixed:n]), half: int64(be.Uint64(p[12:]))}
	if h.half <= 0 || h.half%alignment != 0 || h.half > maxHalf || size != headerBytes+2*h.half {
		return h, fmt.Errorf("file has %d bytes, a half %d", size, h.half)
	}
	return h, nil
}

// maxHalf bounds what Load reads into memory at once.
const maxHalf = 256 << 20
