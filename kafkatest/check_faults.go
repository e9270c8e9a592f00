package kafkatest

import (
	"context"
	"time"

	"github.com/stratalog/strata/kafka"
)

// A checkFault is the fault of one run of Check.
type checkFault struct {
	name, what string
	// fault returns the Fault for requests of the code under test; nil: none.
	fault func(r *checkRun) Fault
	// act runs when the fault hits the first request, and while it holds that request; nil: no
	// action.
	act func(r *checkRun)

	joins bool // Consume is called a second time beside the first one
	ends  bool // Consume is ended in the middle of a record, and called again
}

const nothing = "nothing goes wrong"

// begin activates the fault. act waits for the first hit and calls the action of the fault. It
// returns at once if there is no action, and when running ends.
func (f checkFault) begin(r *checkRun) (act func(running context.Context)) {
	if f.fault == nil {
		return func(context.Context) {}
	}
	hit := r.s.Fault(f.fault(r))
	return func(running context.Context) {
		if f.act == nil {
			return
		}
		if r.s.WaitUntil(running, func() bool { return hit.Hits() > 0 }) == nil {
			f.act(r)
		}
		hit.Remove()
	}
}

// hits returns f for requests of the given APIs.
func hits(f Fault, apis ...kafka.Key) func(*checkRun) Fault {
	f.APIs = apis
	return func(*checkRun) Fault { return f }
}

// late delays a request for longer than clients wait for it.
func late(apis ...kafka.Key) func(*checkRun) Fault {
	return func(r *checkRun) Fault { return Fault{APIs: apis, Delay: r.slow} }
}

// heartbeats are the APIs for heartbeats of members, of either protocol.
var heartbeats = []kafka.Key{kafka.Heartbeat, kafka.ConsumerGroupHeartbeat}

// onPath returns the faults that hit one request of the API that transfers the records.
func onPath(what string, apis ...kafka.Key) []checkFault {
	return []checkFault{
		{name: "request-lost", what: "a " + what + " request and all later ones of its connection are lost", fault: hits(Fault{DropRequest: true}, apis...)},
		{name: "answer-lost", what: "the answer to a " + what + " request and all later ones of its connection are lost", fault: hits(Fault{DropReply: true}, apis...)},
		{name: "late", what: "a " + what + " request is served late", fault: late(apis...)},
		{name: "cut-before", what: "the connection is cut by a " + what + " request, which is not served", fault: hits(Fault{Close: true}, apis...)},
		{name: "cut-after", what: "the connection is cut after a " + what + " request was served", fault: hits(Fault{Close: true, AfterApply: true}, apis...)},
		{name: "not-leader", what: "two " + what + " requests are NOT_LEADER_OR_FOLLOWER", fault: hits(Fault{Code: kafka.NotLeaderOrFollower, Times: 2}, apis...)},
		{name: "leaders-move", what: "all leaders move while a " + what + " request is under way", fault: hits(Fault{Hold: true}, apis...),
			act: func(r *checkRun) { r.s.ShuffleLeaders(r.Topic) }},
		{name: "leader-stops", what: "a leader is stopped while a " + what + " request is under way", fault: hits(Fault{Hold: true}, apis...),
			act: func(r *checkRun) { r.s.StopBroker(r.s.Leader(r.Topic, 0)) }},
		{name: "leader-dies", what: "a leader is killed while a " + what + " request is under way", fault: hits(Fault{Hold: true}, apis...),
			act: func(r *checkRun) { r.s.KillBroker(r.s.Leader(r.Topic, 0)) }},
		{name: "leader-silent", what: "a leader is silent for a while", fault: func(r *checkRun) Fault {
			return Fault{Broker: r.s.Leader(r.Topic, 0), Hold: true, Times: Always}
		}, act: func(r *checkRun) { time.Sleep(r.slow / 2) }},
		{name: "metadata-lost", what: "the answer to a metadata request is lost", fault: hits(Fault{DropReply: true}, kafka.Metadata)},
	}
}

// produceFaults are the faults for Code.Produce.
var produceFaults = append(append([]checkFault{{name: "undisturbed", what: nothing}}, onPath("produce", kafka.Produce)...),
	checkFault{name: "timeout-after", what: "a produce request is REQUEST_TIMED_OUT after it was served", fault: hits(Fault{Code: kafka.RequestTimedOut, AfterApply: true}, kafka.Produce)},
	checkFault{name: "few-replicas", what: "two produce requests are NOT_ENOUGH_REPLICAS", fault: hits(Fault{Code: kafka.NotEnoughReplicas, Times: 2}, kafka.Produce)},
	checkFault{name: "few-replicas-after", what: "a produce request is NOT_ENOUGH_REPLICAS_AFTER_APPEND after it was served",
		fault: hits(Fault{Code: kafka.NotEnoughReplicasAfterAppend, AfterApply: true}, kafka.Produce)},
)

// consumeFaults are the faults for Code.Consume.
var consumeFaults = append(append([]checkFault{{name: "undisturbed", what: nothing}}, onPath("fetch", kafka.Fetch)...),
	checkFault{name: "commit-request-lost", what: "a commit and all later requests of its connection are lost", fault: hits(Fault{DropRequest: true}, kafka.OffsetCommit)},
	checkFault{name: "commit-answer-lost", what: "the answer to a commit is lost", fault: hits(Fault{DropReply: true}, kafka.OffsetCommit)},
	checkFault{name: "commit-cut-after", what: "the connection is cut after a commit was served", fault: hits(Fault{Close: true, AfterApply: true}, kafka.OffsetCommit)},
	checkFault{name: "commit-refused", what: "two commits are COORDINATOR_LOAD_IN_PROGRESS", fault: hits(Fault{Code: kafka.CoordinatorLoadInProgress, Times: 2}, kafka.OffsetCommit)},
	checkFault{name: "put-out", what: "a heartbeat is UNKNOWN_MEMBER_ID", fault: hits(Fault{Code: kafka.UnknownMemberID}, heartbeats...)},
	checkFault{name: "coordinators-move", what: "all coordinators of groups move while a fetch request is under way", fault: hits(Fault{Hold: true}, kafka.Fetch),
		act: func(r *checkRun) { r.s.ShuffleLeaders("__consumer_offsets") }},
	checkFault{name: "member-joins", what: "a second member joins, and leaves again", joins: true},
	checkFault{name: "ended", what: "the consumer is ended in the middle of a record, and started again", ends: true},
)
