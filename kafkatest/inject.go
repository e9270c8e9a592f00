package kafkatest

import (
	"reflect"
	"slices"
	"sync"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata/kafka"
)

// An Injected is a Fault at work in a Server. Its methods are safe for concurrent use.
type Injected struct {
	server *Server
	in     *interceptor
	fault  Fault
	hold   chan struct{} // closed by Release; nil if the fault does not hold

	// guarded by in.mu
	seen, hits int
	released   bool
	removed    bool
}

// Hits returns how many requests were hit so far.
func (j *Injected) Hits() int {
	j.in.mu.Lock()
	defer j.in.mu.Unlock()
	return j.hits
}

// Release lets go the requests that the fault holds; it will hold
// no more, but do whatever else it does.
func (j *Injected) Release() {
	j.in.mu.Lock()
	defer j.in.mu.Unlock()
	j.releaseLocked()
}

func (j *Injected) releaseLocked() {
	if j.hold != nil && !j.released {
		j.released = true
		close(j.hold)
	}
}

// Remove ends the fault: it hits nothing more and lets go what it holds.
// Requests that it has hit meet their fate.
func (j *Injected) Remove() {
	j.in.mu.Lock()
	defer j.in.mu.Unlock()
	j.removed = true
	j.in.faults = slices.DeleteFunc(slices.Clone(j.in.faults), func(o *Injected) bool { return o == j })
	j.releaseLocked()
}

// takeLocked counts a request that the fault selects, and reports whether it is to be hit.
func (j *Injected) takeLocked() bool {
	j.seen++
	n, limited := j.fault.times()
	return !j.removed && j.seen > j.fault.Skip && (!limited || j.hits < n)
}

// An interceptor stands between a server's connections and its handlers: it
// injects faults and keeps the history.
type interceptor struct {
	nameOf   func([16]byte) string // the name of a topic id, "" for an unknown one
	sessions sessions

	mu      sync.Mutex  // guards the fields below; never held while waiting or calling out
	faults  []*Injected // never changed in place
	history history
	cut     map[uint64]kafka.Action // connections that a fault has silenced, and what becomes of their requests since; few
	changed chan struct{}           // closed and replaced at every change of the history and of hits
}

func newInterceptor(nameOf func([16]byte) string) *interceptor {
	return &interceptor{nameOf: nameOf, changed: make(chan struct{})}
}

// inject arms a fault.
func (in *interceptor) inject(f Fault) *Injected {
	j := &Injected{in: in, fault: f}
	if f.Hold {
		j.hold = make(chan struct{})
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	in.faults = append(slices.Clip(in.faults), j)
	return j
}

// releaseAll lets go everything that faults hold.
func (in *interceptor) releaseAll() {
	in.mu.Lock()
	defer in.mu.Unlock()
	for _, j := range in.faults {
		j.releaseLocked()
	}
}

// restart forgets what ends with a server's connections.
func (in *interceptor) restart() {
	in.sessions.clear()
	in.mu.Lock()
	defer in.mu.Unlock()
	in.cut = nil
}

// Before implements kafka.Interceptor.
func (in *interceptor) Before(x *kafka.Exchange) kafka.Action {
	in.mu.Lock()
	faults := in.faults
	silenced, cut := in.cut[x.Conn]
	in.history.begin(x)
	in.mu.Unlock()

	var hit *Injected
	in.sessions.request(x.Broker, x.Request)
	if len(faults) > 0 && !cut {
		ts := append(targets(x.Request), in.sessions.targets(x.Broker, x.Request)...)
		hit = in.choose(slices.DeleteFunc(slices.Clone(faults), func(j *Injected) bool { return !j.fault.selects(x, ts, in.nameOf) }))
	}
	action := silenced
	if hit != nil {
		action = hit.action(x)
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	if action.DropRequest || action.DropReply {
		in.silenceLocked(x.Conn, action)
	}
	in.notifyLocked()
	return action
}

// silenceLocked makes the fate of one request that of all that follow it on its connection. Answers
// come in the order of the requests, so a broker, or a network, that swallows one swallows the
// rest; clients take an answer to another request than the oldest for a broken broker.
func (in *interceptor) silenceLocked(conn uint64, a kafka.Action) {
	if in.cut == nil {
		in.cut = map[uint64]kafka.Action{}
	}
	in.cut[conn] = kafka.Action{DropRequest: a.DropRequest, DropReply: a.DropReply}
}

// choose counts the request for all faults that select it and returns the one that hits it, if any.
func (in *interceptor) choose(selecting []*Injected) *Injected {
	in.mu.Lock()
	defer in.mu.Unlock()
	var hit *Injected
	for _, j := range selecting {
		if j.takeLocked() && hit == nil {
			hit = j
			j.hits++
		}
	}
	return hit
}

// After implements kafka.Interceptor.
func (in *interceptor) After(x *kafka.Exchange) {
	in.sessions.response(x.Broker, x.Request, x.Response)
	in.mu.Lock()
	defer in.mu.Unlock()
	in.history.end(x)
	in.notifyLocked()
}

func (in *interceptor) notifyLocked() {
	close(in.changed)
	in.changed = make(chan struct{})
}

// action says what the server does with a request that is hit.
func (j *Injected) action(x *kafka.Exchange) kafka.Action {
	f := &j.fault
	a := kafka.Action{Delay: f.Delay, Hold: j.hold, ThrottleMs: int32(f.Throttle.Milliseconds()), Edit: f.Edit,
		DropRequest: f.DropRequest, DropReply: f.DropReply, CloseBefore: f.Close && !f.AfterApply, CloseAfter: f.Close && f.AfterApply}
	switch {
	case f.Respond != nil:
		a.Respond = func(req kmsg.Request) kmsg.Response {
			resp := newResponse(req)
			f.Respond(req, resp)
			return resp
		}
	case f.Code != 0 && unanswered(x.Request):
		a.CloseBefore, a.CloseAfter = !f.AfterApply, f.AfterApply
	case f.Code != 0:
		j.fail(x, &a)
	}
	return a
}

// unanswered reports whether req is one that has no answer: a produce request with acks=0.
func unanswered(req kmsg.Request) bool {
	produce, ok := req.(*kmsg.ProduceRequest)
	return ok && produce.Acks == 0
}

// fail makes a the action that answers x with the fault's code.
func (j *Injected) fail(x *kafka.Exchange, a *kafka.Action) {
	f, pick, req := &j.fault, j.picker(), x.Request
	// the answer tells more than the request asked by name: serve it, then spoil it
	if depth, ok := readDepth(req, f); ok {
		a.Edit = func(_ kmsg.Request, resp kmsg.Response) { overwrite(resp, f.Code, depth, pick) }
		return
	}
	picked, rest := split(req, pick)
	if fetch, ok := req.(*kmsg.FetchRequest); ok && fetch.SessionEpoch > 0 && levelOf(req, f.Code, false) != outermost {
		picked, rest = j.in.sessions.picked(x.Broker, fetch, pick), req
	}
	if picked == nil { // only Match and the like select
		picked, rest = req, nil
	}
	failed := errorResponse(picked, f.Code, rest != nil)
	switch fetch, _ := req.(*kmsg.FetchRequest); {
	case rest == nil && !f.AfterApply:
		a.Respond = func(kmsg.Request) kmsg.Response { return failed }
		return
	case rest == nil:
		a.Edit = func(_ kmsg.Request, resp kmsg.Response) {
			reflect.ValueOf(resp).Elem().Set(reflect.ValueOf(failed).Elem())
		}
		return
	case fetch != nil: // a fetch changes nothing, and one with an error in it does not wait
		now := *fetch
		now.MaxWaitMillis = 0
		a.Serve = &now
	case !f.AfterApply:
		a.Serve = rest
	}
	a.Edit = func(_ kmsg.Request, resp kmsg.Response) { merge(resp, failed) }
}

// picker returns the test which targets of a request fail.
func (j *Injected) picker() func(target) bool {
	if !j.fault.byTarget() {
		return func(target) bool { return true }
	}
	return j.fault.picker(j.in.nameOf)
}

// readDepth reports whether req is answered about things that it does
// not name, and which answers f is about.
func readDepth(req kmsg.Request, f *Fault) (depth, bool) {
	switch q := req.(type) {
	case *kmsg.MetadataRequest, *kmsg.DescribeTopicPartitionsRequest:
		// clients need the brokers that are in the answer, too
		if len(f.Partitions) > 0 {
			return ofPartitions, true
		}
		return ofTopics, f.Code != kafka.RebootstrapRequired
	case *kmsg.OffsetFetchRequest:
		all := len(q.Topics) == 0 && len(q.Groups) == 0
		for _, g := range q.Groups {
			all = all || len(g.Topics) == 0
		}
		return ofPartitions, all && (f.Topic != "" || len(f.Partitions) > 0)
	}
	return "", false
}
