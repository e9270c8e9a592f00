package replication

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"path/filepath"
	"strings"

	"github.com/stratalog/strata/internal/metarecord"
	"github.com/stratalog/strata/log"
	"github.com/stratalog/strata/topic"
)

// The controller's log is kept short by snapshots in the log itself: when it has grown to several
// times what the present state takes, that state is written as one batch, or as a transaction of
// several if it is large, which begins with a record that voids all before it, and then what is
// before it is deleted. A crash in between leaves the history and the snapshot, which say the same.
// (Kafka writes snapshots to files beside the log.)
const (
	// metaSlack is by how much the log may outgrow its last snapshot, at least; else it is three
	// times the snapshot.
	metaSlack = 1 << 20
)

// due reports whether the log has grown enough for a snapshot.
func (m *metaLog) due() bool {
	if m.slack < 0 {
		return m.size > m.snapshot
	}
	return m.size-m.snapshot > max(m.slack, 3*m.snapshot)
}

// compact writes a snapshot of the state and deletes what came before it, on all copies. It returns
// the metadata version, 0 if nothing was written. By the one goroutine that appends.
func (c *Cluster) compact(state []metarecord.Record) (version int64, out *fencing, err error) {
	m := c.meta
	for _, l := range inOrder(m.copies) {
		if err := l.Roll(); err != nil { // so that all before it goes, segment by segment
			return 0, nil, err
		}
	}
	first, before := m.own().EndOffset(), m.size
	parts, err := m.split(state, "snapshot")
	if err != nil {
		return 0, nil, err
	}
	if len(parts) > 1 {
		var stuck map[int32]error
		if version, stuck, err = m.appendParts(parts); len(stuck) > 0 {
			var failed error
			out, failed = c.takeOutStuck(stuck)
			err = errors.Join(err, failed)
		}
	} else {
		version, out, err = c.commit(c.image, state)
	}
	if err != nil {
		return 0, out, err
	}
	m.size -= before
	m.snapshot = m.size
	for _, l := range inOrder(m.copies) {
		err = errors.Join(err, l.DeleteRecords(first))
		_, cleaned := l.Clean(context.Background())
		err = errors.Join(err, cleaned)
	}
	return version, out, err
}

// remains returns those of the removed topics that may have a directory still: only for them
// somebody must know that they were removed. What a broker has that does not serve nobody can tell:
// as long as there is one, all are kept.
func (c *Cluster) remains(removed map[topic.ID]string) (map[topic.ID]string, error) {
	if c.away() {
		return removed, nil
	}
	kept := map[topic.ID]string{}
	for _, n := range inOrder(c.serving()) {
		if err := n.remains(removed, kept); err != nil {
			return nil, err
		}
	}
	return kept, nil
}

// remains adds those of the removed topics that have a directory here to kept.
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
		id, ok, err := readTopicID(n.fs, filepath.Join(n.root, e.Name()))
		if err != nil {
			return err
		}
		if name := removed[id]; ok && name != "" {
			kept[id] = strings.Clone(name)
		}
	}
	return nil
}

// compactMetadata writes a snapshot of the metadata if it is time. A failure leaves the log as long
// as it is, to be tried again after the next change.
func (c *Cluster) compactMetadata() {
	if !c.meta.due() {
		return
	}
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
	version, fenced, err := c.compact(state)
	switch {
	case version > 0:
		c.restate(state, version)
	case errors.Is(err, log.ErrRecordTooLarge):
		c.meta.snapshot = c.meta.size // not before it has grown a lot again
	}
	if fenced != nil {
		c.apply(fenced.recs, fenced.version)
		err = errors.Join(err, c.retireFenced(fenced.brokers))
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
