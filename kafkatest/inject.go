package kafkatest

import (
	"fmt"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata/internal/errorreply"
	"github.com/stratalog/strata/kafka"
)

// An Injected is a Fault that is active in a Server. Its methods are safe for concurrent use.
type Injected struct {
	server *Server
	in     *interceptor
	fault  Fault
	number int           // of the server's faults: 1, 2, 3 and so on
	hold   chan struct{} // closed by Release and Remove

	// guarded by in.mu
	seen, hits int
	released   bool
	removed    bool
}

// Hits returns the number of requests hit so far.
func (j *Injected) Hits() int {
	j.in.mu.Lock()
	defer j.in.mu.Unlock()
	return j.hits
}

// Release serves the requests that the fault holds. The fault holds no more requests; its other
// effects continue.
func (j *Injected) Release() {
	j.in.within(func() {
		j.in.mu.Lock()
		defer j.in.mu.Unlock()
		j.notedLocked("Release")
		j.releaseLocked()
	})
}

// notedLocked records a call of the test.
func (j *Injected) notedLocked(what string) {
	if now := time.Now(); !j.in.over {
		j.in.happened.call(now, fmt.Sprintf("%s fault %d", what, j.number))(now, false)
	}
}

func (j *Injected) releaseLocked() {
	if !j.released {
		j.released = true
		close(j.hold)
	}
}

// Remove ends the fault: it hits no more requests, and releases held requests. The other effects on
// requests that it has hit remain.
func (j *Injected) Remove() {
	j.in.within(func() {
		j.in.mu.Lock()
		defer j.in.mu.Unlock()
		j.notedLocked("Remove")
		j.removed = true
		j.in.notifyLocked() // wakes waits for the fault
		j.in.faults = slices.DeleteFunc(slices.Clone(j.in.faults), func(o *Injected) bool { return o == j })
		j.releaseLocked()
	})
}

// dueLocked counts a request that the fault selects, and reports whether it may be hit.
func (j *Injected) dueLocked() bool {
	j.seen++
	n, limited := j.fault.times()
	return !j.removed && j.seen > j.fault.Skip && (!limited || j.hits < n)
}

// An interceptor handles requests between a server's connections and its handlers. It injects
// faults and keeps the history.
type interceptor struct {
	nameOf   func([16]byte) string // the name of a topic id, "" for an unknown one
	own      kafka.Interceptor     // Config.Intercept; nil: none
	log      func(string)          // a line for the test's log
	discards bool                  // Config.BlackholeProduce
	host     *clock                // clock in whose bubble the server runs; nil: none
	sessions sessions

	mu       sync.Mutex  // guards the fields below; never held while waiting or calling out
	faults   []*Injected // never changed in place
	injected int         // number of faults so far
	history  history
	happened happenings
	pace     pace
	cut      map[uint64]kafka.Action // by silenced connection: the action for later requests
	misuse   error                   // error of the first invalid Effect
	over     bool                    // the server has ended, or is about to end
	watch    []*observer             // never changed in place
	changed  chan struct{}           // closed and replaced at every change of the history, of hits and of over
}

func newInterceptor(nameOf func([16]byte) string, log func(string), own kafka.Interceptor) *interceptor {
	return &interceptor{nameOf: nameOf, log: log, own: own, changed: make(chan struct{})}
}

// within calls f in the bubble of the server, if it has one.
func (in *interceptor) within(f func()) {
	if in.host == nil {
		f()
		return
	}
	in.host.look(func(*Server, *visit) { f() })
}

// inject adds a fault.
func (in *interceptor) inject(f Fault) *Injected {
	j := &Injected{in: in, fault: f, hold: make(chan struct{})}
	in.mu.Lock()
	defer in.mu.Unlock()
	in.injected++
	j.number = in.injected
	in.faults = append(slices.Clip(in.faults), j)
	if in.over {
		j.releaseLocked()
	}
	return j
}

// end releases all requests that faults hold, and ends all waits, before the server ends.
func (in *interceptor) end() {
	in.mu.Lock()
	defer in.mu.Unlock()
	for _, j := range in.faults {
		j.releaseLocked()
	}
	in.notifyLocked()
	in.over = true
}

// ended reports whether the server has ended, or is about to end.
func (in *interceptor) ended() bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.over
}

// restart drops the state that ends with a server's connections.
func (in *interceptor) restart() {
	in.sessions.clear()
	in.mu.Lock()
	defer in.mu.Unlock()
	in.cut, in.pace = nil, pace{}
}

// Before implements kafka.Interceptor.
func (in *interceptor) Before(x *kafka.Exchange) kafka.Action {
	in.mu.Lock()
	silenced, cut := in.cut[x.Conn]
	in.history.begin(x)
	if in.own != nil { // its Before may wait
		in.notifyLocked()
	}
	in.mu.Unlock()

	action, hits := silenced, []hit(nil)
	if cut {
		in.sessions.request(x.Broker, x.Request)
	} else {
		action, hits = in.decide(x)
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	if disturbs(action) {
		in.history.disturb(x, hits)
	}
	action.DiscardRecords = action.DiscardRecords || in.discards
	if action.DropRequest || action.DropReply {
		in.silenceLocked(x.Conn, action)
	}
	action.Delay += in.pace.request(x)
	in.notifyLocked()
	return action
}

// disturbs reports whether the action changes or delays the serving of a request or its response.
func disturbs(a kafka.Action) bool {
	return a.Delay > 0 || len(a.Holds) > 0 || a.Respond != nil || a.Serve != nil || a.Edit != nil || a.ThrottleMs > 0 ||
		a.DropRequest || a.DropReply || a.CloseBefore || a.CloseAfter
}

// decide calls Config.Intercept, and then the faults if the request is still to be served. hits are
// those that hit it.
func (in *interceptor) decide(x *kafka.Exchange) (a kafka.Action, hits []hit) {
	var own kafka.Action
	if in.own != nil {
		own = in.own.Before(x)
	}
	if own.Respond != nil || own.DropRequest || own.DropReply || own.CloseBefore || own.CloseAfter {
		return own, nil
	}
	if own.Serve != nil {
		served := *x
		served.Request = own.Serve
		x = &served
	}
	in.sessions.request(x.Broker, x.Request)
	in.mu.Lock()
	faults := in.faults
	in.mu.Unlock()
	if len(faults) == 0 {
		return own, nil
	}
	ts := append(targets(x.Request), in.sessions.targets(x.Broker, x.Request)...)
	hits = in.choose(in.selecting(faults, x, ts))
	a = in.act(x, hits)
	a.Delay += own.Delay
	a.Holds = append(own.Holds, a.Holds...)
	a.ThrottleMs = max(a.ThrottleMs, own.ThrottleMs)
	a.DiscardRecords = own.DiscardRecords
	if a.Serve == nil {
		a.Serve = own.Serve
	}
	if own.Edit != nil {
		edit(&a, own.Edit)
	}
	return a, hits
}

// silenceLocked applies the action of one request to all later requests on its connection.
// Responses are sent in the order of requests, so after a lost one all later ones are lost. A
// client treats a response to another request than the oldest as the fault of a broken broker.
func (in *interceptor) silenceLocked(conn uint64, a kafka.Action) {
	if in.cut == nil {
		in.cut = map[uint64]kafka.Action{}
	}
	in.cut[conn] = kafka.Action{DropRequest: a.DropRequest, DropReply: a.DropReply}
}

// A hit is a fault that selects a request, with its effect.
type hit struct {
	*Injected
	effect *Effect
}

// selecting returns the faults that select x, with the targets ts, in their order.
func (in *interceptor) selecting(faults []*Injected, x *kafka.Exchange, ts []target) (all []hit) {
	for _, j := range faults {
		if !j.fault.selects(x, ts, in.nameOf) {
			continue
		}
		effect := j.fault.effect()
		if j.fault.Decide != nil {
			effect = j.fault.Decide(x)
		}
		if effect != nil {
			all = append(all, hit{j, effect})
		}
	}
	return all
}

// choose counts the request for all faults that select it and returns those that hit it.
func (in *interceptor) choose(selecting []hit) (hits []hit) {
	in.mu.Lock()
	defer in.mu.Unlock()
	var due []hit
	var decides *Effect
	for _, h := range selecting {
		if !h.dueLocked() {
			continue
		}
		due = append(due, h)
		if decides == nil && h.effect.decides() {
			decides = h.effect
		}
	}
	for _, h := range due {
		unseen := h.effect.Edit != nil && decides != nil && decides.silences()
		if h.effect.decides() && h.effect != decides || unseen {
			continue
		}
		h.hits++
		hits = append(hits, h)
	}
	return hits
}

// act returns the server's action for a request that is hit.
func (in *interceptor) act(x *kafka.Exchange, hits []hit) (a kafka.Action) {
	for _, h := range hits {
		if err := h.effect.check(); err != nil {
			in.misused(err)
			return kafka.Action{CloseBefore: true}
		}
		h.addTo(&a, x)
	}
	return a
}

// misused records an invalid Effect; the test fails at its end.
func (in *interceptor) misused(err error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.misuse == nil {
		in.misuse = err
	}
}

// After implements kafka.Interceptor.
func (in *interceptor) After(x *kafka.Exchange) {
	in.sessions.response(x.Broker, x.Request, x.Response)
	in.mu.Lock()
	in.history.end(x)
	say := in.pace.response(x)
	in.notifyLocked()
	watch := in.watch
	in.mu.Unlock()
	if say != "" {
		in.log("kafkatest: " + say)
	}
	if in.own != nil {
		in.own.After(x)
	}
	for _, o := range watch {
		o.told(x)
	}
}

// An observer receives all exchanges.
type observer struct{ told func(*kafka.Exchange) }

// observe calls f for every exchange until stop.
func (in *interceptor) observe(f func(*kafka.Exchange)) (stop func()) {
	o := &observer{f}
	in.mu.Lock()
	defer in.mu.Unlock()
	in.watch = append(slices.Clip(in.watch), o)
	return func() {
		in.mu.Lock()
		defer in.mu.Unlock()
		in.watch = slices.DeleteFunc(slices.Clone(in.watch), func(other *observer) bool { return other == o })
	}
}

func (in *interceptor) notifyLocked() {
	if in.over { // no goroutine waits, and changed may belong to a bubble that has ended
		return
	}
	close(in.changed)
	in.changed = make(chan struct{})
}

// addTo adds the effect of the fault on x to a.
func (h hit) addTo(a *kafka.Action, x *kafka.Exchange) {
	e := h.effect
	a.Delay += e.Delay
	if e.Hold {
		a.Holds = append(a.Holds, h.hold)
	}
	a.ThrottleMs = max(a.ThrottleMs, int32(e.Throttle.Milliseconds()))
	switch {
	case e.Respond != nil:
		a.Respond = func(req kmsg.Request) kmsg.Response {
			resp := errorreply.Empty(req)
			e.Respond(req, resp)
			return resp
		}
	case e.Edit != nil:
		edit(a, e.Edit)
	case e.Code != 0 && unanswered(x.Request):
		a.CloseBefore, a.CloseAfter = !e.AfterApply, e.AfterApply
	case e.Code != 0:
		h.fail(x, a)
	case e.silences():
		a.DropRequest, a.DropReply, a.CloseBefore, a.CloseAfter = e.DropRequest, e.DropReply, e.Close && !e.AfterApply, e.Close && e.AfterApply
	}
}

// edit adds f to the edits of the response, after the present ones.
func edit(a *kafka.Action, f func(kmsg.Request, kmsg.Response)) {
	before := a.Edit
	a.Edit = func(req kmsg.Request, resp kmsg.Response) {
		if before != nil {
			before(req, resp)
		}
		f(req, resp)
	}
}

// unanswered reports whether req has no response: a produce request with acks=0.
func unanswered(req kmsg.Request) bool {
	produce, ok := req.(*kmsg.ProduceRequest)
	return ok && produce.Acks == 0
}

// fail makes a respond to x with the code of h.
func (h hit) fail(x *kafka.Exchange, a *kafka.Action) {
	e, pick, req := h.effect, h.picker(), x.Request
	// the response has more targets than the request names: serve it, then change the response
	if depth, ok := readDepth(req, &h.fault, e.Code); ok {
		edit(a, func(_ kmsg.Request, resp kmsg.Response) { overwrite(resp, e.Code, depth, pick) })
		return
	}
	picked, rest := split(req, pick)
	if fetch, ok := req.(*kmsg.FetchRequest); ok && fetch.SessionEpoch > 0 && levelOf(req, e.Code, false) != errorreply.Outermost {
		picked, rest = h.in.sessions.picked(x.Broker, fetch, pick), req
	}
	if picked == nil { // the fault does not select by targets
		picked, rest = req, nil
	}
	failed := errorResponse(picked, e.Code, rest != nil)
	switch fetch, _ := req.(*kmsg.FetchRequest); {
	case rest == nil && !e.AfterApply:
		a.Respond = func(kmsg.Request) kmsg.Response { return failed }
		return
	case rest == nil:
		edit(a, func(_ kmsg.Request, resp kmsg.Response) {
			reflect.ValueOf(resp).Elem().Set(reflect.ValueOf(failed).Elem())
		})
		return
	case fetch != nil: // a fetch changes no state, and does not wait if a partition has an error
		now := *fetch
		now.MaxWaitMillis = 0
		a.Serve = &now
	case !e.AfterApply:
		a.Serve = rest
	}
	edit(a, func(_ kmsg.Request, resp kmsg.Response) { merge(resp, failed) })
}

// picker returns a function that reports whether a target of a request fails.
func (j *Injected) picker() func(target) bool {
	if !j.fault.byTarget() {
		return func(target) bool { return true }
	}
	return j.fault.picker(j.in.nameOf, false)
}

// readDepth reports whether the response to req has elements that req does not name, and which of
// them f selects.
func readDepth(req kmsg.Request, f *Fault, code kafka.Code) (depth, bool) {
	switch q := req.(type) {
	case *kmsg.MetadataRequest, *kmsg.DescribeTopicPartitionsRequest:
		// clients also need the brokers in the response
		if len(f.Partitions) > 0 {
			return ofPartitions, true
		}
		return ofTopics, code != kafka.RebootstrapRequired
	case *kmsg.OffsetFetchRequest:
		all := len(q.Topics) == 0 && len(q.Groups) == 0
		for _, g := range q.Groups {
			all = all || len(g.Topics) == 0
		}
		return ofPartitions, all && (f.Topic != "" || len(f.Partitions) > 0)
	}
	return "", false
}
