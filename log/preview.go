package log

import (
	"fmt"

	"github.com/stratalog/strata/internal/segment"
)

// Preview returns the report that Clean would return now, as far as it is known before records are
// read, and changes nothing. A log that is not appended to, with the same settings and high
// watermark, is cleaned so.
//
// The report on compaction has FirstDirty, FirstUncleanable and DirtyRatio, and in Skipped the
// reason why nothing would be done. End is FirstDirty, and the counts are 0. A full disk, and
// changes to the log while Clean works, can change the result.
//
// Preview reads indexes, and waits neither for appends nor for Clean. It returns ErrReadOnly,
// ErrClosed, the error of a broken log, or errors of the file system.
func (l *Log) Preview() (rep CleanReport, err error) {
	if l.readOnly {
		return rep, ErrReadOnly
	}
	for {
		if l.closing.Load() {
			return rep, ErrClosed
		}
		if err := l.durability.failed(); err != nil {
			return rep, err
		}
		list := l.segments.current.Load()
		release := l.keepReadable(*list)
		rep, err = l.preview(l.cfg.Load(), *list)
		release()
		if l.segments.current.Load() == list {
			break
		}
		// A segment was rolled, removed or compacted meanwhile: the report may mix two lists.
	}
	if err != nil {
		return CleanReport{}, fmt.Errorf("preview of clean %s: %w", l.path, l.orClosed(err))
	}
	return rep, nil
}

// preview follows the steps of Clean: roll an active segment that is overdue, apply retention, and
// begin a compaction of the rest.
func (l *Log) preview(cfg *Config, list []*segment.Segment) (rep CleanReport, err error) {
	rollAt := int64(-1) // where a new active segment begins; -1: the present one stays
	end := l.segments.end.Load()
	facts := l.retentionFacts(cfg, list)
	overdue, err := l.overdue(cfg, list[len(list)-1])
	if err != nil {
		return rep, err
	}
	if overdue {
		rollAt = end
		facts = append(facts, segmentFacts{base: end, next: end, largestTimestamp: now()})
	}
	var gone int
	rep.Segments, gone = l.retention(cfg).decide(facts)
	rep.StartOffset = l.segments.start.Load()
	switch {
	case gone == len(facts): // all segments are removed: the log continues in a new one
		rollAt = end
		rep.StartOffset = max(rep.StartOffset, end)
	case gone > 0:
		rep.StartOffset = max(rep.StartOffset, facts[gone].base)
	}
	if !cfg.Cleanup.Compacts() {
		return rep, nil
	}
	first, err := readCleanerOffset(cfg.FS, l.path)
	if err != nil {
		return rep, err
	}
	// Clean syncs the log before it compacts, so that all records are on stable storage.
	pass := l.newPass(cfg, compactContext{}, first, end)
	pass.Segments, pass.Start = list[gone:], rep.StartOffset
	c, err := pass.Preview(rollAt)
	rep.Compaction = &c
	return rep, err
}
