package replication

import (
	"fmt"

	"github.com/stratalog/strata/topic"
)

// A broker that stops in order leaves the epoch of its incarnation in its directory, behind all
// that it has written there (log.Directory.LeaveNote). If the metadata knows that very incarnation
// as the broker's last one when it starts again, nothing that it had written is lost: it keeps its
// places in the in-sync sets, synced or not. Kafka: brokerEpoch in .kafka_cleanshutdown (KIP-966).
//
// The epoch matters where a broker dies, starts, and fails before it has registered: that ends in
// order, but nobody was told of what the death has cost. Such an incarnation leaves what it found.
func epochNote(epoch int64) string { return fmt.Sprintf("broker.epoch=%d\n", epoch) }

// recall finds out how the broker's last incarnation ended, and what it has left. The metadata is
// that of before this one registers.
func (n *node) recall() {
	n.missing = n.recallHighWatermarks()
	c := n.metadata.c
	c.mu.RLock()
	defer c.mu.RUnlock()
	m, known := c.image.Members[n.id]
	n.orderly = known && n.dir.Note() == epochNote(m.Epoch)
	n.powerCut = known && !n.orderly && !sameRun(m.Incarnation, n.fs.BootID())
}

// leave closes the directory, with all in it being closed, and says there who was the last to have
// it.
func (n *node) leave() error {
	c := n.metadata.c
	note := n.dir.Note()
	c.mu.RLock()
	if c.image != nil {
		if m := c.image.Members[n.id]; topic.ID(m.Incarnation) == n.incarnation {
			note = epochNote(m.Epoch)
		}
	}
	c.mu.RUnlock()
	n.dir.LeaveNote(note)
	return n.dir.Close()
}
