package replication

import (
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/stratalog/strata/internal/metarecord"
	"github.com/stratalog/strata/log"
	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/replication/internal/image"
)

// Damage of a log is found by an operation that meets it: a client's read, the fetch of a follower,
// an append, a cleaning, the begin of a leader epoch. One of several replicas gives way then, if
// another in-sync replica has the damaged records whole: it leaves the ISR, another one leads, and
// it is copied again, as if its directory were missing. Its files are put aside. Without a whole
// replica it stays as it is: no defect of reading makes all replicas give way. Nothing is cut. A
// leader that stays looks for a whole replica again, in intervals.

// damagePause is how long a replica that was copied again does not give way another time.
const damagePause = 10 * time.Minute

// A damage is the damage of a log that operations have met.
type damage struct {
	err       error     // of the first operation that met it; nil if none is known
	offset    int64     // of the first damaged record; valid with err
	examining bool      // giveWay runs
	copied    time.Time // when the replica was replaced for damage; zero: it was not
}

// foundDamage is called with the error of an operation of the replica's log that has met damage. It
// does not block.
func (r *replica) foundDamage(err error) {
	p := r.partition()
	if p == nil { // it is offline when its opening ends
		return
	}
	offset := p.LogStartOffset() // damage below is met on the way to a record that is read
	if damage, ok := errors.AsType[*log.CorruptError](err); ok {
		offset = max(offset, damage.Offset)
	}
	r.mu.Lock()
	if r.damage.err == nil {
		r.damage.err, r.damage.offset = err, offset
	}
	r.mu.Unlock()
	r.examine(p, offset, err)
}

// examine has the replica give way for damage at an offset. It does not block.
func (r *replica) examine(p *partition.Partition, offset int64, cause error) {
	r.mu.Lock()
	examine := !r.damage.examining && time.Since(r.damage.copied) >= damagePause
	r.damage.examining = r.damage.examining || examine
	r.mu.Unlock()
	if examine {
		c := r.node.metadata.c
		c.run(func() { r.examined(offset, c.giveWay(r, p, offset, cause)) }) // not when the cluster is closed
	}
}

// examineAgain looks for a replica to give way to, if the log is damaged: another replica may be in
// sync by now.
func (r *replica) examineAgain(p *partition.Partition) {
	if err := r.damaged(p); err != nil {
		r.mu.Lock()
		offset := r.damage.offset
		r.mu.Unlock()
		r.examine(p, offset, err)
	}
}

// examined ends an examination. found reports whether the damage at offset still exists.
func (r *replica) examined(offset int64, found bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.damage.examining = false; !found && r.damage.offset == offset {
		r.damage.err = nil
	}
}

// damaged returns the damage in the replica's log that operations have met, nil if none. Damage of
// records that were deleted since does not count.
func (r *replica) damaged(p *partition.Partition) error {
	start := p.LogStartOffset()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.damage.offset < start {
		r.damage.err = nil
	}
	return r.damage.err
}

// isDamaged reports whether damage that an operation has met is there still: the record is damaged,
// or the log accepts no leader epoch or no append because of damage.
func (r *replica) isDamaged(p *partition.Partition, offset int64) bool {
	return errors.Is(p.Examine(offset), partition.ErrCorrupt) || errors.Is(p.Broken(), partition.ErrCorrupt) || errors.Is(r.why(), partition.ErrCorrupt)
}

// giveWay has a replica that is damaged at an offset leave its partition to an in-sync replica that
// is whole there, if there is one. found is false if the damage is not found again.
func (c *Cluster) giveWay(r *replica, p *partition.Partition, offset int64, cause error) (found bool) {
	if !r.isDamaged(p, offset) {
		return false
	}
	to := c.wholeOther(r, offset)
	if to == 0 {
		return true
	}
	r.setLoss(cause) // it does not follow meanwhile
	left := false
	err := c.makeChanges(func() error {
		return c.perform(func(img *image.Image) ([]metarecord.Record, error) {
			recs := img.GiveWay(r.place(), r.node.id, to, c.rules)
			left = len(recs) > 0
			return recs, nil
		}, nil)
	})
	if err != nil || !left {
		r.setLoss(nil)
		r.node.settle(r)
		return true
	}
	c.logger.Error("replica is damaged, leaves the partition to another one, and is copied again", slog.String("topic", r.tp.Topic),
		slog.Int("partition", int(r.tp.Partition)), slog.Int("broker", int(r.node.id)), slog.Int("leader", int(to)), slog.Any("err", cause))
	r.node.beginAnew(r, cause)
	return true
}

// wholeOther returns a broker whose replica is in sync, has the record at an offset, and has no
// record of a leader epoch above the one in the metadata; 0: none.
func (c *Cluster) wholeOther(r *replica, offset int64) int32 {
	t := r.node.metadata.topicOf(r.tp, r.id)
	if t == nil || !slices.Contains(t.Partitions[r.tp.Partition].ISR, r.node.id) {
		return 0
	}
	part := &t.Partitions[r.tp.Partition]
	for _, id := range slices.Concat([]int32{part.Leader}, part.ISR) {
		other, err := c.replicaOf(r.tp, r.id, id)
		if id == r.node.id || err != nil || other == nil || !slices.Contains(part.ISR, id) {
			continue
		}
		if p, _ := other.state(); p != nil && p.Examine(offset) == nil && p.Position().LastEpoch <= part.LeaderEpoch {
			return id
		}
	}
	return 0
}

// beginAnew replaces a replica by one without records, which is copied from the leader. The files
// are put aside when there is something to copy.
func (n *node) beginAnew(r *replica, cause error) {
	n.mu.Lock()
	if n.replicas[r.tp] != r || n.closed != nil {
		n.mu.Unlock()
		return
	}
	e := n.endingLocked(r)
	next := &replica{node: n, tp: r.tp, id: r.id, after: n.endings[r.tp], lost: cause}
	next.damage.copied = time.Now()
	n.replicas[r.tp], n.inOrder = next, nil
	n.mu.Unlock()
	if p := r.dismiss(notLedBy(r.tp, n.id)); p != nil {
		p.Resign()
		p.BecomeFollower()
	}
	n.settle(r) // it is not copied any more
	if p := r.retire(notLedBy(r.tp, n.id)); p != nil {
		if err := p.Close(); err != nil {
			n.logger.Warn("damaged replica is not closed in order", slog.Int("broker", int(n.id)), slog.Any("err", err))
		}
	}
	r.awaitDirectory()
	e.done()
	n.settle(next)
}
