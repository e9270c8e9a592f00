package replication

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"time"

	"github.com/stratalog/strata/vfs"
)

// StartBroker starts a broker that is not running: it was stopped, killed, fenced because its disk
// failed, or missing when the cluster was opened. StartBroker opens the broker's directory as Open
// does and brings its copy of the metadata up to date. A damaged copy is moved aside and rebuilt.
// The broker registers with a new incarnation, and its partitions have a leader again, in a new
// leader epoch. When StartBroker returns nil, the broker is serving.
//
// Errors: ErrUnknownBroker; ErrBrokerRunning; a *DirectoryError if the directory is not the one
// that the broker had (ErrDiskReplaced if it is empty, ErrForeign, ErrMixed, ErrDamaged,
// ErrLocked); disk errors; ErrClosed; and ErrMetadataReadOnly if the disks of so many other brokers
// fail that the broker cannot be registered. After an error the broker is not running. If the
// metadata had no majority before, the starting broker may complete one. If ctx ends first, the
// broker may still start.
//
// ErrBrokerRunning is also returned for a running broker that is fenced because the controller
// cannot reach it. A broker that is started while it is cut off serves until its session ends: see
// Network.
func (c *Cluster) StartBroker(ctx context.Context, id int32) error {
	if err := c.await(ctx, func() error { return c.startBroker(id) }); err != nil {
		return fmt.Errorf("start broker %d: %w", id, err)
	}
	return nil
}

func (c *Cluster) startBroker(id int32) error {
	b, err := c.beginStart(id)
	if err != nil {
		return err
	}
	if err := c.bringUp(b); err != nil {
		if errors.Is(err, vfs.ErrEnded) {
			err = fmt.Errorf("%w: it was killed while it started", ErrBrokerDown)
		}
		return err
	}
	c.mu.Lock()
	b.failed = nil
	c.mu.Unlock()
	c.logger.Info("broker started", slog.Int("broker", int(id)))
	return nil
}

func (c *Cluster) beginStart(id int32) (*broker, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	b, err := c.brokerOfLocked(id)
	if err != nil {
		return nil, err
	}
	switch b.phase {
	case down:
	case starting: // also by a call that has been given up
		return nil, fmt.Errorf("%w: %d is starting", ErrBrokerRunning, id)
	case leaving:
		return nil, fmt.Errorf("%w: %d is ending", ErrBrokerRunning, id)
	default:
		return nil, fmt.Errorf("%w: %d", ErrBrokerRunning, id)
	}
	b.phase, b.session, b.gone = starting, vfs.NewSession(b.fs), make(chan struct{})
	return b, nil
}

// bringUp makes an incarnation of a broker that is starting. On error nothing of it is left.
func (c *Cluster) bringUp(b *broker) error {
	n, err := c.openNode(b)
	if err != nil {
		c.markDown(b)
		return err
	}
	c.mu.Lock()
	b.node = n
	seen := c.image.Version
	c.mu.Unlock()
	opened, err := n.load()
	if err == nil {
		if err = c.rejoin(b, opened, seen); err == nil {
			return nil
		}
	}
	return errors.Join(err, closeLoaded(opened), c.bury(b, nil))
}

// openNode opens the directory of a starting broker, if it agrees with the metadata.
func (c *Cluster) openNode(b *broker) (*node, error) {
	c.mu.RLock()
	_, known := c.image.Members[b.id]
	c.mu.RUnlock()
	meta, err := checkDirectory(b.fs, b.root, b.id)
	if err != nil {
		return nil, err
	}
	if meta == nil && known {
		return nil, directoryError(b.root, ErrDiskReplaced, nil)
	}
	if meta != nil { // looked at again when it is locked, which changes it
		if _, err := c.identity(b.location, meta); err != nil {
			return nil, err
		}
	}
	n, err := c.take(claim{location: b.location, meta: meta}, b.session)
	if err != nil && n != nil {
		err = errors.Join(err, n.leave())
	}
	if err != nil {
		return nil, err
	}
	c.mu.RLock()
	now := c.moment
	c.mu.RUnlock()
	if err := n.wentBack(now); err != nil {
		return nil, errors.Join(err, n.leave())
	}
	if err := n.refuseOldCopy(); err != nil {
		return nil, errors.Join(err, n.leave())
	}
	n.recall(n.dir.Note())
	return n, nil
}

// rejoin makes a loaded broker serve. seen is the version of the metadata with which it was loaded.
// The metadata does not change meanwhile, so nothing is deleted or altered without the broker.
func (c *Cluster) rejoin(b *broker, opened []*loaded, seen int64) error {
	if err := c.takeTurn(b.id); err != nil {
		return err
	}
	defer c.endTurn()
	if err := c.enter(context.Background(), c.changing); err != nil {
		return err
	}
	defer func() { <-c.changing }()
	n := b.node
	// After that it may be in the set already. A partition that it still leads, because the
	// metadata could not be written when it was fenced, has lost its leader. Later records must be
	// in another epoch than the records that the broker may have lost.
	err := c.secureAll(n)
	if err == nil {
		err = c.writable(n)
	}
	if err == nil && c.image.Version != seen {
		err = n.catchUp(opened)
	}
	if err == nil {
		err = c.admit(n)
	}
	if err == nil {
		err = c.discountLosses([]*node{n}, opened)
	}
	if err != nil {
		return errors.Join(err, c.turnAway(n.id))
	}
	n.serve(opened)
	c.mu.Lock()
	nodes := maps.Clone(c.nodes)
	nodes[n.id] = n
	c.nodes, b.phase, n.joined = nodes, serving, time.Now()
	c.mu.Unlock()
	c.watchSessions()
	c.settleHosted(n.id)
	return nil
}

// admit registers a broker in the metadata as serving.
func (c *Cluster) admit(n *node) error {
	m := c.meta
	if !m.Has(n.id) {
		if m.Apart(n.id) == nil {
			l, err := n.openWholeCopy(m.Own())
			if err != nil {
				return err
			}
			m.Bring(n.id, l)
		}
		if err := c.join(n); err != nil {
			return err
		}
		n.standUp()
	}
	if err := c.relead(); err != nil { // it serves, and some of its partitions have no leader
		c.logger.Error("partitions of a broker that started have no leader", slog.Int("broker", int(n.id)), slog.Any("err", err))
	}
	return m.Keeps(n.id) // it may have been fenced by that change
}

// turnAway takes a broker that could not start out of the set, if it is in it, and closes its copy.
func (c *Cluster) turnAway(id int32) error {
	var err error
	if c.meta.Failure() == nil {
		err = c.expelNow(id)
	}
	if l := c.meta.Surrender(id); l != nil {
		err = errors.Join(err, l.Close())
	}
	return err
}

// catchUp applies the changes of the metadata since the partitions were loaded.
func (n *node) catchUp(opened []*loaded) error {
	return forEach(opened, func(_ int, l *loaded) error {
		a, ok := n.metadata.assignment(l.r.tp, l.r.id)
		if ok && n.metadata.assigned(l.r.tp, l.r.id) {
			return l.p.Reconfigure(n.config(l.r, a))
		}
		l.gone = true
		n.mu.Lock()
		delete(n.replicas, l.r.tp)
		n.inOrder = nil
		n.mu.Unlock()
		return errors.Join(l.p.Close(), n.putOut(l.r))
	})
}
