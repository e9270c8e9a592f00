package kafkatest

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata/kafka"
)

// Functions of the test's that a server in a bubble calls are run outside, where they may use what
// the test has made, and wait for it.

// outsider is an interceptor of the test's.
type outsider struct {
	c   *clock
	own kafka.Interceptor
}

// Before implements kafka.Interceptor.
func (o outsider) Before(x *kafka.Exchange) (a kafka.Action) {
	o.c.outside(func() { a = o.own.Before(x) })
	holds := a.Holds
	a.Holds = nil
	for _, h := range holds {
		a.Holds = append(a.Holds, o.c.hold(h))
	}
	if respond := a.Respond; respond != nil {
		a.Respond = func(req kmsg.Request) (resp kmsg.Response) {
			o.c.outside(func() { resp = respond(req) })
			return resp
		}
	}
	a.Edit = o.c.messages(a.Edit)
	return a
}

// After implements kafka.Interceptor.
func (o outsider) After(x *kafka.Exchange) { o.c.outside(func() { o.own.After(x) }) }

// hold returns a channel of the bubble that is closed when one from outside is.
func (c *clock) hold(outer <-chan struct{}) <-chan struct{} {
	inner := make(chan struct{})
	c.out <- func() {
		c.wg.Go(func() {
			select {
			case <-outer:
				c.do(func() { close(inner) })
			case <-c.over:
			}
		})
	}
	return inner
}

// fault returns f with its functions run outside.
func (c *clock) fault(f Fault) Fault {
	if match := f.Match; match != nil {
		f.Match = func(x *kafka.Exchange) (fits bool) {
			c.outside(func() { fits = match(x) })
			return fits
		}
	}
	if decide := f.Decide; decide != nil {
		f.Decide = func(x *kafka.Exchange) (e *Effect) {
			c.outside(func() { e = decide(x) })
			return c.effect(e)
		}
	}
	f.Respond, f.Edit = c.messages(f.Respond), c.messages(f.Edit)
	return f
}

func (c *clock) effect(e *Effect) *Effect {
	if e == nil {
		return nil
	}
	own := *e
	own.Respond, own.Edit = c.messages(e.Respond), c.messages(e.Edit)
	return &own
}

// messages returns f, run outside; nil if f is.
func (c *clock) messages(f func(kmsg.Request, kmsg.Response)) func(kmsg.Request, kmsg.Response) {
	if f == nil {
		return nil
	}
	return func(req kmsg.Request, resp kmsg.Response) { c.outside(func() { f(req, resp) }) }
}

// observer returns f, run outside.
func (c *clock) observer(f func(*kafka.Exchange)) func(*kafka.Exchange) {
	return func(x *kafka.Exchange) { c.outside(func() { f(x) }) }
}
