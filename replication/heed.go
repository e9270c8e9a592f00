package replication

import (
	"errors"
	"fmt"
)

// heed has brokers follow a change of the metadata, at the same time, and waits for them. do calls
// step whenever it has got on. A broker that does not for Config.SessionTimeout is waited for no
// longer, and fenced next; the last one that serves is waited for.
func (c *Cluster) heed(nodes []*node, do func(n *node, step func()) error) error {
	if len(c.serving()) <= 1 {
		return forEach(nodes, func(_ int, n *node) error { return do(n, func() {}) })
	}
	type progress struct {
		n   *node
		end bool
		err error
	}
	steps := make(chan progress, len(nodes))
	gone := make(chan struct{})
	defer close(gone)
	tell := func(p progress) {
		select {
		case steps <- p:
		case <-gone: // nobody waits for it any longer
		}
	}
	waiting := map[*node]bool{}
	for _, n := range nodes {
		waiting[n] = true
		c.wg.Go(func() {
			err := do(n, func() { tell(progress{n: n}) })
			tell(progress{n, true, err})
		})
	}
	quiet := newSilence(c.cfg.SessionTimeout)
	defer quiet.timer.Stop()
	quiet.begin()
	var errs []error
	for len(waiting) > 0 {
		select {
		case p := <-steps:
			if p.end {
				delete(waiting, p.n)
				errs = append(errs, p.err)
			}
			quiet.begin()
		case <-quiet.timer.C:
			if !quiet.over() {
				continue
			}
			for n := range waiting {
				c.fence(n.id, errSilent)
				errs = append(errs, fmt.Errorf("broker %d: %w", n.id, errSilent))
			}
			clear(waiting)
		}
	}
	return errors.Join(errs...)
}
