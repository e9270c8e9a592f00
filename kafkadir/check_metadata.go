package kafkadir

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/vfs"
)

// metadataCopies are the copies of a cluster's metadata, one of each broker.
type metadataCopies struct {
	there  []int32         // brokers with a directory, by id
	newest *metadata       // nil if there is no whole copy
	bad    map[int32]error // damaged and missing copies
}

// readCopies reads the metadata of a cluster that Strata wrote.
func readCopies(fsys vfs.FS, dir string) (c metadataCopies, err error) {
	c.bad = map[int32]error{}
	entries, err := fsys.ReadDir(dir)
	if err != nil {
		return c, err
	}
	newest := [2]int64{-1, -1}
	foreign := ""
	for _, e := range entries {
		id, is := brokerID(e.Name())
		if !is {
			continue
		}
		path := filepath.Join(dir, e.Name(), metaPropertiesFile)
		text, formatted, err := readText(fsys, path)
		if err != nil {
			return c, err
		}
		c.there = append(c.there, id)
		if formatted && !strings.HasPrefix(text, "#strata ") {
			foreign = path
			continue
		}
		path = filepath.Join(dir, e.Name(), metadataDir)
		m, at, err := readOwnMetadata(fsys, path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			c.bad[id] = damaged(path, "it is missing")
		case errors.Is(err, ErrDamaged):
			c.bad[id] = err
		case err != nil:
			return c, err
		case slices.Compare(at[:], newest[:]) > 0:
			c.newest, newest = m, at
		}
	}
	slices.Sort(c.there)
	if c.newest == nil && len(c.bad) == 0 && foreign != "" {
		return c, fmt.Errorf("%w: Strata did not write %s", ErrForeign, foreign)
	}
	return c, nil
}

// readMetadata reads the newest copy of the cluster's metadata.
func (ck *checking) readMetadata() error {
	copies, err := readCopies(ck.fsys, ck.dir)
	if err != nil {
		return err
	}
	ck.meta, ck.there, ck.badCopies = copies.newest, copies.there, copies.bad
	for _, id := range ck.there {
		if bad := ck.badCopies[id]; bad != nil && ck.meta == nil {
			return fmt.Errorf("%w; no broker has a whole copy of the metadata: put the file back, or restore a backup of the cluster", bad)
		}
	}
	if ck.meta == nil {
		return fmt.Errorf("%w: there are no metadata in %s", ErrForeign, ck.dir)
	}
	ck.report.Brokers = slices.Sorted(maps.Keys(ck.meta.directories))
	for _, id := range ck.report.Brokers {
		if !slices.Contains(ck.there, id) {
			ck.find(Blocker, fmt.Sprintf("broker %d", id), "its directory is not in "+ck.dir+", so export rejects the cluster", bringTo(ck.dir, id))
		}
	}
	return nil
}

// readOwnMetadata reads a metadata log that Strata wrote. at is the leader epoch of its last batch
// and its end. A last batch that is incomplete after a kill does not count.
func readOwnMetadata(fsys vfs.FS, dir string) (m *metadata, at [2]int64, err error) {
	entries, err := fsys.ReadDir(dir)
	if err != nil {
		return nil, at, err
	}
	var segments []string
	for _, e := range entries {
		if _, suffix, ok := baseOf(e.Name()); ok && suffix == ".log" {
			segments = append(segments, e.Name())
		}
	}
	slices.Sort(segments)
	m, at = newMetadata(), [2]int64{-1, 0}
	for i, name := range segments {
		path := filepath.Join(dir, name)
		base, _, _ := baseOf(name)
		e, err := scanLog(fsys, path, base, func(b *record.Batch) error {
			at[0] = int64(b.LeaderEpoch)
			return m.batch(path, b, 0)
		})
		if err == nil && e.why != "" && (i < len(segments)-1 || e.later) {
			err = &DamagedError{Path: path, Pos: e.pos, Reason: e.why}
		}
		if err != nil {
			return nil, at, err
		}
		at[1] = e.next
	}
	return m, at, nil
}
