package replication

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"

	"github.com/stratalog/strata/internal/metarecord"
	"github.com/stratalog/strata/replication/internal/byid"
	"github.com/stratalog/strata/replication/internal/image"
	"github.com/stratalog/strata/replication/internal/metalog"
)

// openMetadata opens the existing copies, applies the newest to the image, and lets the controller
// take over. Its second argument lists the brokers of the configuration.
func (c *Cluster) openMetadata(claims []claim, asked []int32) error {
	c.meta = metalog.New(metalog.Config{
		Slack: c.cfg.metaSlack, Part: c.cfg.metaPart, Patience: c.cfg.SessionTimeout, Elected: c.noteController, Fenced: c.fenced,
	})
	t := &metalog.TakeOver{
		Places: func() map[int32]metalog.Place { return places(c.nodes) }, LeaveOut: c.leaveOut, Failures: c.failures, Asked: asked,
		Since: math.MaxInt64, AcceptLoss: c.cfg.AcceptMetadataLoss,
	}
	t.Examine = func() error {
		c.image, c.founders = t.Image, t.Founds
		c.moment = moment{t.Epoch, t.Image.Version}
		for _, n := range byid.Range(c.nodes) {
			err := n.wentBack(c.moment)
			if err == nil {
				err = n.refuseOldCopy()
			}
			if err == nil && t.Founds {
				err = n.hasNoPartition()
			}
			if err != nil {
				return err
			}
		}
		return c.meet(claims)
	}
	err := c.meta.Open(t)
	var tooFew *metalog.TooFewError
	if !errors.As(err, &tooFew) {
		return err
	}
	var damaged *DirectoryError
	if len(c.nodes) == 0 && errors.As(err, &damaged) { // no other copy would do
		return damaged
	}
	if tooFew.AllFailed() && !lacksDirectory(claims, c.clusterID) {
		return fmt.Errorf("open cluster in %s: %w", c.cfg.Dir, err)
	}
	return directoryError(c.cfg.Dir, ErrMissing, err)
}

// lacksDirectory reports whether a broker of a cluster that has been founded has no directory.
func lacksDirectory(claims []claim, clusterID string) bool {
	return clusterID != "" && slices.ContainsFunc(claims, func(cl claim) bool { return cl.meta == nil && cl.failed == nil })
}

// join adds a broker's copy to the set. If other copies fail during that, it tries once more. The
// second attempt follows a change that fences the broker whose disk fails, if it still does. If the
// outcome of the registration is unknown, it follows the reopening of all copies.
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
	case c.meta.Failure() != nil:
		var gone []int32
		gone, again = c.reopen(n)
		c.bringDown(gone)
	case errors.Is(err, metalog.ErrOthersFailed):
		again = c.perform(noOp, nil)
	default:
		return err
	}
	if again != nil {
		return errors.Join(err, again)
	}
	c.logger.Warn("broker joins once more", slog.Int("broker", int(n.id)), slog.Any("err", err))
	if c.meta.Has(n.id) { // it was one of the sets that may have been in force
		return nil
	}
	return c.joinNow(n)
}

// joinWhole is join of a broker that was away, when the cluster opens.
func (c *Cluster) joinWhole(n *node) error {
	if l := c.meta.Apart(n.id); l != nil {
		if _, err := l.Image(); err != nil {
			return err
		}
	}
	return c.join(n)
}

// joinNow is one attempt to make a broker's copy one of the set.
func (c *Cluster) joinNow(n *node) error {
	return c.meta.Join(n.id, func() error {
		return c.perform(func(img *image.Image) ([]metarecord.Record, error) { return img.Register(n.arrival()), nil }, nil)
	})
}

// copyPlace is where the broker's copy of the metadata is.
func (n *node) copyPlace() metalog.Place {
	p := metalog.Place{FS: n.fs, Root: n.root, Log: n.base.Log, Origin: n.origin, Blame: directoryError}
	if n.founding != nil {
		p.Late, p.Log.Beside = true, n.founding.wait
	}
	return p
}

// places returns where the copies of brokers are.
func places(nodes map[int32]*node) map[int32]metalog.Place {
	all := make(map[int32]metalog.Place, len(nodes))
	for id, n := range nodes {
		all[id] = n.copyPlace()
	}
	return all
}
