package recovery

import (
	"fmt"
	"slices"
	"strings"

	"github.com/stratalog/strata/log/internal/manifest"
)

// Suffixes of the files of a segment. The data is last: once it has its name, the others have
// theirs.
const (
	logSuffix      = ".log"
	snapshotSuffix = ".snapshot"
)

var segmentSuffixes = []string{".index", ".timeindex", ".txnindex", logSuffix}

// Suffixes that are added to file names. All except the last are Kafka's.
const (
	CleanedSuffix = ".cleaned" // being written by compaction; not part of the log until the manifest names it
	SwapSuffix    = ".swap"    // complete, and about to replace its sources
	DeletedSuffix = ".deleted" // removed, and waiting to be deleted
	AsideSuffix   = ".aside"   // no longer part of the log, and kept
)

func logName(base int64) string { return fileName(base, logSuffix) }

func fileName(base int64, suffix string) string { return fmt.Sprintf("%020d%s", base, suffix) }

// An inventory lists the files of the directory that are named like a segment's files.
type inventory struct {
	names    map[string]int64 // all of them, with sizes in bytes
	bases    []int64          // of .log files, ascending
	logs     map[int64]int64  // their sizes
	cleaned  []int64          // bases of .cleaned files, ascending
	swapped  []int64          // bases of .swap files, ascending
	obsolete []string         // .deleted files
}

func takeStock(files []File) inventory {
	v := inventory{names: map[string]int64{}, logs: map[int64]int64{}}
	for _, f := range files {
		base, rest, ok := splitName(f.Name)
		if !ok {
			continue // not a segment's file
		}
		v.names[f.Name] = f.Size
		switch {
		case rest == logSuffix:
			v.bases = append(v.bases, base)
			v.logs[base] = f.Size
		case strings.HasSuffix(rest, DeletedSuffix):
			v.obsolete = append(v.obsolete, f.Name)
		case strings.HasSuffix(rest, CleanedSuffix):
			v.cleaned = append(v.cleaned, base)
		case strings.HasSuffix(rest, SwapSuffix):
			v.swapped = append(v.swapped, base)
		}
	}
	slices.Sort(v.bases)
	v.cleaned, v.swapped = sortedOnce(v.cleaned), sortedOnce(v.swapped)
	slices.Sort(v.obsolete)
	return v
}

func sortedOnce(bases []int64) []int64 {
	slices.Sort(bases)
	return slices.Compact(bases)
}

// splitName splits the name of a segment's file into the base, 20 digits, and the rest.
func splitName(name string) (base int64, rest string, ok bool) {
	if len(name) < 20 {
		return 0, "", false
	}
	for _, c := range []byte(name[:20]) {
		if c < '0' || c > '9' {
			return 0, "", false
		}
		digit := int64(c - '0')
		if base > (1<<63-1-digit)/10 {
			return 0, "", false
		}
		base = base*10 + digit
	}
	return base, name[20:], true
}

func (v *inventory) has(name string) bool {
	_, ok := v.names[name]
	return ok
}

// suffixOf returns the suffix behind the name of the file with s's data; "" if the file has its
// final name or does not exist.
func (v *inventory) suffixOf(s manifest.Segment) string {
	if s.Role != manifest.Installing {
		return ""
	}
	for _, suffix := range []string{CleanedSuffix, SwapSuffix} {
		if size, ok := v.names[logName(s.Base)+suffix]; ok && size == s.Size {
			return suffix
		}
	}
	return ""
}

// sizeOf returns the size of the file with s's data.
func (v *inventory) sizeOf(s manifest.Segment) (size int64, found bool) {
	size, found = v.names[logName(s.Base)+v.suffixOf(s)]
	return size, found
}

// IsSegmentFile reports whether name is a segment's file, with any suffix: 20 digits and a suffix.
func IsSegmentFile(name string) bool {
	_, rest, ok := splitName(name)
	return ok && strings.HasPrefix(rest, ".")
}

// HoldsBatches reports whether name is a segment's data file, whose size a Plan needs.
func HoldsBatches(name string) bool {
	_, rest, ok := splitName(name)
	return ok && (rest == logSuffix || rest == logSuffix+CleanedSuffix || rest == logSuffix+SwapSuffix)
}

// LogBase returns the base of a .log file.
func LogBase(name string) (base int64, ok bool) {
	base, rest, ok := splitName(name)
	return base, ok && rest == logSuffix
}

// SwapBase returns the base of a .log.swap file.
func SwapBase(name string) (base int64, ok bool) {
	base, rest, ok := splitName(name)
	return base, ok && rest == logSuffix+SwapSuffix
}
