package segment

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/stratalog/strata/vfs"
)

// Sizes of index entries (Kafka: OffsetIndex, TimeIndex). Both are big endian.
const (
	offsetEntrySize = 8
	timeEntrySize   = 12
)

func (e offsetEntry) appendTo(p []byte) []byte {
	p = binary.BigEndian.AppendUint32(p, uint32(e.rel))
	return binary.BigEndian.AppendUint32(p, uint32(e.pos))
}

func parseOffsetEntry(p []byte) offsetEntry {
	return offsetEntry{int32(binary.BigEndian.Uint32(p)), int32(binary.BigEndian.Uint32(p[4:]))}
}

func (e timeEntry) appendTo(p []byte) []byte {
	p = binary.BigEndian.AppendUint64(p, uint64(e.ts))
	return binary.BigEndian.AppendUint32(p, uint32(e.rel))
}

func parseTimeEntry(p []byte) timeEntry {
	return timeEntry{int64(binary.BigEndian.Uint64(p)), int32(binary.BigEndian.Uint32(p[8:]))}
}

// loadIndex reads the index files, if that has not been done. The first impossible
// entry, and everything behind it, is left out.
func (s *Segment) loadIndex() error {
	s.mu.Lock()
	loaded := s.index.loaded || s.index.removed
	s.mu.Unlock()
	if loaded {
		return nil
	}
	at := s.published()
	x, err := s.readIndexes(at.size)
	if err != nil {
		return err
	}
	x.cut(at.size, at.next, s.base)
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.index.loaded && !s.index.removed {
		x.gen = s.index.gen + 1
		s.index = x
	}
	return nil
}

// readIndexes reads the files of a segment whose batches end at file position limit.
func (s *Segment) readIndexes(limit int64) (index, error) {
	offsets, err := s.readIndex(IndexSuffix)
	if err != nil {
		return index{}, err
	}
	times, err := s.readIndex(TimeIndexSuffix)
	if err != nil {
		return index{}, err
	}
	x := index{loaded: true, offsets: parseOffsets(offsets, limit), times: parseTimes(times)}
	x.flushedOffsets, x.flushedTimes = len(x.offsets), len(x.times)
	x.rewritten = len(offsets) != offsetEntrySize*len(x.offsets) || len(times) != timeEntrySize*len(x.times)
	return x, nil
}

func (s *Segment) readIndex(suffix string) (p []byte, err error) {
	f, size, err := s.openIndex(suffix)
	if f == nil || err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	p = make([]byte, min(size, max(int64(s.cfg.IndexBytes), 64<<20)))
	n, err := f.ReadAt(p, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("read index: %w", err)
	}
	return p[:n], nil
}

// openIndex opens an index file for reading; nil if there is none, or it may be another segment's.
func (s *Segment) openIndex(suffix string) (vfs.File, int64, error) {
	f, err := s.cfg.FS.OpenFile(s.name(suffix), os.O_RDONLY, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, 0, nil
	}
	if err != nil {
		return nil, 0, fmt.Errorf("read index: %w", err)
	}
	if s.removed.Load() { // before its name was given to another, or it would not be set yet
		return nil, 0, f.Close()
	}
	size, err := f.Size()
	if err != nil {
		return nil, 0, errors.Join(fmt.Errorf("read index: %w", err), f.Close())
	}
	return f, size, nil
}

func parseOffsets(p []byte, limit int64) []offsetEntry {
	entries := make([]offsetEntry, 0, min(len(p), 1<<16)/offsetEntrySize)
	last := offsetEntry{-1, 0}
	for ; len(p) >= offsetEntrySize; p = p[offsetEntrySize:] {
		e := parseOffsetEntry(p)
		if e.rel <= last.rel || e.pos <= last.pos || int64(e.pos) >= limit {
			break
		}
		entries = append(entries, e)
		last = e
	}
	return entries
}

func parseTimes(p []byte) []timeEntry {
	entries := make([]timeEntry, 0, min(len(p), 1<<16)/timeEntrySize)
	last := timeEntry{-1, -1}
	for ; len(p) >= timeEntrySize; p = p[timeEntrySize:] {
		e := parseTimeEntry(p)
		if e.ts <= last.ts || e.rel < last.rel || e.rel < 0 {
			break
		}
		entries = append(entries, e)
		last = e
	}
	return entries
}
