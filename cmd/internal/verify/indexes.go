package verify

import (
	"io"

	"github.com/stratalog/strata/cmd/internal/kafkafile"
	"github.com/stratalog/strata/record"
)

// offsetIndex has the entries of an offset index.
type offsetIndex struct {
	path    string
	entries []kafkafile.IndexEntry
	done    int // number of entries checked
}

// timeIndex has the entries of a time index.
type timeIndex struct {
	path    string
	entries []kafkafile.TimeEntry
	done    int // number of entries checked
}

// maxIndex bounds the index files that are read. Kafka allows 2 GiB; segments of at most 2 GiB do
// not have indexes above 256 MiB.
const maxIndex = 256 << 20

func (s *seg) readIndexes() {
	s.readIndex(".index", "an index", func(r io.ReaderAt, size int64, path string) error {
		s.offsets.path = path
		return kafkafile.ReadIndex(r, size, func(pos int64, e kafkafile.IndexEntry) error {
			last := kafkafile.IndexEntry{RelativeOffset: -1}
			if n := len(s.offsets.entries); n > 0 {
				last = s.offsets.entries[n-1]
			}
			if e.RelativeOffset <= last.RelativeOffset || e.Position <= last.Position {
				return orderError("offset", pos)
			}
			s.offsets.entries = append(s.offsets.entries, e)
			return nil
		})
	})
	s.readIndex(".timeindex", "a time index", func(r io.ReaderAt, size int64, path string) error {
		s.times.path = path
		return kafkafile.ReadTimeIndex(r, size, func(pos int64, e kafkafile.TimeEntry) error {
			last := kafkafile.TimeEntry{Timestamp: -1, RelativeOffset: -1}
			if n := len(s.times.entries); n > 0 {
				last = s.times.entries[n-1]
			}
			if e.RelativeOffset <= last.RelativeOffset || e.Timestamp <= last.Timestamp {
				return orderError("time", pos)
			}
			s.times.entries = append(s.times.entries, e)
			return nil
		})
	})
	if name := s.segmentFile(s.base, ".txnindex"); s.files[name] || s.left[name] {
		s.readIndex(".txnindex", "", s.readAborts)
	}
}

func (s *seg) readIndex(suffix, missing string, read func(r io.ReaderAt, size int64, path string) error) {
	name := s.segmentFile(s.base, suffix)
	path := s.path(name)
	if !s.files[name] && !s.left[name] {
		s.note(s.name, "%s is missing; the next open builds it", missing)
		return
	}
	f, size := s.open(path)
	if f == nil {
		return
	}
	defer s.closing(path, f)
	if size > maxIndex {
		s.damage(path, -1, "%d bytes are too much for an index", size)
		return
	}
	if err := read(f, size, path); err != nil {
		s.damage(path, posOf(err), "%v", err)
	}
}

// An entryError is about one entry of an index. Later entries are not read.
type entryError struct {
	pos  int64
	text string
}

func (e *entryError) Error() string { return e.text }

func orderError(kind string, pos int64) error {
	return &entryError{pos, kind + " index entries do not grow"}
}

func posOf(err error) int64 {
	if e, ok := err.(*entryError); ok {
		return e.pos
	}
	return -1
}

// batch checks the entry of the batch at pos, and reports earlier entries that no batch matches.
func (x *offsetIndex) batch(s *seg, pos int64, b *record.Batch) {
	for ; x.done < len(x.entries) && int64(x.entries[x.done].Position) <= pos; x.done++ {
		e := x.entries[x.done]
		switch offset := s.base + int64(e.RelativeOffset); {
		case int64(e.Position) < pos && !s.inDamage(int64(e.Position)):
			s.damage(x.path, int64(x.done)*8, "offset %d at byte %d, where no batch begins", offset, e.Position)
		case int64(e.Position) == pos && offset != b.LastOffset():
			s.damage(x.path, int64(x.done)*8, "offset %d at byte %d, where the batch ends with %d", offset, e.Position, b.LastOffset())
		}
	}
}

// batch checks the entry with b's last offset, and reports earlier entries that no batch matches.
func (x *timeIndex) batch(s *seg, b *record.Batch) {
	for ; x.done < len(x.entries) && s.base+int64(x.entries[x.done].RelativeOffset) <= b.LastOffset(); x.done++ {
		e := x.entries[x.done]
		switch offset := s.base + int64(e.RelativeOffset); {
		case offset < b.LastOffset():
			if len(s.damages) == 0 {
				s.damage(x.path, int64(x.done)*12, "offset %d, with which no batch ends", offset)
			}
		case e.Timestamp != b.MaxTimestamp:
			s.damage(x.path, int64(x.done)*12, "timestamp %d at offset %d, where the batch has %d", e.Timestamp, offset, b.MaxTimestamp)
		case e.Timestamp <= s.maxTime:
			s.damage(x.path, int64(x.done)*12, "timestamp %d at offset %d, although there was %d before", e.Timestamp, offset, s.maxTime)
		}
	}
}

// indexesDone reports the index entries that are left after the segment's last batch.
func (s *seg) indexesDone() {
	if x := &s.offsets; x.done < len(x.entries) {
		if e := x.entries[x.done]; !s.inDamage(int64(e.Position)) {
			s.ahead(x.path, "an entry for byte %d, behind the last batch", e.Position)
		}
	}
	if x := &s.times; x.done < len(x.entries) && len(s.damages) == 0 {
		s.ahead(x.path, "an entry for offset %d, behind the last batch", s.base+int64(x.entries[x.done].RelativeOffset))
	}
	s.abortsDone()
}
