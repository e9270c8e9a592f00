package replication

import (
	"fmt"
	"log/slog"
	"maps"
	"slices"

	"github.com/stratalog/strata/replication/internal/image"
)

// writable makes sure that the metadata can be changed. If so many copies have failed that nobody
// could tell what became of a change, they are looked at again. What could not be written before is
// made up for: brokers whose stop was taken back stay, partitions get or lose their leaders. By who
// has changing, before it begins. For own see reopen.
func (c *Cluster) writable(own *node) error {
	m := c.meta
	if m.failure != nil {
		gone, err := c.reopen(own)
		if err != nil {
			return err
		}
		c.bringDown(gone)
		m.releadDue = true
	}
	for _, id := range slices.Sorted(maps.Keys(c.serving())) {
		if !c.isLeaving(id) {
			continue
		}
		if err := c.stay(id); err != nil {
			return err
		}
	}
	if m.releadDue {
		return c.relead()
	}
	return nil
}

// reopen ends that the metadata cannot be changed. It closes all copies and opens them again, which
// looks at what is on the disks as Open does, and a controller takes over by the same rules: a
// majority of each set that may be in force, the newest copy, the next epoch, and a first change
// that is committed before anything else is. Nobody else writes: every write has ended, and a
// broker that was cut off cannot write any more.
//
// The image is brought forward by what turns out to be in the newest copy behind it: changes whose
// callers were told that they may have happened. It never goes back: what it has was committed, so
// the newest copy has it. It follows only behind the first change, when those are committed too.
//
// The copies of the brokers that serve count, and that of own, a broker that starts; nil: none. A
// broker whose copy fails now, or is in no set any more, is fenced: gone are those of them that
// serve still, for the caller to bring down. On error nothing can be changed still, and the next
// change tries again.
func (c *Cluster) reopen(own *node) (gone []int32, err error) {
	m := c.meta
	before := m.origin
	c.logger.Warn("copies of the metadata are opened again", slog.Any("err", m.failure))
	t := c.surveyAgain(own)
	m.closeAll()
	if err = t.openCopies(); err == nil {
		err = t.run(func() error {
			if m.end < c.image.Version {
				return fmt.Errorf("the copies of the metadata end at offset %d, and what is below %d was committed", m.end, c.image.Version)
			}
			return nil
		})
	}
	if err == nil {
		m.failure = nil
		err = c.beginAgain(t, own)
	}
	if err != nil {
		m.failAgain(err, before)
		return nil, m.failure
	}
	c.logger.Warn("metadata can be changed again", slog.Int("controller", int(m.leader)), slog.Int("changes", len(t.news)))
	for id, n := range inOrder(c.serving()) {
		if m.copies[id] == nil {
			gone = append(gone, id)
		} else {
			n.beginNextEpoch() // of what has lost its leader by one of these changes
		}
	}
	return gone, nil
}

// surveyAgain returns the take-over of the brokers that run.
func (c *Cluster) surveyAgain(own *node) *takeOver {
	m := c.meta
	t := &takeOver{m: m, nodes: maps.Clone(c.serving()), failures: map[int32]error{}, since: c.image.Version}
	if own != nil {
		t.nodes[own.id] = own
	}
	t.leaveOut = func(id int32, cause error) {
		c.logger.Error("copy of the metadata fails", slog.Int("broker", int(id)), slog.Any("err", cause))
		t.failures[id] = fmt.Errorf("broker %d: %w", id, cause)
		m.causes[id] = cause
		if l := m.apart[id]; l != nil {
			_ = l.Close() // its disk fails
		}
		delete(m.apart, id)
		delete(t.nodes, id)
	}
	return t
}

// beginAgain makes the first change of a controller that has taken over in place, and brings
// everything up to it.
func (c *Cluster) beginAgain(t *takeOver, own *node) error {
	m := c.meta
	var up, started []image.Arrival
	for _, id := range slices.Sorted(maps.Keys(m.copies)) {
		if n := t.nodes[id]; n == own {
			started = append(started, n.arrival())
		} else {
			up = append(up, n.arrival())
		}
	}
	recs := t.img.Resume(up, started, c.rules)
	version, fenced, err := c.commit(t.img, recs)
	if err != nil {
		return err
	}
	c.noteController()
	for _, ch := range t.news {
		if image.IsSnapshot(ch.recs[0]) {
			c.restate(ch.recs, ch.version)
		} else {
			c.apply(ch.recs, ch.version)
		}
	}
	c.apply(recs, version)
	if fenced != nil {
		c.apply(fenced.recs, fenced.version)
	}
	return nil
}

// failAgain is fail when the copies were opened again in vain. What they had failed with is told,
// too: it says why they had to be.
func (m *metaLog) failAgain(cause, before error) {
	m.failure = fmt.Errorf("%w: %w, after %w", ErrMetadataReadOnly, cause, before)
	m.origin = before
}

// closeAll closes all copies, which are to be opened again: what they fail with is on the disks, or
// noted.
func (m *metaLog) closeAll() {
	_ = m.close()
	clear(m.copies)
	clear(m.apart)
	m.found, m.joining = nil, 0
}
