package kafkatest

import (
	"net"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata/kafka"
)

// An outside runs functions of the test that a server calls. For a server in a bubble they run
// outside of the bubble, where they may use channels of the test and wait. For another server they
// run without its goroutine label, which goroutines that they start would inherit.
type outside func(f func())

// outsider is an interceptor of the test, whose functions run outside.
type outsider struct {
	run  outside
	hold func(<-chan struct{}) <-chan struct{} // nil: the server can wait for the test's channels
	own  kafka.Interceptor
}

// Before implements kafka.Interceptor.
func (o outsider) Before(x *kafka.Exchange) (a kafka.Action) {
	o.run(func() { a = o.own.Before(x) })
	if o.hold != nil {
		holds := a.Holds
		a.Holds = nil
		for _, h := range holds {
			a.Holds = append(a.Holds, o.hold(h))
		}
	}
	if respond := a.Respond; respond != nil {
		a.Respond = func(req kmsg.Request) (resp kmsg.Response) {
			o.run(func() { resp = respond(req) })
			return resp
		}
	}
	a.Edit = o.run.messages(a.Edit)
	return a
}

// After implements kafka.Interceptor.
func (o outsider) After(x *kafka.Exchange) { o.run(func() { o.own.After(x) }) }

// hold returns a channel of the bubble that is closed when outer, from outside, is closed.
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
func (run outside) fault(f Fault) Fault {
	if match := f.Match; match != nil {
		f.Match = func(x *kafka.Exchange) (fits bool) {
			run(func() { fits = match(x) })
			return fits
		}
	}
	if decide := f.Decide; decide != nil {
		f.Decide = func(x *kafka.Exchange) (e *Effect) {
			run(func() { e = decide(x) })
			return run.effect(e)
		}
	}
	f.Respond, f.Edit = run.messages(f.Respond), run.messages(f.Edit)
	return f
}

func (run outside) effect(e *Effect) *Effect {
	if e == nil {
		return nil
	}
	own := *e
	own.Respond, own.Edit = run.messages(e.Respond), run.messages(e.Edit)
	return &own
}

// messages returns f, run outside; nil if f is nil.
func (run outside) messages(f func(kmsg.Request, kmsg.Response)) func(kmsg.Request, kmsg.Response) {
	if f == nil {
		return nil
	}
	return func(req kmsg.Request, resp kmsg.Response) { run(func() { f(req, resp) }) }
}

// observer returns f, run outside.
func (run outside) observer(f func(*kafka.Exchange)) func(*kafka.Exchange) {
	return func(x *kafka.Exchange) { run(func() { f(x) }) }
}

// listenOutside returns listen, run outside.
func listenOutside(run outside, listen func(int32) (net.Listener, error)) func(int32) (net.Listener, error) {
	return func(broker int32) (ln net.Listener, err error) {
		run(func() { ln, err = listen(broker) })
		return ln, err
	}
}
