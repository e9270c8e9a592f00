package kafkatest

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata/kafka"
)

// Always is the value of Fault.Times that hits every selected request after the first Fault.Skip.
const Always = -1

// A Fault selects requests and describes its effect on them. The first Skip of the selected
// requests pass unchanged, the next Times are hit.
//
// If several faults select one request, each of them counts it. All that are due hit it, in the
// order in which they were added: delays add up, every hold is waited for, edits are applied one
// after the other, and the longest Throttle is used. Of the faults with Code, Respond, DropRequest,
// DropReply or Close only the first is applied. The others do not hit this request and stay due, as
// does an Edit if there is no response.
type Fault struct {
	// The fields up to Match select requests. A request is selected if it matches every field that
	// is set; the zero value of a field matches all requests. Fault fails the test if a field is set
	// that requests of one of the APIs do not have, as Topic for Heartbeat.

	APIs     []kafka.Key // as kafka.Produce, kafka.OffsetCommit
	Broker   int32       // broker that receives the request, whether it is the leader or not
	ClientID string
	// Partitions are partitions of Topic, or of any topic if Topic is empty. A Metadata request has
	// no partitions: it matches by its topics, if APIs has Metadata.
	Partitions []int32
	Group      string

	// TransactionalID matches requests of the producer with that id, and requests about the id:
	// transactional produce requests, lookups of its coordinator, descriptions of its transactions.
	TransactionalID string

	// Topic matches requests with the topic's name or id, requests for all topics, and fetches in a
	// session that has a partition of the topic.
	Topic string

	// Match matches requests for which it returns true. It is called without locks before the
	// request is served. It must not block, nor change or keep the exchange.
	Match func(*kafka.Exchange) bool

	Skip  int // number of selected requests that pass unchanged before the first hit
	Times int // number of hits; 0 means one, or all with Decide

	// Decide returns the effect on each request that matches, and replaces the fields below. If it
	// returns nil the request is not selected. It is called without locks on a goroutine of the
	// request's connection, before the request is served, also for requests that pass by Skip and
	// Times. It may call methods of the Server, except those that stop a broker. It must not wait,
	// nor change or keep the exchange. An invalid Effect closes the connection and fails the test
	// at its end.
	Decide func(*kafka.Exchange) *Effect

	// Effects. Delay and Hold are applied first. Of the others a fault has one, except that
	// Throttle can be combined with all that have a response.

	// Delay is the pause before the request, and later ones on the same connection, are served.
	Delay time.Duration
	// Hold is a Delay that lasts until Injected.Release or Remove.
	Hold bool

	// Code is the error code of the response, in the fields where Kafka puts it. It applies to the
	// parts of the request that Topic, Partitions, Group or TransactionalID select, which are not
	// served; the other parts are. If none of these is set it applies to the whole request. A
	// produce request with acks=0 has no response: its connection is closed, as in Kafka.
	Code kafka.Code
	// Respond fills in the response, and the request is not served. It gets a response with the
	// defaults of the request's version.
	Respond func(kmsg.Request, kmsg.Response)
	// Edit changes the response after the request was served.
	Edit func(kmsg.Request, kmsg.Response)
	// DropRequest drops the request and all later ones on its connection unserved, as if the
	// network from the client to the broker were cut. The connection stays open.
	DropRequest bool
	// DropReply serves the request and all later ones on its connection, but drops their responses,
	// as if the network from the broker to the client were cut. The connection stays open.
	DropReply bool
	// Close cuts the connection instead of serving the request.
	Close bool
	// AfterApply serves the request before Code or Close is applied. DropReply always does.
	AfterApply bool

	// Throttle is the throttle time in the response, in whole milliseconds. As in Kafka, later
	// requests on the connection are not served before that time has passed.
	Throttle time.Duration
}

// An Effect is the effect of a fault on one request: see the fields of Fault with the same names.
// Code applies to the parts of the request that Topic, Partitions, Group and TransactionalID of the
// Fault select.
type Effect struct {
	Delay       time.Duration
	Hold        bool
	Code        kafka.Code
	Respond     func(kmsg.Request, kmsg.Response)
	Edit        func(kmsg.Request, kmsg.Response)
	DropRequest bool
	DropReply   bool
	Close       bool
	AfterApply  bool
	Throttle    time.Duration
}

// Errors of invalid faults.
var (
	errNoEffect   = errors.New("fault: no effect: set Code, Delay, Hold, DropRequest, DropReply, Close, Respond, Edit, Throttle or Decide")
	errTwoEffects = errors.New("fault: Code, Respond, Edit, DropRequest, DropReply and Close exclude each other")
	errDecides    = errors.New("fault: Decide returns the effect; the fault itself must have none")
	errAfterApply = errors.New("fault: AfterApply needs Code or Close (DropReply is always after)")
	errNegative   = errors.New("fault: Skip, Delay and Throttle cannot be negative, nor Times other than Always")
	errThrottle   = errors.New("fault: Throttle is above 1<<31-1 milliseconds, the largest value in a response")
)

// check rejects invalid faults.
func (f *Fault) check() error {
	if f.Skip < 0 || f.Times < Always {
		return errNegative
	}
	if err := f.reachable(); err != nil {
		return err
	}
	e := f.effect()
	err := e.check()
	switch {
	case f.Decide == nil:
		return err
	case err != errNoEffect || e.AfterApply: // it has an effect besides Decide
		return errDecides
	}
	return nil
}

// effect returns the effect of the fault on every request that it hits.
func (f *Fault) effect() *Effect {
	return &Effect{Delay: f.Delay, Hold: f.Hold, Code: f.Code, Respond: f.Respond, Edit: f.Edit, DropRequest: f.DropRequest, DropReply: f.DropReply,
		Close: f.Close, AfterApply: f.AfterApply, Throttle: f.Throttle}
}

// check rejects invalid effects.
func (e *Effect) check() error {
	effects := 0
	for _, set := range []bool{e.Code != 0, e.Respond != nil, e.Edit != nil, e.DropRequest, e.DropReply, e.Close} {
		if set {
			effects++
		}
	}
	switch {
	case effects > 1:
		return errTwoEffects
	case effects == 0 && e.Delay == 0 && !e.Hold && e.Throttle >= 0 && e.Throttle < time.Millisecond:
		return errNoEffect
	case e.AfterApply && e.Code == 0 && !e.Close && !e.DropReply:
		return errAfterApply
	case e.Delay < 0 || e.Throttle < 0:
		return errNegative
	case e.Throttle.Milliseconds() > math.MaxInt32:
		return errThrottle
	case e.Code != 0 && !knownCode(e.Code):
		return fmt.Errorf("fault: Code is %d: Kafka has no such error code (Respond and Edit can answer it)", e.Code)
	}
	return nil
}

// decides reports whether the effect determines the response, or that there is none. A request can
// have only one such effect.
func (e *Effect) decides() bool {
	return e.Code != 0 || e.Respond != nil || e.silences()
}

// silences reports whether the effect leaves the request without an answer.
func (e *Effect) silences() bool { return e.DropRequest || e.DropReply || e.Close }

// times returns the number of requests to hit, and whether there is a limit.
func (f *Fault) times() (n int, limited bool) {
	switch f.Times {
	case 0:
		return 1, f.Decide == nil
	case Always:
		return 0, false
	}
	return f.Times, true
}

// byTarget reports whether the fault selects by targets of a request.
func (f *Fault) byTarget() bool {
	return f.Topic != "" || f.Group != "" || f.TransactionalID != "" || len(f.Partitions) > 0
}

// selects reports whether the fault selects the request x with the targets ts. nameOf returns the
// name of a topic id.
func (f *Fault) selects(x *kafka.Exchange, ts []target, nameOf func([16]byte) string) bool {
	switch {
	case len(f.APIs) > 0 && !slices.Contains(f.APIs, kafka.Key(x.Key)),
		f.Broker != 0 && f.Broker != x.Broker,
		f.ClientID != "" && f.ClientID != x.ClientID,
		f.byTarget() && !slices.ContainsFunc(ts, f.picker(nameOf, len(f.APIs) > 0 && answersPartitions(x.Request))):
		return false
	}
	return f.Match == nil || f.Match(x)
}

// picker returns a function that reports whether the fault selects a target. A fault with
// Partitions selects partitions that a request names, and metadata of all topics. It selects topics
// that are named without partitions only with whole. Otherwise it is meant for requests that use a
// partition, and not for the metadata requests before them.
func (f *Fault) picker(nameOf func([16]byte) string, whole bool) func(target) bool {
	return func(t target) bool {
		name := t.topic
		if name == "" && t.id != [16]byte{} {
			name = nameOf(t.id)
		}
		switch {
		case f.Group != "" && f.Group != t.group,
			f.TransactionalID != "" && f.TransactionalID != t.txn,
			f.Topic != "" && f.Topic != name && !t.all,
			len(f.Partitions) > 0 && !slices.Contains(f.Partitions, t.partition) && !t.all && !(whole && t.partition < 0 && t.namesTopic()):
			return false
		}
		return true
	}
}
