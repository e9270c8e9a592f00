package verify

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/stratalog/strata/cmd/internal/kafkafile"
	"github.com/stratalog/strata/topic"
	"github.com/stratalog/strata/vfs"
)

// A Severity is the severity of a finding.
type Severity string

// The severities.
const (
	Damage Severity = "damage"
	Note   Severity = "note"
)

// A Finding is something about one file or directory.
type Finding struct {
	Severity Severity
	Path     string
	Pos      int64 // byte in the file; -1: the file as a whole
	Text     string
}

// Counts are the numbers of things that were checked.
type Counts struct {
	Partitions int   `json:"partitions"`
	Segments   int   `json:"segments"`
	Files      int   `json:"files"`
	Batches    int64 `json:"batches"`
	Records    int64 `json:"records"`
	Bytes      int64 `json:"bytes"` // of segments
	Damages    int   `json:"damages"`
	Notes      int   `json:"notes"`
}

// Options are the options of Dir. FS and Found must be set.
type Options struct {
	FS    vfs.FS
	Found func(Finding)                   // called for each finding, at most findingsPerFile of a file
	Step  func(done Counts, where string) // called often; may be nil

	// Plan returns the changes that opening the log in dir would make. It changes nothing; may be
	// nil.
	Plan func(dir string) Plan

	Copy bool // the directories are of a copy: no broker has started in them yet
}

// A Plan has the changes that an open would make to the files of a log.
type Plan struct {
	Steps   []string
	Refused *Finding // the damage for which the open would fail; nil if there is none
}

// findingsPerFile bounds the findings reported of one file; the rest are counted.
const findingsPerFile = 10

// ErrNoLogs reports that a directory has no logs to check.
var ErrNoLogs = errors.New("no partition, no broker's directory and no directory of brokers")

// Dir checks the directory of a partition or of a broker, or all brokers' directories in dir
// (broker-1, broker-2, ...). It returns ErrNoLogs, ctx's error, or a read error that leaves nothing
// to check. Faults of files are findings. It needs memory for the indexes of one segment and for
// its largest batch.
func Dir(ctx context.Context, dir string, o Options) (Counts, error) {
	v := &verifier{ctx: ctx, o: o, fs: vfs.ReadOnly(o.FS), perFile: map[string]int{}}
	names, err := v.list(dir)
	if err != nil {
		return v.n, err
	}
	switch {
	case isPartition(names):
		_, err = v.partition(dir, v.factsFromParent(dir))
	case isBroker(names):
		err = v.broker(dir, names)
	default:
		brokers := 0
		for _, name := range names {
			sub := filepath.Join(dir, name)
			if inner, err := v.list(sub); strings.HasPrefix(name, "broker-") && err == nil && (isBroker(inner) || hasMetadata(inner)) {
				brokers++
				if err := v.broker(sub, inner); err != nil {
					return v.n, err
				}
			}
		}
		if brokers == 0 {
			return v.n, fmt.Errorf("%s: %w", dir, ErrNoLogs)
		}
	}
	v.flushSuppressed()
	return v.n, err
}

func isPartition(names []string) bool {
	for _, name := range names {
		kind, _ := kafkafile.KindOf(name)
		if _, ok := kafkafile.BaseOffset(name); ok && kind == kafkafile.Log || kind == kafkafile.PartitionMetadata || kind == kafkafile.State {
			return true
		}
	}
	return false
}

func isBroker(names []string) bool {
	for _, name := range names {
		switch kind, _ := kafkafile.KindOf(name); kind {
		case kafkafile.MetaProperties, kafkafile.OffsetCheckpoint, kafkafile.CleanShutdown:
			return true
		}
	}
	return false
}

// hasMetadata reports whether a directory has the controller's log: a broker's directory may have
// lost its other files.
func hasMetadata(names []string) bool { return slices.Contains(names, topic.MetadataTopic+"-0") }

type verifier struct {
	ctx     context.Context // of the one call of Dir
	o       Options
	fs      vfs.FS
	n       Counts
	perFile map[string]int
	plan    Plan // for the partition that is being checked
}

func (v *verifier) list(dir string) ([]string, error) {
	entries, err := v.fs.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	names := make([]string, 0, len(entries))
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names, nil
}

func (v *verifier) add(f Finding) {
	if f.Severity == Damage {
		v.n.Damages++
	} else {
		v.n.Notes++
	}
	v.perFile[f.Path]++
	if v.perFile[f.Path] <= findingsPerFile {
		v.o.Found(f)
	}
}

func (v *verifier) damage(path string, pos int64, format string, args ...any) {
	v.add(Finding{Damage, path, pos, fmt.Sprintf(format, args...)})
}

func (v *verifier) note(path string, format string, args ...any) {
	v.add(Finding{Note, path, -1, fmt.Sprintf(format, args...)})
}

func (v *verifier) flushSuppressed() {
	for path, n := range v.perFile {
		if n > findingsPerFile {
			v.o.Found(Finding{Note, path, -1, fmt.Sprintf("%d findings more, not shown", n-findingsPerFile)})
		}
	}
}

// step reports progress. Its error ends the check: ctx is cancelled.
func (v *verifier) step(where string) error {
	if v.o.Step != nil {
		v.o.Step(v.n, where)
	}
	return v.ctx.Err()
}

// maxSmall bounds the files that are read whole.
const maxSmall = 64 << 20

// small returns the content of a small file; nil after a finding.
func (v *verifier) small(path string) []byte {
	f, size := v.open(path)
	if f == nil {
		return nil
	}
	defer v.closing(path, f)
	if size > maxSmall {
		v.damage(path, -1, "%d bytes are too much for such a file", size)
		return nil
	}
	p := make([]byte, size)
	if n, err := f.ReadAt(p, 0); err != nil && !(errors.Is(err, io.EOF) && int64(n) == size) {
		v.damage(path, -1, "cannot be read: %v", err)
		return nil
	}
	return p
}

// open opens a file that should exist, and returns its size; nil after a finding.
func (v *verifier) open(path string) (vfs.File, int64) {
	f, err := v.fs.OpenFile(path, os.O_RDONLY, 0)
	if err != nil {
		v.damage(path, -1, "cannot be opened: %v", err)
		return nil, 0
	}
	size, err := f.Size()
	if err != nil {
		v.damage(path, -1, "cannot be read: %v", err)
		v.closing(path, f)
		return nil, 0
	}
	v.n.Files++
	return f, size
}

func (v *verifier) closing(path string, f vfs.File) {
	if err := f.Close(); err != nil {
		v.damage(path, -1, "closing it: %v", err)
	}
}
