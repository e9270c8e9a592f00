package replication

import (
	"fmt"
	"log/slog"

	"github.com/stratalog/strata/topic"
)

// A broker that stops in order stores the epoch of its incarnation in its directory, after all
// other writes (log.Directory.LeaveNote). If the metadata has that incarnation as the broker's last
// one when it starts again, no written data is lost: it keeps its places in the ISRs, synced or
// not. Kafka: brokerEpoch in .kafka_cleanshutdown (KIP-966).
//
// The epoch matters where a broker dies, starts, and fails before it has registered. That
// incarnation ends in order, but the losses of the death were not recorded. It leaves the note that
// it found.
func epochNote(epoch int64) string { return fmt.Sprintf("broker.epoch=%d\n", epoch) }

// recall determines how the broker's last incarnation ended. note is its note, "" if there is none.
// The metadata is the one before this incarnation registers.
func (n *node) recall(note string) {
	c := n.metadata.c
	c.mu.RLock()
	m, known := c.image.Members[n.id]
	c.mu.RUnlock()
	n.orderly = known && note == epochNote(m.Epoch)
	n.evidence.sameRun = n.orderly || known && sameRun(n.evidence.lastServed(m), n.fs.BootID())
	n.powerCut = known && !n.evidence.sameRun
	n.recallEnds(known && n.evidence.closed == m.Epoch)
	if n.evidence.old = n.isOldCopy(); n.evidence.old {
		n.missing = n.metadata.hostedAll()
		n.logger.Error("directory is an older copy of the broker's: its replicas are made again from the others", slog.Int("broker", int(n.id)), slog.String("directory", n.root))
		return
	}
	n.missing = n.recallMissing()
}

// leave closes the directory, when everything in it is closed, and stores the note of this
// incarnation in it.
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
