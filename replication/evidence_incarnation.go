package replication

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/stratalog/strata/internal/metarecord"
	"github.com/stratalog/strata/replication/internal/image"
	"github.com/stratalog/strata/topic"
)

// A directory of a broker may be replaced by an older copy of it. The metadata in it is brought up
// to date by the other copies, but its logs lack records that were acknowledged since. So a broker
// writes its incarnation to its file before it registers, on stable storage. If the metadata has an
// incarnation that is not in the file, the directory is a copy from before that incarnation.
//
// The incarnations in the file also show in which run of the machine the partitions were loaded
// last. The registered one may have ended before it loaded them: then the losses of an earlier power
// cut are still to be found. It has loaded them if the file has metadata from after its
// registration. The first incarnation in the file has too, unless the file is new.
//
// A file without incarnations, as earlier versions write it, shows nothing, and neither does a
// damaged one. A cluster of one broker needs no such line: its metadata is as old as its logs.

// incarnationLine returns the line of an incarnation.
func incarnationLine(id topic.ID) string { return sealed("incarnation %s", id) }

// maxIncarnations bounds the lines of incarnations that did not register.
const maxIncarnations = 64

// hasSeveral reports whether the cluster has more than one broker, or is about to.
func (c *Cluster) hasSeveral() bool {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return len(c.brokers) > 1 || len(c.image.Members) > 1
}

// secureAll calls secureIncarnation for a broker that is about to register and for serving brokers:
// the only broker of a cluster has not called it.
func (c *Cluster) secureAll(joins *node) error {
	if !c.hasSeveral() {
		return nil
	}
	for _, n := range append(c.servingNodes(), joins) {
		if err := n.secureIncarnation(); err != nil {
			return err
		}
	}
	return nil
}

// secureIncarnation writes the incarnation to the file, durably. It is called before the broker
// registers. The registered incarnation stays in the file: the change may fail. In an old copy it
// is not added, so that the next open recognises the copy if this incarnation does not register.
func (n *node) secureIncarnation() error {
	e := &n.evidence
	e.file.Lock()
	defer e.file.Unlock()
	if slices.Contains(e.incarnations, n.incarnation) {
		return nil
	}
	m, known := n.metadata.member()
	ids := e.incarnations
	if registered := topic.ID(m.Incarnation); known && !e.old && (len(ids) == 0 || e.hasServed(m)) {
		ids = append([]topic.ID{registered}, ids[slices.Index(ids, registered)+1:]...)
	}
	if ids = append(slices.Clone(ids), n.incarnation); len(ids) > maxIncarnations {
		ids = slices.Delete(ids, 1, len(ids)-maxIncarnations+1)
	}
	var lines strings.Builder
	for _, id := range ids {
		lines.WriteString(incarnationLine(id))
	}
	err := n.appendEvidence(e.metadata, lines.String())
	if err == nil {
		err = n.syncEvidence()
	}
	if err != nil {
		return fmt.Errorf("note incarnation of broker %d in %s: %w", n.id, evidenceFile, err)
	}
	e.incarnations = ids
	return nil
}

// hasServed reports whether the registered incarnation has loaded the broker's partitions.
func (e *evidence) hasServed(m image.Member) bool { return e.metadata.version > m.Epoch }

// lastServed returns the last incarnation that has loaded the broker's partitions, or one from the
// same run of the machine; the zero value if none is known.
func (e *evidence) lastServed(m image.Member) (id metarecord.ID) {
	switch {
	case e.hasServed(m):
		return m.Incarnation
	case len(e.incarnations) > 0:
		return metarecord.ID(e.incarnations[0])
	}
	return id
}

// syncEvidence makes the file durable as it is.
func (n *node) syncEvidence() error {
	f, err := n.fs.OpenFile(filepath.Join(n.root, evidenceFile), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		return err
	}
	return n.fs.SyncDir(n.root)
}

// incarnationsNow returns the incarnations for a file that is replaced: this one, if it has
// registered. The caller holds file.
func (n *node) incarnationsNow() []topic.ID {
	if m, known := n.metadata.member(); known && topic.ID(m.Incarnation) == n.incarnation {
		n.evidence.incarnations = []topic.ID{n.incarnation}
	}
	return n.evidence.incarnations
}

// member returns the broker's own data in the metadata.
func (m nodeMetadata) member() (member image.Member, known bool) {
	m.c.mu.RLock()
	defer m.c.mu.RUnlock()
	member, known = m.c.image.Members[m.broker]
	return member, known
}

// isOldCopy reports whether the directory is an older copy of the broker's.
func (n *node) isOldCopy() bool {
	c := n.metadata.c
	c.mu.RLock()
	defer c.mu.RUnlock()
	m, known := c.image.Members[n.id]
	ids := n.evidence.incarnations
	return known && len(c.image.Members) > 1 && len(ids) > 0 && !slices.Contains(ids, topic.ID(m.Incarnation)) && !c.cfg.AcceptMetadataLoss
}

// refuseOldCopy returns an error if the directory is an older copy of the broker's and no other
// broker has a partition in sync.
func (n *node) refuseOldCopy() error {
	if !n.isOldCopy() {
		return nil
	}
	for _, at := range n.metadata.hostedAll() {
		tp, _, _ := n.metadata.hosted(at)
		if n.metadata.onlyHere(at) {
			return &DirectoryError{
				Dir: n.root, Reason: ErrDirectoryWentBack, Err: fmt.Errorf("no other broker has %s in sync", partitionDir(tp)),
				Advice: "put the newer copy back; without " + evidenceFile + " it is opened as it is",
			}
		}
	}
	return nil
}

// errOldCopy is the error of a replica in an older copy of the broker's directory.
func (n *node) errOldCopy() error {
	return fmt.Errorf("%w: %w", ErrRecordsMissing, &DirectoryError{Dir: n.root, Reason: ErrDirectoryWentBack, Advice: "nothing is to be done"})
}

// hostedAll returns the partitions that the broker has a replica of, in no order.
func (m nodeMetadata) hostedAll() (all []place) {
	m.c.mu.RLock()
	defer m.c.mu.RUnlock()
	for id, t := range m.c.image.ByID {
		for i := range t.Partitions {
			if slices.Contains(t.Partitions[i].Replicas, m.broker) {
				all = append(all, place{Topic: id, Partition: int32(i)})
			}
		}
	}
	slices.SortFunc(all, place.Compare)
	return all
}

// onlyHere reports whether no other broker has a partition in sync.
func (m nodeMetadata) onlyHere(at place) bool {
	m.c.mu.RLock()
	defer m.c.mu.RUnlock()
	t := m.c.image.ByID[at.Topic]
	return t != nil && !slices.ContainsFunc(t.Partitions[at.Partition].ISR, func(id int32) bool { return id != m.broker })
}
