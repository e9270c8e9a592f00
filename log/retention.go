package log

import (
	"fmt"
	"time"

	"github.com/stratalog/strata/internal/segment"
	"github.com/stratalog/strata/vfs"
)

// retention decides which segments at the front of a log go. It only computes. Kafka:
// UnifiedLog.deleteOldSegments.
type retention struct {
	now           int64 // ms
	start         int64 // records below were deleted by DeleteRecords
	highWatermark int64 // segments with records at or above it are kept
	maxBytes      int64 // negative: no limit
	maxAge        int64 // ms; negative: no limit
}

// segmentFacts are the properties of a segment that retention depends on.
type segmentFacts struct {
	base, next       int64 // next: base of the following segment, log end for the last
	size             int64
	largestTimestamp int64 // ms; time of the last modification if the records have none
	unknown          error // why largestTimestamp is not known; such a segment is kept
}

// A SegmentVerdict is the decision of Clean on a segment, with its reason.
type SegmentVerdict struct {
	Removed    bool
	BaseOffset int64
	NextOffset int64 // of the following segment
	Size       int64 // bytes
	Reason     string
}

// decide returns for each of segs, the active one last, why it is removed or kept. gone is the
// number of removed segments, always the first ones.
func (r retention) decide(segs []segmentFacts) (verdicts []SegmentVerdict, gone int) {
	var total int64
	for _, s := range segs {
		total += s.size
	}
	for i, s := range segs {
		v := SegmentVerdict{BaseOffset: s.base, NextOffset: s.next, Size: s.size, Reason: "an older segment stays"}
		if gone == i {
			v.Removed, v.Reason = r.verdictOn(s, i == len(segs)-1, total)
		}
		if v.Removed {
			gone++
			total -= s.size
		}
		verdicts = append(verdicts, v)
	}
	return verdicts, gone
}

// verdictOn reports whether s is removed, if all older segments are, and the reason. total is the
// size of s and everything after it.
func (r retention) verdictOn(s segmentFacts, last bool, total int64) (goes bool, reason string) {
	goes, reason = r.outOfLimits(s, last, total)
	switch {
	case !goes:
		return false, reason
	case s.next > r.highWatermark:
		return false, fmt.Sprintf("it reaches above the high watermark %d", r.highWatermark)
	case last && s.size == 0:
		return false, "it is the active segment, and empty"
	}
	return true, reason
}

// outOfLimits reports whether the settings do not keep s, and the reason.
func (r retention) outOfLimits(s segmentFacts, last bool, total int64) (goes bool, reason string) {
	age, left := r.now-s.largestTimestamp, total-s.size
	switch {
	case !last && s.next <= r.start:
		return true, fmt.Sprintf("all its records are below the log's start offset %d", r.start)
	case r.maxBytes >= 0 && left >= r.maxBytes:
		return true, fmt.Sprintf("%d bytes are left without it, %d are to be kept", left, r.maxBytes)
	case r.maxAge >= 0 && s.unknown != nil:
		return false, fmt.Sprintf("its newest timestamp is not known: %v", s.unknown)
	case r.maxAge >= 0 && age > r.maxAge:
		return true, fmt.Sprintf("its newest record is %v old, %v are to be kept", time.Duration(age)*time.Millisecond, time.Duration(r.maxAge)*time.Millisecond)
	}
	if r.maxAge >= 0 && age < 0 {
		return false, fmt.Sprintf("its newest record has a timestamp in the future, %s: it is kept until %v later, or until a size limit removes it",
			time.UnixMilli(s.largestTimestamp).UTC().Format(time.RFC3339), time.Duration(r.maxAge)*time.Millisecond)
	}
	return false, "within the limits"
}

// largestTimestamp returns the newest timestamp of s in ms, or the time of the last write to its
// file if the records have none. After an error it is unknown: the largest of the readable ones may
// be much too old.
func largestTimestamp(fsys vfs.FS, s *segment.Segment) (int64, error) {
	if ts, _, err := s.MaxTimestamp(); err != nil || ts >= 0 {
		return ts, err
	}
	info, err := fsys.Stat(s.Path())
	if err != nil {
		return 0, err
	}
	return info.ModTime().UnixMilli(), nil
}
