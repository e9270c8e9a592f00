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

// writable makes sure that the metadata can be changed. If so many copies have failed that the
// outcome of a change was unknown, they are opened again. Changes that could not be written before
// are made then: brokers whose stop was undone stay, and partitions get or lose their leaders. The
// caller holds changing and has not begun its change. For own see reopen.
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

// reopen makes failed metadata changeable again. It closes all copies and opens them again, reading
// the disks as Open does. A controller takes over by the same rules: a majority of each set that
// may be in force, the newest copy, the next epoch, and a first change that is committed before
// anything else. There is no other writer: every write has ended, and a broker that was cut off
// cannot write any more.
//
// The image is advanced by the later changes in the newest copy, whose callers got an error that
// they may have happened. It never moves back: its changes were committed, so the newest copy has
// them. It advances only after the first change, when the later changes are committed too.
//
// The copies of the serving brokers count, and the copy of own, a broker that starts; nil if there
// is none. A broker whose copy fails now, or is in no set any more, is fenced. gone has the fenced
// brokers that still serve, for the caller to bring down. After an error the metadata still cannot
// be changed, and the next change tries again.
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
			n.standUp() // partitions that have lost their leader by one of these changes get a new epoch
		} else if !apart[id] {
			gone = append(gone, id)
		}
	}
	return gone, nil
}

// surveyAgain returns the take-over of the running brokers, and the remaining ones.
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
