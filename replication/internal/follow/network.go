package follow

import (
	"sync"
	"sync/atomic"
	"time"
)

// A Path is the path from one broker to another.
type Path struct{ From, To int32 }

// A Network is the network between brokers. Each path can be cut, slowed and paused independently.
// The zero Network has no impaired path, and neither has a nil Network. It is safe for concurrent
// use.
type Network struct {
	impaired atomic.Bool // whether paths has anything; read without mu
	// called without mu when a path was closed or opened; set before first use
	watch func()

	mu      sync.Mutex // guards the fields below; never held while waiting
	paths   map[Path]condition
	changed chan struct{} // closed when paths changes; nil if no caller waits
}

// condition describes the impairment of a path.
type condition struct {
	cut, paused bool
	closed      time.Time // since when it has been cut or paused
	delay       time.Duration
}

// isClosed reports whether no message gets through.
func (c *condition) isClosed() bool { return c.cut || c.paused }

// Watch registers fn, which is called whenever an open path is cut or paused, and whenever such a
// path is open again. It must be called before n is used; fn must not block.
func Watch(n *Network, fn func()) { n.watch = fn }

// Cut makes a path lose every message from now on.
func (n *Network) Cut(p Path) { n.alter(p, func(c *condition) { c.cut = true }) }

// Mend undoes Cut, Pause and Slow.
func (n *Network) Mend(p Path) { n.alter(p, func(c *condition) { *c = condition{} }) }

// Pause holds every message on a path until the path is mended.
func (n *Network) Pause(p Path) { n.alter(p, func(c *condition) { c.paused = true }) }

// Slow makes every message on a path take d.
func (n *Network) Slow(p Path, d time.Duration) { n.alter(p, func(c *condition) { c.delay = d }) }

func (n *Network) alter(p Path, change func(*condition)) {
	if n.apply(p, change) && n.watch != nil {
		n.watch()
	}
}

// apply reports whether the change has closed or opened the path.
func (n *Network) apply(p Path, change func(*condition)) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	c := n.paths[p]
	was := c.isClosed()
	if change(&c); !was && c.isClosed() {
		c.closed = time.Now()
	}
	if n.paths == nil {
		n.paths = map[Path]condition{}
	}
	if n.paths[p] = c; c == (condition{}) {
		delete(n.paths, p)
	}
	n.impaired.Store(len(n.paths) > 0)
	if n.changed != nil {
		close(n.changed)
		n.changed = nil
	}
	return c.isClosed() != was
}

// Impaired reports whether any path is cut, paused or slowed.
func (n *Network) Impaired() bool { return n != nil && n.impaired.Load() }

// A Delivery is the outcome of sending a message.
type Delivery uint8

const (
	Delivered Delivery = iota
	Lost
	Stopped // the sender stopped waiting
)

// Send waits for the time that a message takes on a path, at most until stop is closed.
func (n *Network) Send(p Path, stop <-chan struct{}) Delivery {
	if !n.Impaired() {
		return Delivered
	}
	c, changed := n.look(p)
	if c.cut {
		return Lost
	}
	if c.delay > 0 {
		t := time.NewTimer(c.delay)
		defer t.Stop()
		select {
		case <-t.C:
		case <-stop:
			return Stopped
		}
		c, changed = n.look(p)
	}
	for c.paused && !c.cut {
		select {
		case <-changed:
		case <-stop:
			return Stopped
		}
		c, changed = n.look(p)
	}
	if c.cut { // cut while the message was in transit
		return Lost
	}
	return Delivered
}

// AwaitMended waits until a path is not cut; it returns false if stop is closed first.
func (n *Network) AwaitMended(p Path, stop <-chan struct{}) bool {
	for n.Impaired() {
		c, changed := n.look(p)
		if !c.cut {
			return true
		}
		select {
		case <-changed:
		case <-stop:
			return false
		}
	}
	return true
}

// Reach repeats Send until a message is delivered; it returns false if stop is closed first.
func (n *Network) Reach(p Path, stop <-chan struct{}) bool {
	for {
		switch n.Send(p, stop) {
		case Delivered:
			return true
		case Stopped:
			return false
		}
		if !n.AwaitMended(p, stop) {
			return false
		}
	}
}

// IsCut reports whether a path is cut.
func (n *Network) IsCut(p Path) bool {
	if !n.Impaired() {
		return false
	}
	c, _ := n.look(p)
	return c.cut
}

// Parted reports whether two brokers cannot communicate, because the path in either direction is
// cut or paused, and since when.
func Parted(n *Network, a, b int32) (since time.Time, parted bool) {
	if !n.Impaired() {
		return since, false
	}
	for _, p := range []Path{{a, b}, {b, a}} {
		if c, _ := n.look(p); c.isClosed() && (!parted || c.closed.Before(since)) {
			since, parted = c.closed, true
		}
	}
	return since, parted
}

func (n *Network) look(p Path) (condition, <-chan struct{}) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.changed == nil {
		n.changed = make(chan struct{})
	}
	return n.paths[p], n.changed
}
