package replication

import (
	"maps"
	"slices"

	"github.com/cespare/xxhash/v2"

	"github.com/stratalog/strata/internal/metarecord"
	"github.com/stratalog/strata/log"
	"github.com/stratalog/strata/replication/internal/image"
	"github.com/stratalog/strata/topic"
)

// A power failure can remove a partition whose records are not synced without a trace, its
// directory included. Readers may have seen those records, and only a new leader epoch lets them
// detect that their offsets are reused (KIP-320). So the directory is no evidence. After a power
// failure every partition of that kind, on a broker that had not ended in order, begins a new epoch
// with the change that registers the broker. Until that change is durable the metadata has the
// previous incarnation, whose id shows the run of the machine.

// newIncarnation draws the id of a broker's incarnation. It begins with a hash of the machine's
// run.
func newIncarnation(bootID string) topic.ID {
	id, run := topic.NewID(), runOf(bootID)
	copy(id[:], run[:])
	return id
}

// runOf returns the common prefix of the ids of all incarnations of a run of the machine.
func runOf(bootID string) (run [6]byte) {
	h := xxhash.Sum64String(bootID)
	for i := range run {
		run[i] = byte(h >> (8 * i))
	}
	run[0] &= 0x7f // the text of no id begins with '-', see topic.NewID
	return run
}

// sameRun reports whether an incarnation was of the present run of the machine. Where the system
// cannot distinguish runs, it returns false.
func sameRun(incarnation metarecord.ID, bootID string) bool {
	run := runOf(bootID)
	return bootID != "" && [6]byte(incarnation[:6]) == run
}

// mayBeLost returns the records that begin a new leader epoch in partitions that a power failure
// may have removed. It is for open: the metadata does not change meanwhile.
func (c *Cluster) mayBeLost(nodes []*node) (recs []metarecord.Record) {
	for _, n := range nodes {
		if !n.powerCut || sameRun(c.image.Members[n.id].Incarnation, n.fs.BootID()) { // the epochs of the second have begun
			continue
		}
		for _, name := range slices.Sorted(maps.Keys(c.image.Topics)) {
			t := c.image.Topics[name]
			if n.metadata.settings(t).SyncPolicy() == log.SyncOnAck {
				continue
			}
			for i := range t.Partitions {
				if p := &t.Partitions[i]; !isSeveral(p) && slices.Contains(p.Replicas, n.id) {
					recs = append(recs, image.BeginEpoch(t.ID, int32(i), n.id))
				}
			}
		}
	}
	return recs
}
