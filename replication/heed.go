package replication

import (
	"errors"
	"fmt"

	"github.com/stratalog/strata/replication/internal/metalog"
	"github.com/stratalog/strata/replication/internal/silence"
)

// heed makes brokers follow a change of the metadata, concurrently, and waits for them. do calls
// step whenever it has made progress. A broker without progress for Config.SessionTimeout is not
// waited for any longer, and is fenced next; the last serving one is waited for.
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
		case <-gone: // the caller does not wait any longer
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
	quiet := silence.New(c.cfg.SessionTimeout)
	defer quiet.Stop()
	quiet.Begin()
	var errs []error
	for len(waiting) > 0 {
		select {
		case p := <-steps:
			if p.end {
				delete(waiting, p.n)
				errs = append(errs, p.err)
			}
			quiet.Begin()
		case <-quiet.C:
			if !quiet.Over() {
				continue
			}
			for n := range waiting {
				c.fence(n.id, metalog.ErrSilent)
				errs = append(errs, fmt.Errorf("broker %d: %w", n.id, metalog.ErrSilent))
			}
			clear(waiting)
		}
	}
	return errors.Join(errs...)
}
