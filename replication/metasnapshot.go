package replication

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"path/filepath"
	"strings"

	"github.com/stratalog/strata/internal/metarecord"
	"github.com/stratalog/strata/log"
	"github.com/stratalog/strata/replication/internal/byid"
	"github.com/stratalog/strata/topic"
)

// remains returns the removed topics that may still have a directory: only their removal must be
// remembered. The directories of a broker that does not serve are unknown: as long as there is
// one, all are kept.
func (c *Cluster) remains(removed map[topic.ID]string) (map[topic.ID]string, error) {
	if c.away() {
		return removed, nil
	}
	kept := map[topic.ID]string{}
	for _, n := range byid.Range(c.serving()) {
		if err := n.remains(removed, kept); err != nil {
			return nil, err
		}
	}
	return kept, nil
}

// remains adds to kept the removed topics that have a directory on this broker.
func (n *node) remains(removed, kept map[topic.ID]string) error {
	names := make(map[string]bool, len(removed))
	for _, name := range removed {
		names[name] = true
	}
	entries, err := n.fs.ReadDir(n.root)
	if err != nil {
		return err
	}
	for _, e := range entries {
		tp, ok := parsePartitionDir(e.Name())
		if !ok || !names[tp.Topic] {
			continue
		}
		f, err := readPartitionFile(n.fs, filepath.Join(n.root, e.Name()))
		if err != nil {
			return err
		}
		if name := removed[f.id]; f.named && name != "" {
			kept[f.id] = strings.Clone(name)
		}
	}
	return nil
}

// settleMetadata does the remaining work after a change has been acknowledged: it ends the founding
// of a new cluster, and writes a snapshot of the metadata if one is due.
func (c *Cluster) settleMetadata() {
	if err := c.found(); err != nil {
		c.logger.Error("metadata log is opened again with the next change", slog.Any("err", err))
		return
	}
	if c.meta.IsDue() {
		c.snapshotMetadata()
	}
}

// snapshotMetadata writes a snapshot of the metadata. A failure leaves the log as long as it is, to
// be tried again after the next change.
func (c *Cluster) snapshotMetadata() {
	c.mu.RLock()
	removed := maps.Clone(c.image.Removed)
	c.mu.RUnlock()
	kept, err := c.remains(removed)
	if err == nil {
		c.mu.RLock()
		state := c.image.Snapshot(kept)
		c.mu.RUnlock()
		err = c.installSnapshot(state)
	}
	if err != nil {
		c.logger.Warn("metadata log was not compacted", slog.Any("err", err))
	}
}

// installSnapshot writes state and makes it the image, as a replay would.
func (c *Cluster) installSnapshot(state []metarecord.Record) error {
	version, fenced, err := c.meta.Snapshot(c.image, state)
	switch {
	case version > 0:
		c.restate(state, version)
	case errors.Is(err, log.ErrRecordTooLarge):
		c.meta.Postpone() // not before it has grown a lot again
	}
	if fenced != nil {
		c.apply(fenced.Records, fenced.Version)
		err = errors.Join(err, c.retireFenced(fenced.Brokers))
	}
	return err
}

// restate makes a snapshot that was written the image.
func (c *Cluster) restate(state []metarecord.Record, version int64) {
	c.mu.Lock()
	for _, rec := range state {
		if err := c.image.Apply(rec); err != nil {
			// It was made from the image: our own fault.
			panic(fmt.Sprintf("replication: snapshot does not apply: %v", err))
		}
	}
	due := c.publishLocked(version)
	c.mu.Unlock()
	for _, ch := range due {
		close(ch)
	}
}
