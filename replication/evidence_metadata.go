package replication

import (
	"fmt"

	"github.com/stratalog/strata/topic"
)

// A moment is a state of the metadata: committed changes end at version, the last one is of a
// controller with that epoch.
type moment struct {
	epoch   int32
	version int64
}

func (m moment) before(other moment) bool {
	return m.epoch < other.epoch || m.epoch == other.epoch && m.version < other.version
}

// moment returns the state of the metadata that is in effect.
func (m nodeMetadata) moment() moment {
	m.c.mu.RLock()
	defer m.c.mu.RUnlock()
	return m.c.moment
}

// hasNoPartition returns an error if there is a directory of a partition, for a cluster whose
// metadata is empty. Partitions are made after the first change of the metadata is on stable
// storage.
func (n *node) hasNoPartition() error {
	if n.metadata.c.cfg.AcceptMetadataLoss {
		return nil
	}
	entries, err := n.fs.ReadDir(n.root)
	if err != nil {
		return fmt.Errorf("open %s: %w", n.root, err)
	}
	for _, e := range entries {
		if tp, ok := parsePartitionDir(e.Name()); ok && tp.Topic != topic.MetadataTopic {
			place := n.copyPlace()
			return directoryError(place.Dir(), ErrMetadataWentBack, fmt.Errorf("it is empty, and broker %d has %s", n.id, e.Name()))
		}
	}
	return nil
}

// wentBack returns an error if the metadata is older than the newest that the broker has seen.
func (n *node) wentBack(now moment) error {
	seen := n.evidence.metadata
	if n.metadata.c.cfg.AcceptMetadataLoss || !now.before(seen) {
		return nil
	}
	place := n.copyPlace()
	return directoryError(place.Dir(), ErrMetadataWentBack, fmt.Errorf("it ends at offset %d of controller epoch %d, and broker %d has seen offset %d of epoch %d",
		now.version, now.epoch, n.id, seen.version, seen.epoch))
}
