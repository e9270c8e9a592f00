package kafkadir

import (
	"encoding/binary"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/stratalog/strata/vfs"
)

// These signs prove that a file of a log is missing, although all present files are good:
//
//   - an index without its segment: a broker renames or removes the segment first;
//   - an index with entries behind the last batch of its segment;
//   - checkpoints and producer snapshots above the end. A broker that was stopped in order writes
//     its recovery points last, at the ends of its logs. After a kill only the data on stable
//     storage must be there: a power cut may have taken the rest;
//   - a log start below the first segment, of a broker that was stopped in order;
//   - offsets that are missing between segments of a log that was never compacted.

// gapBehind notes that a segment begins at base, and the one before it, at path, ends below.
func (part *partPlan) gapBehind(fsys vfs.FS, path string, base int64) error {
	c := &part.copied
	if c.swaps { // the files of an unfinished compaction count in place of others
		return nil
	}
	if part.from.clean || base <= part.found.point {
		for _, suffix := range []string{".index", ".timeindex"} {
			name := strings.TrimSuffix(path, ".log") + suffix
			last, err := lastIndexed(fsys, name)
			if err != nil {
				return err
			}
			if last >= c.next && last < base {
				return part.lost(filepath.Base(path), "its batches end at offset %d, and its %s knows offset %d", c.next, suffix, last)
			}
		}
	}
	c.gaps = append(c.gaps, [2]int64{c.next, base})
	return nil
}

// lastIndexed returns the offset of the last entry of an index, -1 if there is none. Zeros at the
// end are space that a broker has reserved.
func lastIndexed(fsys vfs.FS, path string) (int64, error) {
	base, suffix, _ := baseOf(path)
	size, at := 8, 0 // of an entry, and where it has the offset, from base on
	if suffix == ".timeindex" {
		size, at = 12, 8
	}
	if _, ok, err := statFile(fsys, path); !ok {
		return -1, err
	}
	p, err := vfs.ReadFile(fsys, path)
	if err != nil {
		return -1, err
	}
	for n := len(p) / size; n > 0; n-- {
		if entry := p[(n-1)*size:][:size]; slices.ContainsFunc(entry, func(b byte) bool { return b != 0 }) {
			return base + int64(binary.BigEndian.Uint32(entry[at:])), nil
		}
	}
	return -1, nil
}

// lost returns an error about a file of the partition in the source.
func (part *partPlan) lost(name, format string, args ...any) error {
	return damaged(filepath.Join(part.found.dir, name), format, args...)
}

// whole returns an error if the present files and the checkpoints prove that files of the partition
// are missing. It notes data that may be missing.
func (part *partPlan) whole(logs []string) error {
	if name := orphan(part.found.files); name != "" {
		return part.lost(segmentOf(name), "it is missing, and %s is there", name)
	}
	if err := part.wholeStart(logs); err != nil {
		return err
	}
	for _, gap := range part.copied.gaps {
		switch next := fmt.Sprintf("%020d.log", gap[1]); {
		case part.compacted: // it leaves gaps
		case !part.copied.holes && part.found.untouched:
			return part.lost(next, "it begins at offset %d, and the segment before it ends at %d: one between them is missing, or the end of that one", gap[1], gap[0])
		default:
			part.doubt(gap[0], gap[1], "they are missing before "+next+", unless the topic was compacted once")
		}
	}
	return part.wholeEnd(logs)
}

// wholeStart holds the first segment against the start of the log, which a broker that is stopped
// in order writes down if the first segment begins before it.
func (part *partPlan) wholeStart(logs []string) error {
	if !part.from.clean || len(logs) == 0 {
		return nil
	}
	first, _, _ := baseOf(logs[0])
	switch start := part.found.start; {
	case start > 0 && start < first && part.from.tiered:
		part.doubt(start, first, "they are in tiered storage, if anywhere")
	case start > 0 && start < first:
		return part.lost(logs[0], "it begins at offset %d, and %s has the log begin at %d: segments before it are missing", first, logStartFile, start)
	case part.found.firstEpoch >= 0 && part.found.firstEpoch < first:
		part.doubt(part.found.firstEpoch, first, epochFile+" knows of them, and the first segment begins behind them")
	}
	return nil
}

// wholeEnd compares the end of the log with the offsets that are known to have been in the log.
func (part *partPlan) wholeEnd(logs []string) error {
	end, last := max(part.copied.next, part.found.start), ""
	if len(logs) > 0 {
		last = logs[len(logs)-1]
	}
	if part.found.point > end {
		return part.lost(last, "the log ends at offset %d, and %s has it whole up to %d: segments are missing, or their ends", end, recoveryPointFile, part.found.point)
	}
	known, by := part.found.high, highWatermarkFile
	for _, e := range part.found.files {
		if base, suffix, ok := baseOf(e.Name()); ok && suffix == ".snapshot" && base > known {
			known, by = base, e.Name()
		}
	}
	switch {
	case known <= end:
	case part.from.clean:
		return part.lost(last, "the log ends at offset %d, and %s knows it up to %d: segments are missing, or their ends", end, by, known)
	default:
		part.doubt(end, known, by+" knows of them; a power cut or a truncation may have taken them")
	}
	return nil
}

// doubt notes offsets that are not there, and that may have been.
func (part *partPlan) doubt(from, to int64, why string) {
	part.copied.doubts = append(part.copied.doubts, Gap{part.tp, from, to, why})
}

// orphan returns the name of an index whose segment is in no state that a broker leaves it in: as
// it is, on its way out, or in a compaction. "": there is none.
func orphan(files []fs.DirEntry) string {
	logs := map[int64]bool{}
	for _, e := range files {
		if base, suffix, ok := baseOf(e.Name()); ok && (suffix == ".log" || strings.HasPrefix(suffix, ".log.")) {
			logs[base] = true
		}
	}
	for _, e := range files {
		base, suffix, ok := baseOf(e.Name())
		if ok && slices.Contains([]string{".index", ".timeindex", ".txnindex"}, suffix) && !logs[base] {
			return e.Name()
		}
	}
	return ""
}

// segmentOf returns the name of the segment that an index is of.
func segmentOf(index string) string {
	return strings.TrimSuffix(index, filepath.Ext(index)) + ".log"
}
