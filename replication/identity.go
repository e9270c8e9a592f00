package replication

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"

	"github.com/stratalog/strata/replication/internal/byid"
	"github.com/stratalog/strata/replication/internal/image"
	"github.com/stratalog/strata/replication/internal/metalog"
	"github.com/stratalog/strata/topic"
	"github.com/stratalog/strata/vfs"
)

// identify finds out which disk the locked directory of a node
// is, and makes a new one the cluster's.
func (c *Cluster) identify(n *node, cl claim) error {
	meta, err := checkDirectory(cl.fs, cl.root, cl.id) // again: only now no other process can change it
	switch {
	case err != nil:
		return err
	case c.meta == nil && !cl.stillHas(meta):
		return errOvertaken
	case meta == nil:
		if err := removeUnfinished(cl.fs, cl.root); err != nil {
			return err
		}
		origin := metalog.Added
		if c.founders {
			origin = metalog.Founder
		}
		made := newMeta(cl.id, c.clusterID, origin)
		if c.founds {
			n.founding = foundLater(cl, made)
		} else if err := made.store(cl.fs, cl.root, nil); err != nil {
			return err
		}
		meta = &made
	default:
		if err := secureIdentity(cl.fs, cl.root); err != nil {
			return err
		}
	}
	n.origin = meta.origin
	n.directory, err = c.identity(n.location, meta)
	return err
}

// secureIdentity makes the name of meta.properties durable, which a killed process may not have
// done: all later writes rely on it. If the metadata have a state, it is durable already
// (founding).
func secureIdentity(fsys vfs.FS, root string) error {
	_, err := fsys.Stat(filepath.Join(root, topic.MetadataTopic+"-0", "strata.state"))
	if errors.Is(err, fs.ErrNotExist) {
		err = fsys.SyncDir(root)
	}
	if err != nil {
		return fmt.Errorf("open %s: %w", root, err)
	}
	return nil
}

// identity returns the directory.id of a broker's directory. It returns an error if the directory
// is of another cluster, or not the broker's in the metadata.
func (c *Cluster) identity(l location, meta *metaProperties) (id topic.ID, err error) {
	if meta.clusterID != c.clusterID {
		return id, directoryError(l.root, ErrMixed, fmt.Errorf("it is of cluster %s, not %s", meta.clusterID, c.clusterID))
	}
	if id, err = topic.ParseID(meta.directoryID); err != nil {
		return id, directoryError(l.root, ErrDamaged, fmt.Errorf("%s: %w", metaPropertiesFile, err))
	}
	c.mu.RLock()
	defer c.mu.RUnlock()
	if c.image == nil { // the cluster opens, and has read no metadata yet
		return id, nil
	}
	if m, known := c.image.Members[l.id]; known && m.Directory != id {
		return id, otherDirectory(l, id, m)
	}
	return id, nil
}

// meet compares the directories with their brokers in the metadata, and creates the directories of
// new brokers.
func (c *Cluster) meet(claims []claim) error {
	for _, n := range byid.Range(c.nodes) {
		if m, known := c.image.Members[n.id]; known && m.Directory != n.directory {
			return otherDirectory(n.location, n.directory, m)
		}
	}
	for _, cl := range claims {
		_, known := c.image.Members[cl.id]
		switch {
		case c.nodes[cl.id] != nil, c.failures[cl.id] != nil:
		case known:
			c.logger.Error("directory of a broker is missing, its partitions have no leader", slog.Int("broker", int(cl.id)), slog.String("directory", cl.root))
		default:
			if err := c.begin(cl); err != nil {
				return err
			}
		}
	}
	return nil
}

// otherDirectory is the error of a directory that is another one than the member had.
func otherDirectory(l location, id topic.ID, m image.Member) error {
	err := fmt.Errorf("broker %d had directory.id %v, this is %v", l.id, topic.ID(m.Directory), id)
	return &DirectoryError{Dir: l.root, Reason: ErrForeign, Err: err,
		Advice: "put the broker's own directory back; if it is lost, remove this one, and then RemoveLostBroker gives up what it had, and AddBroker begins anew"}
}
