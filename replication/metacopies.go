package replication

import (
	"errors"
	"fmt"
	"log/slog"
	"math"

	"github.com/stratalog/strata/internal/metarecord"
	"github.com/stratalog/strata/replication/internal/image"
)

// openMetadata opens the copies that there are, applies the newest to the image, and has the
// controller take over. asked are the brokers that the configuration asks for.
func (c *Cluster) openMetadata(claims []claim, asked []int32) error {
	c.meta = &metaLog{
		copies: map[int32]*metaCopy{}, apart: map[int32]*metaCopy{}, causes: map[int32]error{},
		slack: c.cfg.metaSlack, part: c.cfg.metaPart, patience: c.cfg.SessionTimeout,
	}
	t := &takeOver{
		m: c.meta, nodes: c.nodes, leaveOut: c.leaveOut, failures: c.failures, asked: asked,
		since: math.MaxInt64, acceptLoss: c.cfg.AcceptMetadataLoss,
	}
	if err := t.openCopies(); err != nil {
		return err
	}
	err := t.run(func() error {
		c.image = t.img
		return c.meet(claims)
	})
	if !errors.As(err, new(*tooFewError)) {
		return err
	}
	var damaged *DirectoryError
	if len(c.nodes) == 0 && errors.As(err, &damaged) { // no other copy would do
		return damaged
	}
	return directoryError(c.cfg.Dir, ErrMissing, err)
}

// join makes a broker's copy one of the set. If other copies fail in that, it is tried once more:
// behind a change that fences the broker whose disk fails, if it still does, or, if nobody can tell
// what became of the registration, when all copies were opened again.
func (c *Cluster) join(n *node) error {
	if err := c.discount(n.arrival()); err != nil {
		return err
	}
	err := c.joinNow(n)
	if err == nil {
		return nil
	}
	again := err
	switch {
	case c.meta.failure != nil:
		var gone []int32
		gone, again = c.reopen(n)
		c.bringDown(gone)
	case errors.Is(err, errOthersFailed):
		again = c.perform(noOp, nil)
	default:
		return err
	}
	if again != nil {
		return errors.Join(err, again)
	}
	c.logger.Warn("broker joins once more", slog.Int("broker", int(n.id)), slog.Any("err", err))
	if c.meta.copies[n.id] != nil { // it was one of the sets that may have been in force
		return nil
	}
	return c.joinNow(n)
}

// joinWhole is join of a broker that was away, when the cluster opens.
func (c *Cluster) joinWhole(n *node) error {
	if l := c.meta.apart[n.id]; l != nil {
		if err := l.verify(n.metaDir()); err != nil {
			return err
		}
	}
	return c.join(n)
}

// joinNow is one attempt to make a broker's copy one of the set. The change that says so is written
// to the copies of the set first: a new copy that names a larger set could be more than half of it
// together with others like it, and none of those that know what is committed.
func (c *Cluster) joinNow(n *node) error {
	m := c.meta
	l := m.apart[n.id]
	if l == nil { // it failed when it was opened again
		return m.keeps(n.id)
	}
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
