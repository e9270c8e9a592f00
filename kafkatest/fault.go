package kafkatest

import (
	"errors"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata/kafka"
)

// Always, as Fault.Times, hits every request from Fault.Skip on.
const Always = -1

// A Fault describes what goes wrong, and with which requests. Of the requests that it selects the
// first Skip pass untouched, the next Times are hit. If several faults select one request, all of
// them count it and the first one that is due decides.
type Fault struct {
	// The fields up to Match select requests. A request is selected if it fits every field that is
	// set; the zero value of a field fits all requests.

	APIs       []kafka.Key // kafka.Produce, kafka.OffsetCommit, ...
	Broker     int32       // the broker that receives the request, whichever one leads the partition
	ClientID   string
	Partitions []int32 // of Topic, or of any topic
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
	Times int // how many are hit. 0: one

	// What happens to them. Delay and Hold come first; of the others one is chosen, except that
	// Throttle goes with all that answer.

	// Delay makes the server wait before it serves the request, and those after it on the same
	// connection.
	Delay time.Duration
	// Hold is a Delay until Injected.Release or Remove.
	Hold bool

	// Code is the error that is answered, in the places where Kafka would put it: for what Topic,
	// Partitions, Group or TransactionalID select, while the rest of the request is served, or for
	// everything in the request if none of them is set. What gets the error is not served. A produce
	// request with acks=0 has no answer: its connection is closed, as Kafka does.
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

// errors of a fault that cannot be meant.
var (
	errNoEffect   = errors.New("fault: it does nothing, set Code, Delay, Hold, DropRequest, DropReply, Close, Respond, Edit or Throttle")
	errTwoEffects = errors.New("fault: of Code, Respond, Edit, DropRequest, DropReply and Close a fault can have one")
	errAfterApply = errors.New("fault: AfterApply goes with Code and Close only (a DropReply is always after)")
	errNegative   = errors.New("fault: Skip, Delay and Throttle cannot be negative, nor Times other than Always")
)

// check refuses faults that cannot be meant.
func (f *Fault) check() error {
	effects := 0
	for _, set := range []bool{f.Code != 0, f.Respond != nil, f.Edit != nil, f.DropRequest, f.DropReply, f.Close} {
		if set {
			effects++
		}
	}
	switch {
	case effects > 1:
		return errTwoEffects
	case effects == 0 && f.Delay == 0 && !f.Hold && f.Throttle == 0:
		return errNoEffect
	case f.AfterApply && f.Code == 0 && !f.Close && !f.DropReply:
		return errAfterApply
	case f.Skip < 0 || f.Times < Always || f.Delay < 0 || f.Throttle < 0:
		return errNegative
	}
	return nil
}

// times returns how many requests are to be hit, and whether there is a limit.
func (f *Fault) times() (n int, limited bool) {
	switch f.Times {
	case 0:
		return 1, true
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
		f.byTarget() && !slices.ContainsFunc(ts, f.picker(nameOf)):
		return false
	}
	return f.Match == nil || f.Match(x)
}

// picker returns the test whether the fault is about a target. A fault of partitions is about
// requests that name partitions, and about metadata, whose answers do.
func (f *Fault) picker(nameOf func([16]byte) string) func(target) bool {
	return func(t target) bool {
		name := t.topic
		if name == "" && t.id != [16]byte{} {
			name = nameOf(t.id)
		}
		switch {
		case f.Group != "" && f.Group != t.group,
			f.TransactionalID != "" && f.TransactionalID != t.txn,
			f.Topic != "" && f.Topic != name && !t.all,
			len(f.Partitions) > 0 && !slices.Contains(f.Partitions, t.partition) && !t.all:
			return false
		}
		return true
	}
}
