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

// A hung disk affects only its broker, as a failed one does. Only the other brokers can detect that
// it hangs. When their disks have completed the same write, it is waited for during
// Config.SessionTimeout. Then its broker is fenced, and cut off as by KillBroker. As long as the
// others cannot continue without it, they wait for it, and it continues when its disk does. A disk
// that all brokers are on stalls for all, and fences none.

// errReadOnly is why a broker is fenced that leads a partition which takes no more records.
var errReadOnly = errors.New("a partition that it leads takes nothing since its disk failed, and others could lead")

// errStruggles is the cause recorded when a broker is fenced whose disk fails all writes or reads
// of a partition that it leads, while another replica's disk works.
var errStruggles = errors.New("its disk fails, for a partition that it leads, and others could lead")

// isUseless reports whether a broker that was fenced for this cause is cut off rather than closed
// in order: its disk does not accept the remaining writes. Failures of other brokers are no
// evidence about it.
func isUseless(cause error) bool {
	return !errors.Is(cause, metalog.ErrOthersFailed) &&
		(errors.Is(cause, metalog.ErrSilent) || errors.Is(cause, errReadOnly) || errors.Is(cause, errStruggles))
}

// fence fences a broker whose disk is unusable, as soon as the change in progress has ended, and
// cuts it off. If the others cannot continue without it nothing happens. A broker that is fenced
// already and still running is ended.
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

// probe writes an empty change, so that all disks that keep the metadata show whether they work.
func (c *Cluster) probe() {
	c.afterChange(func() error { return c.perform(noOp, nil) }, "disks that may hang were not found out")
}

// noOp decides to write an empty change.
func noOp(*image.Image) ([]metarecord.Record, error) {
	return []metarecord.Record{&metarecord.NoOp{}}, nil
}

// afterChange runs do, which makes changes, as soon as the one in progress has ended. It does not
// wait for that; errors are logged.
func (c *Cluster) afterChange(do func() error, failed string, of ...any) {
	c.run(func() {
		if err := c.makeChanges(do); err != nil {
			c.logger.Warn(failed, append(of, slog.Any("err", err))...)
		}
	})
}

// makeChanges runs do, which makes changes, when the one in progress has ended. It does nothing if
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
