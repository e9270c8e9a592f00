package kafkatest

import (
	"context"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

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

	joins bool // the code is called a second time beside the first one
	ends  bool // the code is ended in the middle of a record, and called again

	// cutsOff reports whether the code is cut off from the network at a request, as a program that
	// is killed there: the request is served only if served is set, and no later one is until the
	// call has returned. Then the code is called again. nil: it is not cut off.
	cutsOff func(x *kafka.Exchange) bool
	served  bool
}

const nothing = "nothing goes wrong"

// begin activates the fault. act waits for the first hit and calls the action of the fault. It
// returns at once if there is no action, when running ends, and after the time of a step.
func (f checkFault) begin(r *checkRun) (act func(running context.Context)) {
	if f.fault == nil {
		return func(context.Context) {}
	}
	hit := r.s.Fault(f.fault(r))
	return func(running context.Context) {
		if f.act == nil {
			return
		}
		ctx, cancel := r.s.boundedContext(running)
		defer cancel()
		if r.s.WaitUntil(ctx, func() bool { return hit.Hits() > 0 }) == nil {
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

// topicOf selects one of the topics of a run.
type topicOf func(*checkRun) string

func readTopic(r *checkRun) string    { return r.Topic }
func writtenTopic(r *checkRun) string { return r.Output }

// withMetadata returns faults and one of the metadata, which any code needs.
func withMetadata(faults []checkFault) []checkFault {
	return append(faults, checkFault{name: "metadata-lost", what: "the answer to a metadata request is lost", fault: hits(Fault{DropReply: true}, kafka.Metadata)})
}

// named returns faults whose names begin with prefix.
func named(prefix string, faults []checkFault) []checkFault {
	for i := range faults {
		faults[i].name = prefix + faults[i].name
	}
	return faults
}

// onPath returns the faults that hit one request of the API that transfers the records of a topic.
func onPath(what string, topic topicOf, apis ...kafka.Key) []checkFault {
	return []checkFault{
		{name: "request-lost", what: "a " + what + " request and all later ones of its connection are lost", fault: hits(Fault{DropRequest: true}, apis...)},
		{name: "answer-lost", what: "the answer to a " + what + " request and all later ones of its connection are lost", fault: hits(Fault{DropReply: true}, apis...)},
		{name: "late", what: "a " + what + " request is served late", fault: late(apis...)},
		{name: "cut-before", what: "the connection is cut by a " + what + " request, which is not served", fault: hits(Fault{Close: true}, apis...)},
		{name: "cut-after", what: "the connection is cut after a " + what + " request was served", fault: hits(Fault{Close: true, AfterApply: true}, apis...)},
		{name: "not-leader", what: "two " + what + " requests are NOT_LEADER_OR_FOLLOWER", fault: hits(Fault{Code: kafka.NotLeaderOrFollower, Times: 2}, apis...)},
		{name: "leaders-move", what: "all leaders move while a " + what + " request is under way", fault: hits(Fault{Hold: true}, apis...),
			act: func(r *checkRun) { r.s.ShuffleLeaders(topic(r)) }},
		{name: "leader-stops", what: "a leader is stopped while a " + what + " request is under way", fault: hits(Fault{Hold: true}, apis...),
			act: func(r *checkRun) { r.s.StopBroker(r.s.Leader(topic(r), 0)) }},
		{name: "leader-dies", what: "a leader is killed while a " + what + " request is under way", fault: hits(Fault{Hold: true}, apis...),
			act: func(r *checkRun) { r.s.KillBroker(r.s.Leader(topic(r), 0)) }},
		{name: "leader-silent", what: "a leader is silent for a while", fault: func(r *checkRun) Fault {
			return Fault{Broker: r.s.Leader(topic(r), 0), Hold: true, Times: Always}
		}, act: func(r *checkRun) { time.Sleep(r.slow / 2) }},
	}
}

// produceFaults are the faults for Code.Produce.
var produceFaults = append(append([]checkFault{{name: "undisturbed", what: nothing}}, withMetadata(onPath("produce", readTopic, kafka.Produce))...),
	checkFault{name: "timeout-after", what: "a produce request is REQUEST_TIMED_OUT after it was served", fault: hits(Fault{Code: kafka.RequestTimedOut, AfterApply: true}, kafka.Produce)},
	checkFault{name: "few-replicas", what: "two produce requests are NOT_ENOUGH_REPLICAS", fault: hits(Fault{Code: kafka.NotEnoughReplicas, Times: 2}, kafka.Produce)},
	checkFault{name: "few-replicas-after", what: "a produce request is NOT_ENOUGH_REPLICAS_AFTER_APPEND after it was served",
		fault: hits(Fault{Code: kafka.NotEnoughReplicasAfterAppend, AfterApply: true}, kafka.Produce)},
)

// onCall returns the faults that hit one request of an API whose response the code waits for.
func onCall(name, what string, apis ...kafka.Key) []checkFault {
	return []checkFault{
		{name: name + "-request-lost", what: "a " + what + " and all later requests of its connection are lost", fault: hits(Fault{DropRequest: true}, apis...)},
		{name: name + "-answer-lost", what: "the answer to a " + what + " is lost", fault: hits(Fault{DropReply: true}, apis...)},
		{name: name + "-cut-after", what: "the connection is cut after a " + what + " was served", fault: hits(Fault{Close: true, AfterApply: true}, apis...)},
	}
}

// loading returns the fault of a coordinator that is loading.
func loading(name, what string, apis ...kafka.Key) checkFault {
	return checkFault{name: name + "-refused", what: "two " + what + "s are COORDINATOR_LOAD_IN_PROGRESS", fault: hits(Fault{Code: kafka.CoordinatorLoadInProgress, Times: 2}, apis...)}
}

// coordinatorsMove returns the fault that moves the coordinators that an internal topic has.
func coordinatorsMove(name, of, internal string, apis ...kafka.Key) checkFault {
	return checkFault{name: name, what: "all coordinators of " + of + " move while a request is under way", fault: hits(Fault{Hold: true}, apis...),
		act: func(r *checkRun) { r.s.ShuffleLeaders(internal) }}
}

// consumeFaults are the faults for Code.Consume.
var consumeFaults = slices.Concat([]checkFault{{name: "undisturbed", what: nothing}}, withMetadata(onPath("fetch", readTopic, kafka.Fetch)), onCall("commit", "commit", kafka.OffsetCommit), []checkFault{
	loading("commit", "commit", kafka.OffsetCommit),
	{name: "put-out", what: "a heartbeat is UNKNOWN_MEMBER_ID", fault: hits(Fault{Code: kafka.UnknownMemberID}, heartbeats...)},
	coordinatorsMove("coordinators-move", "groups", "__consumer_offsets", kafka.Fetch),
	{name: "member-joins", what: "a second member joins, and leaves again", joins: true},
	{name: "ended", what: "the consumer is ended in the middle of a record, and started again", ends: true},
})

// transformFaults are the faults for Code.Transform.
var transformFaults = slices.Concat([]checkFault{{name: "undisturbed", what: nothing}},
	named("fetch-", onPath("fetch", readTopic, kafka.Fetch)),
	named("produce-", withMetadata(onPath("produce", writtenTopic, kafka.Produce))),
	onCall("offsets", "commit of offsets in a transaction", kafka.TxnOffsetCommit),
	onCall("end", "request that ends a transaction", kafka.EndTxn),
	[]checkFault{
		loading("offsets", "commit of offsets in a transaction", kafka.TxnOffsetCommit),
		loading("end", "request that ends a transaction", kafka.EndTxn),
		{name: "put-out", what: "a heartbeat is UNKNOWN_MEMBER_ID", fault: hits(Fault{Code: kafka.UnknownMemberID}, heartbeats...),
			act: func(*checkRun) {}}, // a heartbeat comes seconds later than the records
		coordinatorsMove("coordinators-move", "groups", "__consumer_offsets", kafka.Produce),
		coordinatorsMove("transactions-move", "transactions", "__transaction_state", kafka.Produce),
		{name: "member-joins", what: "a second member joins, and leaves again", joins: true},
		{name: "ended", what: "the transformer is ended in the middle of a record, and started again", ends: true},
		{name: "killed-before-end", what: "the transformer is cut off before it ends a transaction, and started again", cutsOff: endsTransaction},
		{name: "killed-after-end", what: "the transformer is cut off after it has ended a transaction, and started again", cutsOff: endsTransaction, served: true},
	})

// endsTransaction reports whether a request commits a transaction.
func endsTransaction(x *kafka.Exchange) bool {
	req, ok := x.Request.(*kmsg.EndTxnRequest)
	return ok && req.Commit
}

// workFaults are the faults for Code.Work.
var workFaults = slices.Concat([]checkFault{{name: "undisturbed", what: nothing}},
	withMetadata(onPath("share fetch", readTopic, kafka.ShareFetch)),
	onCall("acknowledgement", "share acknowledgement", kafka.ShareAcknowledge),
	[]checkFault{
		{name: "session-lost", what: "a share fetch is SHARE_SESSION_NOT_FOUND", fault: hits(Fault{Code: kafka.ShareSessionNotFound}, kafka.ShareFetch)},
		{name: "put-out", what: "a heartbeat is UNKNOWN_MEMBER_ID", fault: hits(Fault{Code: kafka.UnknownMemberID}, kafka.ShareGroupHeartbeat),
			act: func(*checkRun) {}},
		coordinatorsMove("coordinators-move", "groups", "__consumer_offsets", kafka.ShareFetch),
		coordinatorsMove("states-move", "the states of share groups", "__share_group_state", kafka.ShareFetch),
		{name: "member-joins", what: "a second member joins, and leaves again", joins: true},
		{name: "ended", what: "the member is ended in the middle of a record, and started again", ends: true},
		{name: "killed-before-acknowledgement", what: "the member is cut off before it acknowledges, and started again", cutsOff: acknowledges},
		{name: "killed-after-acknowledgement", what: "the member is cut off after it has acknowledged, and started again", cutsOff: acknowledges, served: true},
	})

// acknowledges reports whether a request has acknowledgements of a share group.
func acknowledges(x *kafka.Exchange) bool {
	for range acksIn(x.Request) {
		return true
	}
	return false
}
