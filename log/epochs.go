package log

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/cespare/xxhash/v2"

	"github.com/stratalog/strata/internal/segment"
	"github.com/stratalog/strata/log/internal/manifest"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/vfs"
)

// An EpochCache has the start offset of each leader epoch (Kafka: LeaderEpochFileCache). It is
// stored in leader-epoch-checkpoint, in Kafka's format. The first epoch of a new log is stored only
// in the log's state, until there is another epoch or the log is closed. Only the log's writer
// changes an EpochCache, and a change is on stable storage before readers see it. The EpochCache of
// a read-only log does not change. All methods are safe for concurrent use and take no lock.
type EpochCache struct {
	fs  vfs.FS
	dir string
	end func() int64 // of the log

	entries atomic.Pointer[[]epochEntry] // ascending; replaced by the writer, never changed. nil: none
	unsure  atomic.Bool                  // the file may hold other entries: it could not be written. Set by the writer
	absent  bool                         // there is no file. Of the writer
	doubted bool                         // the file has changed since the log was closed. Of the writer
	inState bool                         // the state holds first, from offset 0 on, instead of a file. Of the writer
	first   int32                        // the only epoch, if inState
}

// epochEntry: both fields grow from entry to entry.
type epochEntry struct {
	epoch int32
	start int64
}

const epochFile = "leader-epoch-checkpoint"

// loadEpochs reads the file, or takes the first epoch from the state if there is no file; found is
// false if there is neither. A file that has changed since the close is doubted, also if it cannot
// be parsed.
func loadEpochs(fsys vfs.FS, dir string, st *manifest.State, end func() int64) (c *EpochCache, found bool, err error) {
	path := filepath.Join(dir, epochFile)
	p, err := vfs.ReadFile(fsys, path)
	if errors.Is(err, fs.ErrNotExist) {
		return epochsInState(fsys, dir, st, end)
	}
	c = &EpochCache{fs: fsys, dir: dir, end: end}
	if err == nil && len(p) == 0 {
		return c, false, nil
	}
	if err != nil {
		return nil, false, fmt.Errorf("read %s: %w", path, err)
	}
	c.doubted = st.Clean && st.EpochsHash != 0 && st.EpochsHash != xxhash.Sum64(p)
	entries, err := parseEpochs(string(p))
	switch {
	case err == nil:
		c.entries.Store(&entries)
	case !c.doubted:
		return nil, false, &CorruptError{Path: path, Reason: err.Error()}
	}
	return c, true, nil
}

// epochsInState is loadEpochs where there is no file.
func epochsInState(fsys vfs.FS, dir string, st *manifest.State, end func() int64) (c *EpochCache, found bool, err error) {
	c = &EpochCache{fs: fsys, dir: dir, end: end, absent: true}
	if st.FirstOnly {
		err = c.begin(st.FirstEpoch, func() error { return nil })
	}
	return c, st.FirstOnly, err
}

// epochsOf finds the leader epochs in the headers of all batches.
func epochsOf(list []*segment.Segment) (entries []epochEntry, err error) {
	latest := int32(-1)
	for _, s := range list {
		if s.Size() == 0 {
			continue
		}
		err := s.Headers(0, func(b *record.Batch, _ int64) bool {
			if b.LeaderEpoch > latest {
				latest = b.LeaderEpoch
				entries = append(entries, epochEntry{latest, b.BaseOffset})
			}
			return true
		})
		if err != nil {
			return nil, err
		}
	}
	return entries, nil
}

// agrees reports whether all batches at start and after it have the epochs of the file. The file
// may have other epochs without batches: a leader that was killed before its first append leaves
// one. Batches before the first epoch of the file were appended without one, and have epoch 0.
func (c *EpochCache) agrees(list []*segment.Segment, start int64) (yes bool, err error) {
	yes = true
	for _, s := range list {
		if !yes || s.Size() == 0 {
			continue
		}
		err := s.Headers(0, func(b *record.Batch, _ int64) bool {
			epoch := c.At(max(b.BaseOffset, start))
			yes = b.NextOffset() <= start || b.LeaderEpoch == epoch || epoch < 0 && b.LeaderEpoch == 0
			return yes
		})
		if err != nil {
			return false, err
		}
	}
	return yes, nil
}

// rebuild replaces the entries of the cache, and of its file unless the log is read-only.
func (c *EpochCache) rebuild(entries []epochEntry, readOnly bool) error {
	if readOnly {
		c.entries.Store(&entries)
		return nil
	}
	return c.become(entries)
}

// parseEpochs reads "0\nCOUNT\nEPOCH START\n..." (Kafka: CheckpointFile).
func parseEpochs(text string) ([]epochEntry, error) {
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	if len(lines) < 2 || lines[0] != "0" {
		return nil, errors.New("not a checkpoint of version 0")
	}
	if n, err := strconv.Atoi(lines[1]); err != nil || n != len(lines)-2 {
		return nil, fmt.Errorf("%d entries where %q are announced", len(lines)-2, lines[1])
	}
	var entries []epochEntry
	for _, line := range lines[2:] {
		a, b, _ := strings.Cut(line, " ")
		epoch, err1 := strconv.ParseInt(a, 10, 32)
		start, err2 := strconv.ParseInt(b, 10, 64)
		e := epochEntry{int32(epoch), start}
		if err1 != nil || err2 != nil || epoch < 0 || start < 0 {
			return nil, fmt.Errorf("bad entry %q", line)
		}
		if n := len(entries); n > 0 && (entries[n-1].epoch >= e.epoch || entries[n-1].start >= e.start) {
			return nil, fmt.Errorf("entry %q does not follow the one before", line)
		}
		entries = append(entries, e)
	}
	return entries, nil
}

// list returns the entries, which must not be changed.
func (c *EpochCache) list() []epochEntry {
	if p := c.entries.Load(); p != nil {
		return *p
	}
	return nil
}

// begin makes epoch the only one, from offset 0 on, once write has made it part of the state.
func (c *EpochCache) begin(epoch int32, write func() error) error {
	c.first, c.inState = epoch, true
	// The file may exist after an error. It has no effect until records have an epoch.
	if err := write(); err != nil {
		c.inState = false
		return err
	}
	c.entries.Store(&[]epochEntry{{epoch, 0}})
	return nil
}

// epochText is the content of the file.
func epochText(entries []epochEntry) []byte {
	b := fmt.Appendf(nil, "0\n%d\n", len(entries))
	for _, e := range entries {
		b = fmt.Appendf(b, "%d %d\n", e.epoch, e.start)
	}
	return b
}

// hash is the hash of the file, 0 if there is none, or if it may have other entries.
func (c *EpochCache) hash() uint64 {
	if entries := c.list(); len(entries) > 0 && !c.inState && !c.unsure.Load() {
		return xxhash.Sum64(epochText(entries))
	}
	return 0
}

// store replaces the file.
func (c *EpochCache) store(entries []epochEntry) error {
	err := vfs.WriteFile(c.fs, filepath.Join(c.dir, epochFile), epochText(entries))
	if errors.Is(err, vfs.ErrReadOnly) {
		return ErrReadOnly
	}
	c.absent = false // also after an error, which leaves open whether the file is there
	if err == nil {
		c.inState = false
	}
	c.unsure.Store(err != nil)
	return err
}

// become replaces the entries of the file and then of the cache; if the former fails the cache is
// unchanged.
func (c *EpochCache) become(entries []epochEntry) error {
	if err := c.store(entries); err != nil {
		return err
	}
	c.entries.Store(&entries)
	return nil
}

// storeAgain makes the file hold the entries after it could not be written: batches must not
// contradict it.
func (c *EpochCache) storeAgain() error {
	if !c.unsure.Load() {
		return nil
	}
	return c.store(c.list())
}

// assign records that epoch began at start. An epoch that is known to have begun no later is left
// alone; entries that contradict are removed.
func (c *EpochCache) assign(epoch int32, start int64) error {
	if epoch < 0 {
		return nil
	}
	entries := c.list()
	n := len(entries)
	if n > 0 && entries[n-1].epoch == epoch && start >= entries[n-1].start {
		return nil
	}
	for n > 0 && (entries[n-1].epoch >= epoch || entries[n-1].start >= start) {
		n--
	}
	return c.become(append(entries[:n:n], epochEntry{epoch, start}))
}

// Latest returns the newest epoch; ok is false if there is none.
func (c *EpochCache) Latest() (epoch int32, ok bool) {
	entries := c.list()
	if len(entries) == 0 {
		return -1, false
	}
	return entries[len(entries)-1].epoch, true
}

// At returns the epoch of the record at offset, or -1 if it is unknown.
func (c *EpochCache) At(offset int64) int32 {
	entries := c.list()
	i := sort.Search(len(entries), func(i int) bool { return entries[i].start > offset })
	if i == 0 {
		return -1
	}
	return entries[i-1].epoch
}

// EndOffsetFor returns the largest epoch that is not above epoch, and its end: the start of the
// next epoch, or the log end offset for the newest one. Both are -1 if epoch is above the newest,
// or if no such epoch is known. Kafka: LeaderEpochFileCache.endOffsetFor.
func (c *EpochCache) EndOffsetFor(epoch int32) (int32, int64) {
	logEnd := c.end() // before the entries: an epoch that begins later is not included
	entries := c.list()
	n := len(entries)
	if epoch < 0 || n == 0 || epoch > entries[n-1].epoch {
		return -1, -1
	}
	i := sort.Search(n, func(i int) bool { return entries[i].epoch > epoch })
	switch i {
	case n:
		return entries[n-1].epoch, logEnd
	case 0:
		return epoch, entries[0].start
	default:
		return entries[i-1].epoch, entries[i].start
	}
}

// beginAt reports whether the log has epochs, and all of them began at end or later.
func (c *EpochCache) beginAt(end int64) bool {
	entries := c.list()
	return len(entries) > 0 && entries[0].start >= end
}

// truncateFromEnd removes epochs that began at end or later. If none is left, otherwise is the only
// one, unless its epoch is negative.
func (c *EpochCache) truncateFromEnd(end int64, otherwise epochEntry) error {
	entries := c.list()
	n := len(entries)
	for n > 0 && entries[n-1].start >= end {
		n--
	}
	if n == len(entries) {
		return nil
	}
	left := entries[:n:n]
	if n == 0 && otherwise.epoch >= 0 {
		left = []epochEntry{otherwise}
	}
	return c.become(left)
}

// noEpoch is no epoch.
var noEpoch = epochEntry{epoch: -1}

// truncateFromStart makes the oldest epoch begin at start.
func (c *EpochCache) truncateFromStart(start int64) error {
	entries := c.list()
	i := sort.Search(len(entries), func(i int) bool { return entries[i].start > start })
	if i == 0 || i == 1 && entries[0].start == start {
		return nil
	}
	return c.become(append([]epochEntry{{entries[i-1].epoch, start}}, entries[i:]...))
}
