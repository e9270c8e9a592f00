package replication

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"github.com/stratalog/strata/replication/internal/metalog"
)

// errLeaves is why a broker is taken out whose copy has not failed.
var errLeaves = errors.New("leaves")

// fenced is called for each broker that a committed change removes from the set.
func (c *Cluster) fenced(id int32, cause error) {
	if n := c.serving()[id]; n != nil && isUseless(cause) {
		n.cut() // it is fenced: from now on it need not be waited for
	}
	if errors.Is(cause, errUnreachable) {
		c.logger.Warn("broker is fenced until the controller reaches it", slog.Int("broker", int(id)), slog.Any("err", cause))
	} else if !errors.Is(cause, errLeaves) {
		c.logger.Error("broker is fenced", slog.Int("broker", int(id)), slog.Any("err", cause))
	}
}

// without returns the brokers but one.
func without(brokers []int32, one int32) []int32 {
	return slices.DeleteFunc(brokers, func(id int32) bool { return id == one })
}

// expel removes a broker from the set, because it leaves or was cut off. It must not be the last
// one. The caller holds changing and ends the broker. If other brokers fail during that, and the
// outcome is unknown, the copies are reopened, once.
func (c *Cluster) expel(id int32) error {
	if c.meta.Failure() == nil {
		if err := c.expelNow(id); c.meta.Failure() == nil || c.isFenced(id) {
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
	if !c.meta.Has(id) {
		return nil
	}
	if len(c.meta.Set()) == 1 && c.serving()[id] != nil { // the others have failed meanwhile, and it may stay
		return fmt.Errorf("%w: %d", ErrLastBroker, id)
	}
	out, err := c.takeOutNow(map[int32]error{id: fmt.Errorf("broker %d %w", id, errLeaves)})
	if err != nil {
		return err
	}
	return c.retireFenced(without(out, id))
}

// takeOutNow removes brokers from the set when no change is in progress. It returns the removed
// ones.
func (c *Cluster) takeOutNow(failed map[int32]error) ([]int32, error) {
	out, err := c.meta.TakeOut(c.image, failed)
	if err != nil {
		return nil, err
	}
	c.apply(out.Records, out.Version)
	return out.Brokers, nil
}

// handOver makes another broker controller if id is the controller: to, or any that can, if to is
// 0.
func (c *Cluster) handOver(id, to int32) error {
	failed, err := c.meta.HandOver(id, to)
	if err != nil || len(failed) == 0 {
		return err
	}
	out, err := c.takeOutNow(failed)
	if err != nil {
		return err
	}
	return c.retireFenced(out)
}

// noteController publishes the present controller.
func (c *Cluster) noteController() {
	if before := c.controller.Swap(c.meta.Controller()); before != c.meta.Controller() {
		c.tell(Event{Kind: ControllerElected, Broker: c.meta.Controller()})
	}
	c.controllerEpoch.Store(c.meta.Epoch())
}

// retireFenced removes the leaders of partitions whose brokers were fenced, and ends these brokers,
// unless another goroutine does.
func (c *Cluster) retireFenced(brokers []int32) error {
	err := c.relead()
	c.bringDown(brokers)
	return err
}

// failedThemselves returns the fenced brokers except the joining one, which was fenced because
// others failed in the change that registers it. A broker that was cut off and returns serves
// until then, with a complete copy; join registers it again.
func (c *Cluster) failedThemselves(brokers []int32) []int32 {
	return slices.DeleteFunc(slices.Clone(brokers), func(id int32) bool { return errors.Is(c.meta.Keeps(id), metalog.ErrOthersFailed) })
}

// bringDown ends brokers that were fenced, unless another goroutine does.
func (c *Cluster) bringDown(brokers []int32) {
	for _, id := range brokers {
		b := c.unserve(id)
		if b == nil {
			continue
		}
		b.node.resign()
		l := c.meta.Surrender(id)
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
