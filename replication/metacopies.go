package replication

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"slices"
	"strings"

	"github.com/stratalog/strata/internal/metarecord"
	"github.com/stratalog/strata/replication/internal/controller"
	"github.com/stratalog/strata/replication/internal/image"
)

// openMetadata opens the copies that there are, applies the newest to the image, and has the
// controller take over. asked are the brokers that the configuration asks for. A
// copy that cannot be written then is as good as missing: without it there may be
// another newest one, and another epoch.
func (c *Cluster) openMetadata(claims []claim, asked []int32) error {
	c.meta = &metaLog{
		copies: map[int32]*metaCopy{}, apart: map[int32]*metaCopy{}, causes: map[int32]error{},
		slack: c.cfg.metaSlack, part: c.cfg.metaPart,
	}
	if err := c.openCopies(); err != nil {
		return err
	}
	for {
		if err := c.chooseCopy(asked); err != nil {
			return errors.Join(append(slices.Collect(maps.Values(c.failures)), err)...)
		}
		if err := c.meet(claims); err != nil {
			return err
		}
		broken, err := c.followNewest()
		if err == nil || broken == 0 || c.meta.end == 0 {
			return err
		}
		maps.Copy(c.meta.apart, c.meta.copies)
		clear(c.meta.copies)
		c.leaveOut(broken, err)
	}
}

// chooseCopy finds the copy to go by and applies it to the image. It is an error if so many are
// missing that another may know more; no copy has been changed then.
func (c *Cluster) chooseCopy(asked []int32) error {
	if len(c.nodes) == 0 {
		return directoryError(c.cfg.Dir, ErrMissing, errors.New("no broker can serve"))
	}
	m := c.meta
	c.image, c.epochStep, m.sets = image.New(), 1, nil
	var copies []controller.Copy
	var reachable []int32
	for _, id := range m.found {
		if l := m.apart[id]; l != nil {
			copies = append(copies, l.state(id))
			reachable = append(reachable, id)
		}
	}
	newest := controller.Copy{Broker: slices.Min(slices.Collect(maps.Keys(c.nodes)))}
	if len(copies) > 0 {
		newest = controller.Newest(copies)
		err := m.replay(m.apart[newest.Broker], c.nodes[newest.Broker].metaDir(), c.image)
		if errors.As(err, new(*DirectoryError)) {
			return err
		}
		if err != nil { // its disk fails: the others may do without it
			c.leaveOut(newest.Broker, err)
			return c.chooseCopy(asked)
		}
	}
	m.leader, m.sealed = newest.Broker, len(m.sets) <= 1
	switch m.sets = m.sets.Known(newest, copies); {
	case newest.End == 0: // a new cluster, perhaps one that was not completed
		m.sets = controller.Sets{asked}
	case len(m.sets) == 0: // written when there was one broker, and it was not registered
		m.sets = controller.Sets{{newest.Broker}}
	}
	switch {
	case newest.End == 0 && len(c.failures) > 0:
		return fmt.Errorf("create cluster in %s: all of its brokers are needed", c.cfg.Dir)
	case newest.End == 0 && (len(copies) == 0 || len(c.nodes) == len(asked)):
		// All directories of a new cluster are made before the first copy.
	case newest.End > 0 && controller.Enough(reachable, m.sets...):
	case c.cfg.AcceptMetadataLoss:
		c.epochStep, m.sealed = epochGap, false
		there := slices.DeleteFunc(m.sets.All(), func(id int32) bool { return !slices.Contains(reachable, id) })
		if len(there) == 0 { // a copy of one that was about to join
			there = []int32{newest.Broker}
		}
		m.sets = controller.Sets{there}
	default:
		return directoryError(c.cfg.Dir, ErrMissing, tooFew(m.sets))
	}
	return nil
}

// tooFew says which copies of the metadata are needed.
func tooFew(sets controller.Sets) error {
	var kept []string
	for _, set := range sets {
		kept = append(kept, fmt.Sprint(set))
	}
	return fmt.Errorf("the metadata is kept by brokers %s, and more than half of them are needed", strings.Join(kept, " or "))
}

// openCopies opens the copies that there are.
func (c *Cluster) openCopies() error {
	for _, id := range slices.Sorted(maps.Keys(c.nodes)) {
		n := c.nodes[id]
		if _, err := n.fs.Stat(n.metaDir()); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		l, err := n.openCopy()
		switch {
		case errors.Is(err, ErrNewerFormat), errors.Is(err, ErrLocked):
			return err
		case err != nil:
			c.leaveOut(id, err)
		default:
			c.meta.apart[id] = l
			c.meta.found = append(c.meta.found, id)
		}
	}
	return nil
}

// epochGap is by how much the controller's epoch grows if not all can be known that were in use:
// what a missing copy has must not be in the same epochs as what comes now.
const epochGap = 1 << 10

// followNewest brings the copies of all sets that may be in force up to the newest, and begins the
// controller's epoch on all of them. Only then may it write, and the set of its first change has
// more than half of each of those, whichever it is that is in force. The others join one by one
// afterwards. broken is the broker whose copy failed, 0 if it was none of them.
func (c *Cluster) followNewest() (broken int32, err error) {
	m := c.meta
	for _, n := range c.nodes {
		if m.apart[n.id] == nil {
			l, err := n.openCopy()
			if err != nil {
				return n.id, err
			}
			m.apart[n.id] = l
		}
	}
	newest := m.apart[m.leader]
	if newest.EndOffset() > m.end { // a transaction that did not end has done nothing
		if err := newest.cut(m.end); err != nil {
			return m.leader, err
		}
	}
	for _, id := range m.sets.All() {
		if l := m.apart[id]; l != nil {
			m.copies[id] = l
			delete(m.apart, id)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(m.copies)) {
		if m.copies[id] == newest {
			continue
		}
		if err := m.copies[id].follow(newest); err != nil {
			if broken = id; errors.As(err, new(*sourceError)) {
				broken = m.leader
			}
			return broken, fmt.Errorf("copy metadata to broker %d: %w", id, err)
		}
	}
	if m.copies[m.leader] == nil {
		m.leader = slices.Min(slices.Collect(maps.Keys(m.copies)))
	}
	return m.beginEpoch(c.epochStep)
}

// join makes a broker's copy one of the set. If another copy fails in that, it is tried once more
// behind a change that fences the broker whose disk fails, if it still does.
func (c *Cluster) join(n *node) error {
	if err := c.discount(n.arrival()); err != nil {
		return err
	}
	err := c.joinNow(n)
	if !errors.Is(err, errOthersFailed) || c.meta.failure != nil {
		return err
	}
	c.logger.Warn("broker joins once more", slog.Int("broker", int(n.id)), slog.Any("err", err))
	noOp := func(*image.Image) ([]metarecord.Record, error) { return []metarecord.Record{&metarecord.NoOp{}}, nil }
	if again := c.perform(noOp, nil); again != nil {
		return errors.Join(err, again)
	}
	return c.joinNow(n)
}

// joinNow is one attempt to make a broker's copy one of the set. The change that says so is written
// to the copies of the set first: a new copy that names a larger set could be more than half of it
// together with others like it, and none of those that know what is committed.
func (c *Cluster) joinNow(n *node) error {
	m := c.meta
	l := m.apart[n.id]
	if err := l.follow(m.own()); err != nil {
		return fmt.Errorf("copy metadata to broker %d: %w", n.id, err)
	}
	if err := l.SetLeaderEpoch(m.epoch()); err != nil {
		return fmt.Errorf("copy metadata to broker %d: %w", n.id, err)
	}
	m.joining = n.id
	err := c.perform(func(img *image.Image) ([]metarecord.Record, error) { return img.Register(n.arrival()), nil }, nil)
	m.joining = 0
	if err == nil {
		err = m.keeps(n.id)
	}
	return err
}

// keeps returns nil if a broker's copy is one of the set, else why it is not any more.
func (m *metaLog) keeps(id int32) error {
	if m.copies[id] == nil {
		return fmt.Errorf("broker %d cannot keep the metadata: %w", id, m.causes[id])
	}
	return nil
}
