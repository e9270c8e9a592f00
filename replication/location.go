package replication

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/stratalog/strata/vfs"
)

// A BrokerSpec says where a broker keeps its data.
type BrokerSpec struct {
	// Dir is the broker's directory; empty: broker-<id> in Config.Dir. Give each broker a disk of
	// its own, and a broken disk takes one broker with it.
	Dir string

	// FS is the file system that Dir is in; nil: Config.FS.
	FS vfs.FS

	// Rack names what the broker fails together with. Leaders are spread over racks first. Kafka:
	// broker.rack.
	Rack string
}

// location is where a broker's data is.
type location struct {
	id   int32
	root string // the broker's directory
	real string // the same by its real path, as far as it exists
	fs   vfs.FS
	rack string
}

// firstID is the broker that every cluster has at first.
const firstID = 1

// dirPrefix is followed by the id of the broker, in the names of directories in Config.Dir.
const dirPrefix = "broker-"

// locations returns where the brokers are that this configuration asks for, by id.
func (c *Config) locations() ([]location, error) {
	ids, err := c.brokerIDs()
	if err != nil {
		return nil, err
	}
	all := make([]location, len(ids))
	for i, id := range ids {
		l := c.location(id, c.BrokerSpecs[id])
		for _, other := range all[:i] {
			if err := l.apartFrom(other); err != nil {
				return nil, err
			}
		}
		all[i] = l
	}
	return all, nil
}

// location is where a broker is that the spec says this of. It asks the disk.
func (c *Config) location(id int32, spec BrokerSpec) location {
	l := location{id: id, root: spec.Dir, fs: spec.FS, rack: spec.Rack}
	if l.root == "" {
		l.root = filepath.Join(c.Dir, dirPrefix+strconv.Itoa(int(id)))
	}
	if l.fs == nil {
		l.fs = c.FS
	}
	l.real = realPath(l.fs, l.root)
	return l
}

// apartFrom refuses two brokers in one directory, or one inside of the other: what a broker does
// not know in its directory it puts aside.
func (l location) apartFrom(other location) error {
	if other.fs == l.fs && (l.isWithin(other) || other.isWithin(l)) {
		return fmt.Errorf("%w: %d in %s and %d in %s", ErrSharedDirectory, other.id, other.root, l.id, l.root)
	}
	return nil
}

// isWithin reports whether l is the directory of other, or below it.
func (l location) isWithin(other location) bool {
	way, err := filepath.Rel(other.real, l.real)
	return err == nil && filepath.IsLocal(way)
}

// realPath returns the real path of a directory that may not be there yet: that of what is there,
// and the rest. If the disk cannot tell it is the path itself.
func realPath(fsys vfs.FS, path string) string {
	path = filepath.Clean(path)
	rest := ""
	for at := path; ; {
		real, err := fsys.RealPath(at)
		if err == nil {
			return filepath.Join(real, rest)
		}
		up := filepath.Dir(at)
		if !errors.Is(err, fs.ErrNotExist) || up == at {
			return path
		}
		at, rest = up, filepath.Join(filepath.Base(at), rest)
	}
}

// brokerIDs are 1 to Brokers, or without a number those that there is something of.
func (c *Config) brokerIDs() ([]int32, error) {
	ids := map[int32]bool{}
	for id := range int32(c.Brokers) {
		ids[id+1] = true
	}
	if c.Brokers == 0 {
		ids[firstID] = true
		for id := range c.BrokerSpecs {
			ids[id] = true
		}
		found, err := brokersIn(c.FS, c.Dir)
		if err != nil {
			return nil, err
		}
		for _, id := range found {
			ids[id] = true
		}
	}
	return slices.Sorted(maps.Keys(ids)), nil
}

// brokersIn returns the ids of the brokers that have their directory in dir.
func brokersIn(fsys vfs.FS, dir string) ([]int32, error) {
	entries, err := fsys.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("open cluster in %s: %w", dir, err)
	}
	var ids []int32
	for _, e := range entries {
		text, ok := strings.CutPrefix(e.Name(), dirPrefix)
		id, err := strconv.ParseInt(text, 10, 32)
		if ok && err == nil && id > 0 && text == strconv.FormatInt(id, 10) && e.IsDir() {
			ids = append(ids, int32(id))
		}
	}
	slices.Sort(ids)
	return ids, nil
}

// A claim is a directory that was found to be its broker's, or new, or cannot be read.
type claim struct {
	location
	meta   *metaProperties // nil: the directory is new
	failed error           // set: its disk fails, and nothing is known of the directory

	aboveSynced bool // the entry of the directory around it is on stable storage; see prepareRoot
}

// checkLocations looks at all directories before anything is written to one of them: each can be
// its broker's, and all are of one cluster, whose id it returns, "" for a new one. A disk that
// fails is noted in its claim. It is an error if no other disk says which cluster it is: then this
// one may.
//
// The first broker's is looked at last. A founding makes its identity first, so who finds that of
// another broker finds this too, and locks it first: of opens beside each other the first to do so
// has the cluster.
func (c *Config) checkLocations(all []location) (claims []claim, clusterID string, err error) {
	if _, err := c.FS.Stat(filepath.Join(c.Dir, metaPropertiesFile)); err == nil {
		return nil, "", directoryError(c.Dir, ErrForeign, errors.New("it is a broker's own directory, not a cluster's"))
	}
	first := "" // directory that has an identity
	var failed []error
	claims = make([]claim, len(all))
	for i, l := range slices.Backward(all) {
		meta, err := checkDirectory(l.fs, l.root, l.id)
		claims[i] = claim{location: l, meta: meta, failed: err}
	}
	for _, cl := range claims {
		if errors.As(cl.failed, new(*DirectoryError)) {
			return nil, "", cl.failed
		}
		failed = append(failed, cl.failed)
		switch {
		case cl.meta == nil:
		case first == "":
			first, clusterID = cl.root, cl.meta.clusterID
		case cl.meta.clusterID != clusterID:
			return nil, "", directoryError(cl.root, ErrMixed,
				fmt.Errorf("it is of cluster %s, and %s of %s", cl.meta.clusterID, first, clusterID))
		}
	}
	if clusterID == "" {
		return claims, "", errors.Join(failed...)
	}
	return claims, clusterID, nil
}

// errOvertaken says that others have changed whose the directories are since this open has looked
// at them. It has written nothing that counts, lets its locks go, and begins with another look.
var errOvertaken = errors.New("replication: others open the cluster, too, and have made directories of it")

// stillHas reports whether the identity of the directory is the one that was found.
func (cl claim) stillHas(meta *metaProperties) bool {
	if cl.meta == nil || meta == nil {
		return cl.meta == meta
	}
	return *cl.meta == *meta
}

// wasOvertaken looks again, now that all directories with an identity are locked, and reports
// whether there are others than before. From here on there will be none that others make: who makes
// a directory one of the cluster has locked those that are it already.
//
// What a disk fails with is no difference. For a new cluster no second look is due: under the lock
// of its first broker that has no identity, and each founding makes this one first (identify).
func (c *Config) wasOvertaken(claims []claim) bool {
	all, err := c.locations()
	if err != nil {
		return false
	}
	now, _, err := c.checkLocations(all)
	if err != nil {
		return errors.As(err, new(*DirectoryError)) // the first look tells it
	}
	return !slices.EqualFunc(claims, now, func(was, is claim) bool {
		return was.id == is.id && (was.failed != nil || is.failed != nil || was.stillHas(is.meta))
	})
}
