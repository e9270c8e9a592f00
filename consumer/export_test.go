package consumer

import (
	"context"
	"time"
)

// FeedOnce runs one step of a Run's polling goroutine. It calls between after it has found records
// to hand out and before it passes them to the workers. It returns when the workers have stopped.
func (c *Consumer) FeedOnce(ctx context.Context, h Handler, between func()) error {
	r := &runner{handle: h, cfg: RunConfig{Workers: 1, BatchSize: 1}}
	var err error
	if r.cfg, err = r.cfg.withDefaults(); err != nil {
		return err
	}
	if err := c.startPolling(true); err != nil {
		return err
	}
	defer c.stopPolling()
	r.start(ctx, c)
	c.setRunner(r)
	defer c.setRunner(nil)
	p, err := c.next(ctx)
	if err == nil {
		between()
		err = r.feed(p)
	}
	time.Sleep(time.Minute) // of virtual time: the worker handles its records
	if stuck := r.stop(); err == nil {
		err = stuck
	}
	return err
}
