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

// Always, as Fault.Times, hits every request from Fault.Skip on.
const Always = -1

// A Fault describes what goes wrong, and with which requests. Of the requests that it selects the
// first Skip pass untouched, the next Times are hit.
//
// If several faults select one request, all of them count it, and those that are due hit it
// together, in the order in which they were added: delays add up, each hold is waited for, edits
// follow each other, the longest Throttle counts. Of those with a Code, Respond, DropRequest,
// DropReply or Close the first one decides; the others do not hit this request and stay due, as
// does an Edit where there is no answer.
type Fault struct {
	// The fields up to Match select requests. A request is selected if it fits every field that is
	// set; the zero value of a field fits all requests. What no request of one of the APIs names,
	// as Heartbeat no Topic, is refused.

	APIs       []kafka.Key // kafka.Produce, kafka.OffsetCommit, ...
	Broker     int32       // the broker that receives the request, whichever one leads the partition
	ClientID   string
	Partitions []int32 // of Topic, or of any topic; of Metadata by the names of topics if APIs has it
	Group      string

	// TransactionalID fits requests of the producer that has it, or about it: all that it produces
	// in transactions, the search for its coordinator, and the descriptions of its transactions.
	TransactionalID string

	// Topic fits requests that name the topic, or its id, or ask for all topics, and fetches of a
	// session that has a partition of it.
	Topic string

	// Match fits requests that it returns true for. It is called without locks and before the
	// request is served. It must not block, nor change the exchange or keep it.
	Match func(*kafka.Exchange) bool

	Skip  int // how many selected requests pass untouched before the first one is hit
	Times int // how many are hit. 0: one, or with Decide all

	// Decide chooses what happens to each request that fits, in place of the fields below; nil: the
	// request is not selected. It is called without locks on a goroutine of the request's
	// connection, before the request is served, also for requests that Skip and Times let pass. It
	// may call methods of the Server, but for those that stop a broker; it must not wait, nor
	// change the exchange or keep it. An Effect that makes no sense closes the connection and fails
	// the test at its end.
	Decide func(*kafka.Exchange) *Effect

	// What happens to them. Delay and Hold come first; of the others one is chosen, except that
	// Throttle goes with all that answer.

	// Delay makes the server wait before it serves the request, and those after it on the same
	// connection.
	Delay time.Duration
	// Hold is a Delay until Injected.Release or Remove.
	Hold bool

	// Code is the error that is answered, in the places where Kafka would put it: for what Topic,
	// Partitions, Group or TransactionalID select, while the rest of the request is served, or for
	// everything in the request if none of them is set. What gets the error is not served. A
	// produce request with acks=0 has no answer: its connection is closed, as Kafka does.
	Code kafka.Code
	// Respond makes up the answer; the request is not served. It gets a response with the
	// defaults of the request's version.
	Respond func(kmsg.Request, kmsg.Response)
	// Edit changes the answer, after the request was served.
	Edit func(kmsg.Request, kmsg.Response)
	// DropRequest loses the request and all later ones on its connection, as when the network
	// from the client to the broker is cut: nothing is served. The connection stays open.
	DropRequest bool
	// DropReply loses the answer and all later ones on the connection, as when the network from
	// the broker to the client is cut: everything is served, and the client waits in vain. The
	// connection stays open.
	DropReply bool
	// Close cuts the connection instead of serving the request.
	Close bool
	// AfterApply, with Code or Close: the request is served first. DropReply is always so.
	AfterApply bool

	// Throttle is the time, in whole milliseconds, that the answer tells the client to
	// wait. As in Kafka the next requests on its connection are not served before that time
	// is over, whether it waits or not.
	Throttle time.Duration
}

// An Effect is what happens to one request: see the fields of Fault with these names. A Code is
// answered for what the Fault's own Topic, Partitions, Group and TransactionalID select.
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

// errors of a fault that cannot be meant.
var (
	errNoEffect   = errors.New("fault: it does nothing, set Code, Delay, Hold, DropRequest, DropReply, Close, Respond, Edit, Throttle or Decide")
	errTwoEffects = errors.New("fault: of Code, Respond, Edit, DropRequest, DropReply and Close a fault can have one")
	errDecides    = errors.New("fault: Decide says what happens, the fault itself has no effect then")
	errAfterApply = errors.New("fault: AfterApply goes with Code and Close only (a DropReply is always after)")
	errNegative   = errors.New("fault: Skip, Delay and Throttle cannot be negative, nor Times other than Always")
	errThrottle   = errors.New("fault: Throttle is more than 1<<31-1 milliseconds, which is all that an answer can say")
)

// check refuses faults that cannot be meant.
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
	case err != errNoEffect || e.AfterApply: // it has one
		return errDecides
	}
	return nil
}

// effect is what the fault does to every request that it hits.
func (f *Fault) effect() *Effect {
	return &Effect{Delay: f.Delay, Hold: f.Hold, Code: f.Code, Respond: f.Respond, Edit: f.Edit, DropRequest: f.DropRequest, DropReply: f.DropReply,
		Close: f.Close, AfterApply: f.AfterApply, Throttle: f.Throttle}
}

// check refuses effects that cannot be meant.
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

// decides reports whether the effect says what is answered, or that nothing is: of such effects a
// request can have one.
func (e *Effect) decides() bool {
	return e.Code != 0 || e.Respond != nil || e.silences()
}

// silences reports whether the effect leaves the request without an answer.
func (e *Effect) silences() bool { return e.DropRequest || e.DropReply || e.Close }

// times returns how many requests are to be hit, and whether there is a limit.
func (f *Fault) times() (n int, limited bool) {
	switch f.Times {
	case 0:
		return 1, f.Decide == nil
	case Always:
		return 0, false
	}
	return f.Times, true
}

// byTarget reports whether the fault is about some targets of a request only.
func (f *Fault) byTarget() bool {
	return f.Topic != "" || f.Group != "" || f.TransactionalID != "" || len(f.Partitions) > 0
}

// selects reports whether the fault is about the request x, which asks about
// ts. nameOf finds the name of a topic id.
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

// picker returns the test whether the fault is about a target. A fault of partitions is about
// requests that name partitions, and about metadata of all topics, whose answers do. It is about
// topics that are named without partitions only if whole says so: else what is done with a
// partition is meant, and not the metadata that is asked for before.
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
