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

// A power cut can take a partition whose records are not synced with all traces of it, its
// directory too. Readers may have seen those records, and only another leader epoch lets them
// notice that their offsets are given again (KIP-320). So it is not asked of the directory whether
// there was something: after a power cut every partition of that kind, of a broker that had not
// ended in order, begins a new epoch with the change that registers the broker. Until that is
// durable the metadata know the incarnation of before, whose id tells of which run of the machine
// it was.

// newIncarnation draws the id of a broker's incarnation. It begins with a hash of the machine's
// run.
func newIncarnation(bootID string) topic.ID {
	id, run := topic.NewID(), runOf(bootID)
	copy(id[:], run[:])
	return id
}

// runOf returns what the ids of all incarnations of a run of the machine begin with.
func runOf(bootID string) (run [6]byte) {
	h := xxhash.Sum64String(bootID)
	for i := range run {
		run[i] = byte(h >> (8 * i))
	}
	run[0] &= 0x7f // the text of no id begins with '-', see topic.NewID
	return run
}

// sameRun reports whether an incarnation was of the present run of the machine. Where the system
// cannot tell runs apart, none was.
func sameRun(incarnation metarecord.ID, bootID string) bool {
	run := runOf(bootID)
	return bootID != "" && [6]byte(incarnation[:6]) == run
}

// mayBeLost returns the records that begin another leader epoch for what a power cut may have
// taken. It is for open: nobody changes the metadata meanwhile.
func (c *Cluster) mayBeLost(nodes []*node) (recs []metarecord.Record) {
	for _, n := range nodes {
		if !n.powerCut {
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
