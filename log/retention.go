package log

import (
	"fmt"
	"time"

	"github.com/stratalog/strata/segment"
	"github.com/stratalog/strata/vfs"
)

// retention decides which segments at the front of a log go. It only computes. Kafka:
// UnifiedLog.deleteOldSegments.
type retention struct {
	now           int64 // ms
	start         int64 // records below were deleted by DeleteRecords
	highWatermark int64 // nothing at or above goes
	maxBytes      int64 // negative: no limit
	maxAge        int64 // ms; negative: no limit
}

// segmentFacts is what retention looks at.
type segmentFacts struct {
	base, next       int64 // next: base of the following segment, log end for the last
	size             int64
	largestTimestamp int64 // ms; time of the last modification if the records have none
	unknown          error // why largestTimestamp is not known; such a segment is kept
}

// A SegmentVerdict says what Clean decided about a segment and why.
type SegmentVerdict struct {
	Removed    bool
	BaseOffset int64
	NextOffset int64 // of the following segment
	Size       int64 // bytes
	Reason     string
}

// decide returns for each of segs, the active one last, why it goes or stays, and how many go:
// always the first ones.
func (r retention) decide(segs []segmentFacts) (verdicts []SegmentVerdict, gone int) {
	var total int64
	for _, s := range segs {
		total += s.size
	}
	stays := ""
	for i, s := range segs {
		v := SegmentVerdict{BaseOffset: s.base, NextOffset: s.next, Size: s.size}
		last := i == len(segs)-1
		if stays == "" {
			var goes string
			goes, stays = r.judge(s, last, total)
			if stays == "" {
				v.Removed, v.Reason = true, goes
				gone++
				total -= s.size
				verdicts = append(verdicts, v)
				continue
			}
			v.Reason = stays
			stays = "an older segment stays"
		} else {
			v.Reason = stays
		}
		verdicts = append(verdicts, v)
	}
	return verdicts, gone
}

// judge returns why s goes, or else why it stays. total is the size of s and everything behind it.
func (r retention) judge(s segmentFacts, last bool, total int64) (goes, stays string) {
	age := time.Duration(r.now-s.largestTimestamp) * time.Millisecond
	switch {
	case !last && s.next <= r.start:
		goes = fmt.Sprintf("all its records are below the log's start offset %d", r.start)
	case r.maxBytes >= 0 && total-s.size >= r.maxBytes:
		goes = fmt.Sprintf("%d bytes are left without it, %d are to be kept", total-s.size, r.maxBytes)
	case r.maxAge >= 0 && s.unknown != nil:
		return "", fmt.Sprintf("its newest timestamp is not known: %v", s.unknown)
	case r.maxAge >= 0 && r.now-s.largestTimestamp > r.maxAge:
		goes = fmt.Sprintf("its newest record is %v old, %v are to be kept", age, time.Duration(r.maxAge)*time.Millisecond)
	default:
		return "", "within the limits"
	}
	switch {
	case s.next > r.highWatermark:
		return "", fmt.Sprintf("it reaches above the high watermark %d", r.highWatermark)
	case last && s.size == 0:
		return "", "it is the active segment, and empty"
	}
	return goes, ""
}

// largestTimestamp returns the newest timestamp of s in ms, or the time its file was last written
// if the records have none. An error says that it is not known: the largest of those that could be
// read may be much too old.
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
