package kfake

import (
	"context"
	"runtime/pprof"
	"slices"
	"sync"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// anyKey is the key of control functions of all requests.
const anyKey = -1

// A control is an active control function.
type control struct {
	key int16
	fn  func(kmsg.Request) (kmsg.Response, error, bool)

	// guarded by controls.mu
	keep, drop, removed bool
}

// A controlCall is one request under a control function.
type controlCall struct {
	*control
	node int32
}

// A verdict is the result of a control function.
type verdict struct {
	resp    kmsg.Response
	err     error
	handled bool
}

// controls are the control functions of a cluster. Only one call of them runs at a time: it holds
// the turn.
type controls struct {
	closing <-chan struct{} // ends all waits
	turn    chan struct{}   // a token: full while a control function runs

	mu      sync.Mutex   // guards the fields below; never held while a function runs
	all     []*control   // in the order in which they were added; never changed in place
	current *controlCall // call that holds the turn; nil: none
}

func newControls(closing <-chan struct{}) *controls {
	return &controls{closing: closing, turn: make(chan struct{}, 1)}
}

func (cs *controls) add(key int16, fn func(kmsg.Request) (kmsg.Response, error, bool)) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	cs.all = append(slices.Clip(cs.all), &control{key: key, fn: fn})
}

// of returns the control functions for a request: first for its key, then for all keys.
func (cs *controls) of(key int16) (found []*control) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	for _, k := range []int16{key, anyKey} {
		for _, c := range cs.all {
			if c.key == k {
				found = append(found, c)
			}
		}
	}
	return found
}

// run passes a request to the control functions until one handles it. ok is false if the cluster is
// closed, or the node removed, before that.
func (cs *controls) run(req kmsg.Request, node int32, gone <-chan struct{}) (v verdict, ok bool) {
	for _, c := range cs.of(req.Key()) {
		if v, ok = cs.call(c, req, node, gone); !ok || v.handled {
			return v, ok
		}
	}
	return verdict{}, true
}

// call passes a request to one control function, unless it was removed.
func (cs *controls) call(c *control, req kmsg.Request, node int32, gone <-chan struct{}) (v verdict, ok bool) {
	cc := &controlCall{control: c, node: node}
	if !cs.take(cc, gone) {
		return verdict{}, false
	}
	cs.mu.Lock()
	removed := c.removed
	cs.mu.Unlock()
	if removed {
		cs.give()
		return verdict{}, true
	}
	// The function runs on its own goroutine. If it never returns the goroutine outlives the
	// cluster: Close does not wait for functions of the test. Unlike goroutines of the broker it
	// has no label.
	result := make(chan verdict, 1)
	go func() {
		pprof.SetGoroutineLabels(context.Background())
		var v verdict
		defer func() { // runs even if fn ends its goroutine, as T.Fatal does
			if cs.end(cc, v) {
				cs.give()
			}
			result <- v
		}()
		v.resp, v.err, v.handled = c.fn(req)
	}()
	select {
	case v = <-result:
		return v, true
	case <-cs.closing:
	case <-gone:
	}
	return verdict{}, false
}

// end records that a control function has returned, and removes it if it is not kept. It reports
// whether the call held the turn.
func (cs *controls) end(cc *controlCall, v verdict) (turn bool) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if v.handled && !cc.keep || cc.drop {
		cc.removed = true
		cs.all = slices.DeleteFunc(slices.Clone(cs.all), func(c *control) bool { return c == cc.control })
	}
	return cs.current == cc
}

// take waits for the turn.
func (cs *controls) take(cc *controlCall, gone <-chan struct{}) bool {
	select {
	case <-cs.closing:
		return false
	default:
	}
	select {
	case cs.turn <- struct{}{}:
	case <-cs.closing:
		return false
	case <-gone:
		return false
	}
	cs.mu.Lock()
	defer cs.mu.Unlock()
	cs.current = cc
	return true
}

// give ends the turn.
func (cs *controls) give() {
	cs.mu.Lock()
	cs.current = nil
	cs.mu.Unlock()
	<-cs.turn
}

// running returns the call that holds the turn; nil if there is none.
func (cs *controls) running() *controlCall {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	return cs.current
}

// sleep gives up the turn until wakeup returns.
func (cs *controls) sleep(wakeup func()) {
	cc := cs.running()
	if cc == nil {
		return
	}
	cs.give()
	awake := make(chan struct{})
	go func() {
		defer close(awake)
		wakeup()
	}()
	select {
	case <-awake:
		cs.take(cc, nil)
	case <-cs.closing:
	}
}

// Control adds a control function for requests of all keys. See ControlKey.
func (c *Cluster) Control(fn func(kmsg.Request) (kmsg.Response, error, bool)) {
	c.ControlKey(anyKey, fn)
}

// ControlKey adds a control function, which is called for requests with a key (see kmsg.Key), or
// for all requests if key is -1, before anything else handles them.
//
// If fn returns true, its result handles the request. A response is sent. An error cuts the
// connection. With neither, this request and later ones on the connection get no response. If fn
// returns false, the next control function is called: first functions of the key, then functions of
// all keys, each in the order in which they were added. After them the broker serves the request.
//
// A function that returned true is removed, unless it has called KeepControl. A function that has
// called DropControl is removed whatever it returned. So by default a function handles one request,
// and a function that always returns false stays.
//
// One control function runs at a time, except for those in SleepControl. While it runs, its
// connection waits, and so do other requests with a control function. It may call all methods of
// the Cluster, and add control functions. It must not change the request. ControlKey is safe for
// concurrent use. A nil fn is logged and not added.
func (c *Cluster) ControlKey(key int16, fn func(kmsg.Request) (kmsg.Response, error, bool)) {
	if fn == nil {
		c.logf(LogLevelError, "control functions: fn is nil")
		return
	}
	c.controls.add(key, fn)
}

// KeepControl, called by a control function, keeps it for later requests even if it handles this
// one. It need be called only once.
func (c *Cluster) KeepControl() {
	c.controls.mu.Lock()
	defer c.controls.mu.Unlock()
	if cc := c.controls.current; cc != nil {
		cc.keep = true
	}
}

// DropControl, called by a control function, removes it when it returns, whatever it returns, even
// if KeepControl was called.
func (c *Cluster) DropControl() {
	c.controls.mu.Lock()
	defer c.controls.mu.Unlock()
	if cc := c.controls.current; cc != nil {
		cc.drop = true
	}
}

// SleepControl, called by a control function, lets other control functions run until wakeup returns
// or the cluster is closed. wakeup is called on its own goroutine. Later requests on the same
// connection wait, because responses are sent in the order of requests; other connections do not.
// The same control function may be called for another request during the sleep. Outside of a
// control function SleepControl returns at once without calling wakeup. A nil wakeup is logged, and
// SleepControl returns at once.
func (c *Cluster) SleepControl(wakeup func()) {
	if wakeup == nil {
		c.logf(LogLevelError, "SleepControl: wakeup is nil")
		return
	}
	c.controls.sleep(wakeup)
}

// CurrentNode, called by a control function, returns the node that received the request. Outside of
// a control function it returns -1.
func (c *Cluster) CurrentNode() int32 {
	if cc := c.controls.running(); cc != nil {
		return cc.node
	}
	return -1
}
