package replication

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/stratalog/strata/internal/metarecord"
	"github.com/stratalog/strata/replication/internal/image"
	"github.com/stratalog/strata/replication/internal/metalog"
)

// A disk that hangs costs its broker, as one that fails does. Only the others can tell that it
// hangs: when theirs have done the same it is waited for during Config.SessionTimeout, and then its
// broker is fenced, and cut off as by KillBroker. Not before: as long as nobody can go on without
// it, it is waited for, and goes on when its disk does. A disk that all of them are on stalls for
// all, and costs nobody.

// errReadOnly is why a broker is fenced that leads a partition which takes no more records.
var errReadOnly = errors.New("a partition that it leads takes nothing since its disk failed, and others could lead")

// errStruggles is why a broker is fenced whose disk fails whatever is asked of it for a partition
// that it leads, while the disk of another one does not.
var errStruggles = errors.New("its disk fails, for a partition that it leads, and others could lead")

// isUseless reports whether a broker that was fenced for this cause is cut off rather than closed
// in order: its disk does not take what is left to be done. What others have failed of says nothing
// about it.
func isUseless(cause error) bool {
	return !errors.Is(cause, metalog.ErrOthersFailed) &&
		(errors.Is(cause, metalog.ErrSilent) || errors.Is(cause, errReadOnly) || errors.Is(cause, errStruggles))
}

// fence fences a broker whose disk is of no use, as soon as the change under way is through, and
// cuts it off. If the others cannot go on without it nothing happens. One that is fenced already
// and runs on ends.
func (c *Cluster) fence(id int32, cause error) {
	c.afterChange(func() error {
		m, out := c.meta, map[int32]error{id: fmt.Errorf("broker %d: %w", id, cause)}
		if n := c.serving()[id]; n != nil && c.isFenced(id) {
			n.cut()
			c.bringDown([]int32{id})
		}
		if !m.Has(id) || !m.CanSpare(out) {
			return nil
		}
		gone, err := c.takeOutNow(out)
		if err != nil {
			return err
		}
		return c.retireFenced(gone)
	}, "broker is not fenced yet", slog.Int("broker", int(id)), slog.Any("cause", cause))
}

// probe has all disks that keep the metadata asked for a sign of life, by a change that says
// nothing.
func (c *Cluster) probe() {
	c.afterChange(func() error { return c.perform(noOp, nil) }, "disks that may hang were not found out")
}

// noOp decides to write a change that says nothing.
func noOp(*image.Image) ([]metarecord.Record, error) {
	return []metarecord.Record{&metarecord.NoOp{}}, nil
}

// afterChange runs do, which makes changes, as soon as the one under way is through. It does not
// wait for that; what fails is logged.
func (c *Cluster) afterChange(do func() error, failed string, of ...any) {
	c.run(func() {
		if err := c.makeChanges(do); err != nil {
			c.logger.Warn(failed, append(of, slog.Any("err", err))...)
		}
	})
}

// makeChanges runs do, which makes changes, when the one under way is through. It does nothing if
// the cluster closes.
func (c *Cluster) makeChanges(do func() error) error {
	if c.enter(context.Background(), c.changing) != nil {
		return nil
	}
	defer func() { <-c.changing }()
	if err := c.writable(nil); err != nil {
		return err
	}
	return do()
}
