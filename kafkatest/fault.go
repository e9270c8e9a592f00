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

// A Fault describes what goes wrong, and with which requests. Of the requests that it selects the first Skip pass untouched, the next
// Times are hit. If several faults select one request, all of them count it and the first one that is due decides.
type Fault struct {
	// What is selected; the zero value of each field selects everything, and all of them must agree.

	APIs       []kafka.Key // kafka.Produce, kafka.OffsetCommit, ...
	Broker     int32       // that it comes to, whichever leads what it asks about
	ClientID   string
	Topic      string  // requests that name it, by name or id, or that ask for all topics; fetches of a session that has it
	Partitions []int32 // of Topic, or of any
	Group      string
	Match      func(*kafka.Exchange) bool // called without locks; it must not block, nor keep or change the exchange, which has no answer yet

	Skip  int // how many selected requests pass untouched before the first one is hit
	Times int // how many are hit. 0: one

	// What happens to them. Delay and Hold come first; of the others one is chosen, except that Throttle goes with all that answer.

	// Delay makes the server wait before it serves the request, and those after it on the same connection.
	Delay time.Duration
	// Hold is a Delay until Injected.Release or Remove.
	Hold bool

	// Code is answered, as Kafka would: for the topic, partitions or group selected if Topic, Partitions or Group say so, the rest of the
	// request being served as always, and else for all that is asked. Nothing is done for what fails.
	// A produce request with acks=0, which has no answer, costs its connection, as with Kafka.
	Code kafka.Code
	// Respond makes up the answer; the request is not served. It gets a response with the defaults of the request's version.
	Respond func(kmsg.Request, kmsg.Response)
	// Edit changes the answer, after the request was served.
	Edit func(kmsg.Request, kmsg.Response)
	// DropRequest loses the request, and those that follow on its connection, as a network does that is cut from the client to the broker:
	// nothing is served. The connection stays open, and silent.
	DropRequest bool
	// DropReply loses the answer, and those to what follows on the connection, as a network does that is cut from the broker to the client:
	// all is served, and the client waits in vain. The connection stays open, and silent.
	DropReply bool
	// Close cuts the connection instead of serving the request.
	Close bool
	// AfterApply, with Code or Close: the request is served first. DropReply is always so.
	AfterApply bool

	// Throttle is the time, in whole milliseconds, that the answer tells the client to wait. As in Kafka the next requests on its connection are not
	// served before that time is over, whether it waits or not.
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
	return f.Topic != "" || f.Group != "" || len(f.Partitions) > 0
}

// selects reports whether the fault is about the request x, which asks about ts. nameOf finds the name of a topic id.
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

// picker returns the test whether the fault is about a target. A fault of partitions is about requests that name partitions, and about
// metadata, whose answers do.
func (f *Fault) picker(nameOf func([16]byte) string) func(target) bool {
	return func(t target) bool {
		name := t.topic
		if name == "" && t.id != [16]byte{} {
			name = nameOf(t.id)
		}
		switch {
		case f.Group != "" && f.Group != t.group,
			f.Topic != "" && f.Topic != name && !t.all,
			len(f.Partitions) > 0 && !slices.Contains(f.Partitions, t.partition) && !t.all:
			return false
		}
		return true
	}
}
