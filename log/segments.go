package log

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stratalog/strata/internal/segment"
)

// segments has the content of a log: the files and the range of offsets in them. A writer changes
// it; reading takes no lock.
type segments struct {
	// current is the list, ascending, at least one; the last one is active. A list is replaced,
	// never changed. A list without a segment that the last one had is stored only after start has
	// passed it, one with a further segment with durability.mu held: see durability.dirty.
	current atomic.Pointer[[]*segment.Segment]
	start   atomic.Int64 // first offset held
	end     atomic.Int64 // next offset; everything below is in the files

	highWatermark atomic.Int64 // retention stays below; -1: no bound. Stored by any goroutine, see SetHighWatermark
	rolls         atomic.Int64 // counts

	created atomic.Int64 // when the active segment was made, ms; stored by a writer
	jitter  atomic.Int64 // ms, of the active segment; stored by a writer

	mu       sync.Mutex // guards expiring
	expiring []expiring // files of removed segments
}

func (l *Log) list() []*segment.Segment { return *l.segments.current.Load() }

func (l *Log) active() *segment.Segment {
	list := l.list()
	return list[len(list)-1]
}

// replaceSegments publishes a new list: old, which are neighbours, become new.
func (w *writer) replaceSegments(old []*segment.Segment, now ...*segment.Segment) {
	l := w.log
	list := slices.Clone(l.list())
	i := slices.Index(list, old[0])
	list = slices.Replace(list, i, i+len(old), now...)
	l.segments.current.Store(&list)
}

// keepReadable is for segments that are taken away before there is a list without them: until
// release, which comes after the new list or after the log is broken, readers find them as they
// were, and wait for no disk.
func (l *Log) keepReadable(going []*segment.Segment) (release func()) {
	going = slices.DeleteFunc(slices.Clone(going), func(s *segment.Segment) bool { return !s.Acquire() })
	return func() {
		for _, s := range going {
			if err := s.Release(); err != nil {
				l.cfg.Load().Logger.Warn("file of a removed segment stays until the next open", "path", s.Path(), "err", err)
			}
		}
	}
}

// Size returns the size in bytes of all batches in the log. Unlike Segments it accesses no file.
func (l *Log) Size() (bytes int64) {
	for _, s := range l.list() {
		bytes += s.Size()
	}
	return bytes
}

// SegmentInfo describes a segment.
type SegmentInfo struct {
	BaseOffset   int64
	NextOffset   int64
	Size         int64     // bytes of its batches
	MaxTimestamp time.Time // zero if the segment has none, or it cannot be read
	Active       bool
}

// Segments lists the segments, oldest first; the last one is active.
func (l *Log) Segments() []SegmentInfo {
	list := l.list()
	infos := make([]SegmentInfo, len(list))
	for i, s := range list {
		infos[i] = infoOf(s)
		if l.vouch(s.Base(), nil) != nil { // the data may have been read after a truncation
			infos[i].MaxTimestamp = time.Time{}
		}
		infos[i].Active = i == len(list)-1
	}
	return infos
}

func infoOf(s *segment.Segment) SegmentInfo {
	info := SegmentInfo{BaseOffset: s.Base(), NextOffset: s.NextOffset(), Size: s.Size()}
	if ts, _, err := s.MaxTimestamp(); err == nil && ts >= 0 {
		info.MaxTimestamp = time.UnixMilli(ts)
	}
	return info
}
