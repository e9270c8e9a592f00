package replication

import (
	"fmt"
	"log/slog"
	"maps"
	"slices"

	"github.com/stratalog/strata/replication/internal/byid"
	"github.com/stratalog/strata/replication/internal/image"
	"github.com/stratalog/strata/replication/internal/metalog"
)

// writable makes sure that the metadata can be changed. If so many copies have failed that nobody
// could tell what became of a change, they are looked at again. What could not be written before is
// made up for: brokers whose stop was taken back stay, partitions get or lose their leaders. By who
// has changing, before it begins. For own see reopen.
func (c *Cluster) writable(own *node) error {
	if err := c.found(); err != nil {
		return err
	}
	m := c.meta
	if m.Failure() != nil {
		gone, err := c.reopen(own)
		if err != nil {
			return err
		}
		c.bringDown(gone)
		c.releadDue = true
	}
	for _, id := range slices.Sorted(maps.Keys(c.serving())) {
		if !c.isLeaving(id) {
			continue
		}
		if err := c.stay(id); err != nil {
			return err
		}
	}
	if c.releadDue {
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
	c.logger.Warn("copies of the metadata are opened again", slog.Any("err", m.Failure()))
	apart := map[int32]bool{} // fenced, and they run
	for id := range c.serving() {
		apart[id] = c.isFenced(id)
	}
	t, nodes := c.surveyAgain(own)
	if err := m.Reopen(t, c.image.Version, func() error { return c.beginAgain(t, nodes, own) }); err != nil {
		return nil, err
	}
	c.logger.Warn("metadata can be changed again", slog.Int("controller", int(m.Controller())), slog.Int("changes", len(t.News)))
	for id, n := range byid.Range(c.serving()) {
		if m.Has(id) {
			n.standUp() // what has lost its leader by one of these changes is led in another epoch
		} else if !apart[id] {
			gone = append(gone, id)
		}
	}
	return gone, nil
}

// surveyAgain returns the take-over of the brokers that run, and those that are left.
func (c *Cluster) surveyAgain(own *node) (*metalog.TakeOver, map[int32]*node) {
	m := c.meta
	nodes := maps.Clone(c.serving())
	if own != nil {
		nodes[own.id] = own
	}
	t := &metalog.TakeOver{
		Places: func() map[int32]metalog.Place { return places(nodes) }, Failures: map[int32]error{}, Since: c.image.Version,
	}
	t.LeaveOut = func(id int32, cause error) {
		c.logger.Error("copy of the metadata fails", slog.Int("broker", int(id)), slog.Any("err", cause))
		t.Failures[id] = fmt.Errorf("broker %d: %w", id, cause)
		m.GiveUp(id, cause)
		delete(nodes, id)
	}
	return t, nodes
}

// beginAgain makes the first change of a controller that has taken over in place, and brings
// everything up to it.
func (c *Cluster) beginAgain(t *metalog.TakeOver, nodes map[int32]*node, own *node) error {
	m := c.meta
	var up, started []image.Arrival
	for id := range m.Copies() {
		if n := nodes[id]; n == own {
			started = append(started, n.arrival())
		} else {
			up = append(up, n.arrival())
		}
	}
	recs := t.Image.Resume(up, started, c.rules)
	version, fenced, err := m.Commit(t.Image, recs)
	if err != nil {
		return err
	}
	c.noteController()
	for _, ch := range t.News {
		if image.IsSnapshot(ch.Records[0]) {
			c.restate(ch.Records, ch.Version)
		} else {
			c.apply(ch.Records, ch.Version)
		}
	}
	c.apply(recs, version)
	if fenced != nil {
		c.apply(fenced.Records, fenced.Version)
	}
	return nil
}
