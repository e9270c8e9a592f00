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

	"github.com/stratalog/strata/topic"
	"github.com/stratalog/strata/vfs"
)

// A BrokerSpec describes where a broker keeps its data.
type BrokerSpec struct {
	// Dir is the broker's directory; empty means broker-<id> in Config.Dir. If each broker has its
	// own disk, a broken disk affects only one broker.
	Dir string

	// FS is the file system of Dir; nil means Config.FS.
	FS vfs.FS

	// Rack names the failure domain of the broker. Leaders are spread over racks first. Kafka:
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

// locations returns the locations of the brokers in this configuration, by id.
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

// location returns the location of a broker with this spec. It accesses the disk.
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

// apartFrom rejects two brokers in one directory, or one inside the other's: a broker sets unknown
// files in its directory aside.
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

// realPath returns the real path of a directory that may not exist: the real path of the existing
// part, and the rest. If the disk fails it returns path itself.
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

// brokerIDs returns 1 to Brokers, or without a number the ids of existing brokers.
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
		if !ok || err != nil || id <= 0 || text != strconv.FormatInt(id, 10) {
			continue
		}
		ok, err = isDirectory(fsys, dir, e)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("open cluster in %s: %w", dir, err)
		}
		if ok || err != nil { // a link that leads nowhere: the broker is down
			ids = append(ids, int32(id))
		}
	}
	slices.Sort(ids)
	return ids, nil
}

// A claim is a directory that was found to be its broker's, or new, or that cannot be used.
type claim struct {
	location
	meta   *metaProperties // nil: the directory is new
	failed error           // set: its disk fails or its identity is damaged; nothing is known of it

	aboveSynced bool // the entry of the directory around it is on stable storage; see prepareRoot
}

// CopyFile is the file in a directory by which package mirror recognises a copy of topics of another
// cluster. No cluster is opened in it before its promotion is complete.
const CopyFile = "strata.copy"

// isCopy returns an error if the directory is a copy.
func (c *Config) isCopy() error {
	if _, err := c.FS.Stat(filepath.Join(c.Dir, CopyFile)); err != nil {
		return nil // another error is met later
	}
	if _, err := c.FS.Stat(filepath.Join(c.Dir, dirPrefix+"1", topic.MetadataTopic+"-0")); err == nil {
		return nil // the promotion is complete, except for this file
	}
	return &DirectoryError{Dir: c.Dir, Reason: ErrForeign, Err: errors.New("it is a copy of topics of another cluster"),
		Advice: "strata promote makes a cluster of it; or choose an empty directory"}
}

// checkLocations checks all directories before anything is written to one of them: each can be its
// broker's, and all are of one cluster, whose id it returns, "" for a new one. A failing disk or a
// damaged identity is noted in its claim. It is an error if no other directory has the cluster's
// id: then this one may have it.
//
// The first broker's directory is checked last. A founding creates that identity first, so an open
// that finds the identity of another broker finds this one too, and locks it first: of concurrent
// opens the first to do so gets the cluster.
func (c *Config) checkLocations(all []location) (claims []claim, clusterID string, err error) {
	if _, err := c.FS.Stat(filepath.Join(c.Dir, metaPropertiesFile)); err == nil {
		return nil, "", &DirectoryError{Dir: c.Dir, Reason: ErrForeign, Err: errors.New("it is a broker's own directory, not a cluster's"),
			Advice: "open the directory around it, or choose an empty directory"}
	}
	if err := c.isCopy(); err != nil {
		return nil, "", err
	}
	first := "" // directory that has an identity
	var failed []error
	claims = make([]claim, len(all))
	for i, l := range slices.Backward(all) {
		meta, err := checkDirectory(l.fs, l.root, l.id)
		claims[i] = claim{location: l, meta: meta, failed: err}
	}
	for _, cl := range claims {
		if errors.As(cl.failed, new(*DirectoryError)) && !errors.Is(cl.failed, ErrDamaged) {
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
		return claims, "", errors.Join(append(failed, c.checkNewDir(all))...)
	}
	return claims, clusterID, nil
}

// checkNewDir refuses to found a cluster among the files of another program. Config.Dir may have
// the brokers' directories, hidden files, files of this program, and an empty lost+found,
// which a new file system has.
func (c *Config) checkNewDir(all []location) error {
	roots := map[string]bool{} // names in c.Dir
	for _, l := range all {
		if filepath.Dir(l.root) == filepath.Clean(c.Dir) {
			roots[filepath.Base(l.root)] = true
		}
	}
	if len(roots) == 0 {
		return nil
	}
	entries, err := vfs.ReadContent(c.FS, c.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("open cluster in %s: %w", c.Dir, err)
	}
	for _, e := range entries {
		name := e.Name()
		if !roots[name] && !strings.HasPrefix(name, dirPrefix) && !strings.HasPrefix(name, ".") && !strings.HasPrefix(name, "strata.") {
			return directoryError(c.Dir, ErrForeign, fmt.Errorf("there is %s, and no broker's directory", name))
		}
	}
	return nil
}

// errOvertaken is returned if other processes have changed the identities of directories since this
// open has checked them. The open has written nothing that counts, releases its locks, and checks
// again.
var errOvertaken = errors.New("replication: others open the cluster, too, and have made directories of it")

// stillHas reports whether the identity of the directory has not changed.
func (cl claim) stillHas(meta *metaProperties) bool {
	if cl.meta == nil || meta == nil {
		return cl.meta == meta
	}
	return *cl.meta == *meta
}

// wasOvertaken checks again, now that all directories with an identity are locked, and reports
// whether there are others than before. From here on no other process adds one: it would have to
// lock the existing ones first.
//
// A failing disk is no difference. For a new cluster no second check is needed: under the lock of
// its first broker that broker has no identity, and each founding creates it first (identify).
func (c *Config) wasOvertaken(claims []claim) bool {
	all, err := c.locations()
	if err != nil {
		return false
	}
	now, _, err := c.checkLocations(all)
	if err != nil {
		return errors.As(err, new(*DirectoryError)) // the first check returns it
	}
	return !slices.EqualFunc(claims, now, func(was, is claim) bool {
		return was.id == is.id && (was.failed != nil || is.failed != nil || was.stillHas(is.meta))
	})
}
