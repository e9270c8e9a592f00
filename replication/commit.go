package replication

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"

	"github.com/stratalog/strata/internal/metarecord"
	"github.com/stratalog/strata/replication/internal/controller"
	"github.com/stratalog/strata/replication/internal/image"
)

// A fencing is the committed change that takes brokers out whose copy of the metadata failed.
type fencing struct {
	brokers []int32
	causes  map[int32]error // why, by broker
	recs    []metarecord.Record
	version int64
}

// commit makes a change, decided on img, durable on all copies of the metadata and returns its
// version. Copies that fail are taken out of the set, with a change that is committed on the
// others: with it the first one is committed too. If too many fail the change is taken back, and
// nothing has happened; if that fails as well nothing is changed before the copies were opened
// again (see reopen).
//
// A change that is larger than a batch is a transaction of several. If copies fail in its middle
// the others go on with the rest of it, and the set shrinks by the change behind its end.
func (c *Cluster) commit(img *image.Image, recs []metarecord.Record) (version int64, out *fencing, err error) {
	m := c.meta
	if m.failure != nil {
		return 0, nil, m.failure
	}
	rest, err := m.split(recs, "change")
	if err != nil {
		return 0, nil, err
	}
	end, size := m.own().EndOffset(), m.size
	named := m.named(setAfter(m.sets.Last(), recs))
	version, failed, err := m.appendNext(&rest)
	switch {
	case err == nil && len(failed) == 0:
		m.committed(!changesSet(recs) || m.sealed && controller.Same(m.sets.Last(), m.without(nil)))
		return version, nil, nil
	case err == nil && controller.MayBecome(m.without(failed), named...):
		last, out, err := c.takeOut(img, failed, named, unapplied{recs, rest})
		if err != nil {
			return 0, nil, err
		}
		return max(version, last), out, nil
	}
	cause := errors.Join(append(listed(failed), err)...)
	m.size = size
	if stuck := m.takeBack(end); len(stuck) > 0 {
		return 0, nil, errors.Join(cause, m.fail(errors.Join(listed(stuck)...)))
	}
	if broken := m.broken(); !controller.MayBecome(m.without(broken), m.sets...) {
		_ = m.fail(cause) // no change is made with these copies as they are
	}
	return 0, nil, cause
}

// An unapplied change is one that copies failed in, and that the image does not contain yet.
type unapplied struct {
	recs []metarecord.Record
	rest [][]metarecord.Record // what is still to be written of it
}

// takeOut takes brokers out of the set, with a change that is committed on the copies of the
// others; those of them that fail meanwhile go, too, and are put into failed. named are the sets
// that a copy may name. version is that behind the rest of the change under way, 0 if there was no
// rest.
func (c *Cluster) takeOut(img *image.Image, failed map[int32]error, named [][]int32, under unapplied) (version int64, out *fencing, err error) {
	m := c.meta
	out = &fencing{causes: map[int32]error{}}
	for len(failed) > 0 {
		if !controller.MayBecome(m.without(failed), named...) {
			maps.Copy(out.causes, failed)
			return 0, nil, m.fail(out.cause())
		}
		err := m.drop(failed, named)
		maps.Copy(out.causes, failed)
		if err != nil {
			return 0, nil, m.fail(errors.Join(out.cause(), err))
		}
		named = append(named, m.without(nil))
		out.brokers = append(out.brokers, slices.Sorted(maps.Keys(failed))...)
		c.noteController()
		m.joining = 0
		if len(under.rest) > 0 {
			if version, failed, err = m.appendNext(&under.rest); err != nil {
				return 0, nil, m.fail(err) // half a change, which the next controller undoes
			}
			if len(failed) > 0 {
				continue
			}
		}
		out.recs = img.Fence(out.brokers, under.recs)
		if out.version, failed, err = m.append(out.recs); err != nil {
			return 0, nil, err
		}
	}
	m.committed(false)
	maps.Copy(m.causes, out.causes)
	for id, cause := range out.causes {
		if n := c.serving()[id]; n != nil && isUseless(cause) {
			n.cut() // it is fenced: from now on it need not be waited for
		}
		if !errors.Is(cause, errLeaves) {
			c.logger.Error("broker is fenced", slog.Int("broker", int(id)), slog.Any("err", cause))
		}
	}
	return version, out, nil
}

// errLeaves is why a broker is taken out whose copy has not failed.
var errLeaves = errors.New("leaves")

// cause returns why the brokers were taken out.
func (f *fencing) cause() error { return errors.Join(listed(f.causes)...) }

// takeOutStuck takes brokers out of the set whose copies have batches that the
// others have taken back. What the others write from now on must be in another
// epoch, or nothing tells the copies apart.
func (c *Cluster) takeOutStuck(stuck map[int32]error) (out *fencing, err error) {
	m := c.meta
	cause := errors.Join(listed(stuck)...)
	named := m.named()
	if !controller.MayBecome(m.without(stuck), named...) {
		return nil, m.fail(cause)
	}
	m.detach(stuck)
	if err := m.takeOver(stuck, named); err != nil {
		return nil, m.fail(errors.Join(cause, err))
	}
	_, out, err = c.takeOut(c.image, stuck, named, unapplied{})
	return out, err
}

// expel takes a broker out of the set, because it leaves or was cut off. It must not be the last
// one. By who has changing, who ends the broker. If others fail in that, and nobody can tell
// whether they go on without it, the copies are opened again, once.
func (c *Cluster) expel(id int32) error {
	if c.meta.failure == nil {
		if err := c.expelNow(id); c.meta.failure == nil || c.isFenced(id) {
			return err
		}
	}
	gone, err := c.reopen(nil)
	if err != nil {
		return err
	}
	c.bringDown(without(gone, id))
	if err := c.expelNow(id); err != nil {
		return err
	}
	return c.relead()
}

// expelNow is expel if the metadata can be changed. If its copy failed in a change it is out
// already.
func (c *Cluster) expelNow(id int32) error {
	m := c.meta
	if m.copies[id] == nil {
		return nil
	}
	if len(m.copies) == 1 && c.serving()[id] != nil { // the others have failed meanwhile, and it may stay
		return fmt.Errorf("%w: %d", ErrLastBroker, id)
	}
	out, err := c.takeOutNow(map[int32]error{id: fmt.Errorf("broker %d %w", id, errLeaves)})
	if err != nil {
		return err
	}
	return c.retireFenced(without(out, id))
}

// takeOutNow is takeOut when no change is under way. It returns those that are out.
func (c *Cluster) takeOutNow(failed map[int32]error) ([]int32, error) {
	_, out, err := c.takeOut(c.image, failed, c.meta.named(), unapplied{})
	if err != nil {
		return nil, err
	}
	c.apply(out.recs, out.version)
	return out.brokers, nil
}

// handOver makes another broker controller if it is this one, which is about to leave and whose
// copy is still one of those that count. So a copy of the others that cannot begin an epoch is
// found, and taken out, while there is this one to go on with.
func (c *Cluster) handOver(id int32) error {
	m := c.meta
	others := m.without(map[int32]error{id: errLeaves})
	if m.leader != id || len(others) == 0 || m.failure != nil {
		return m.failure
	}
	m.leader = slices.Min(others)
	failed := map[int32]error{}
	if err := m.takeOver(failed, m.named()); err != nil {
		return m.fail(err)
	}
	c.noteController()
	if len(failed) == 0 {
		return nil
	}
	out, err := c.takeOutNow(failed)
	if err != nil {
		return err
	}
	return c.retireFenced(out)
}

// noteController lets everybody know who is controller.
func (c *Cluster) noteController() {
	if before := c.controller.Swap(c.meta.leader); before != c.meta.leader {
		c.tell(Event{Kind: ControllerElected, Broker: c.meta.leader})
	}
	c.controllerEpoch.Store(c.meta.epoch())
}

// retireFenced takes the leaders from the partitions of brokers that were fenced, and ends these,
// unless somebody does already.
func (c *Cluster) retireFenced(brokers []int32) error {
	err := c.relead()
	c.bringDown(brokers)
	return err
}

// bringDown ends brokers that were fenced, unless somebody does already.
func (c *Cluster) bringDown(brokers []int32) {
	for _, id := range brokers {
		b := c.unserve(id)
		if b == nil {
			continue
		}
		b.node.resign()
		l := c.meta.surrender(id)
		end := func() {
			if err := c.bury(b, l); err != nil {
				c.logger.Warn("fenced broker was not closed in order", slog.Int("broker", int(id)), slog.Any("err", err))
			}
		}
		if !c.run(end) { // the cluster closes, and waits for us
			end()
		}
	}
}
