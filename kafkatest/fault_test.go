package kafkatest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata/kafka"
)

// ids are the topics whose ids the interceptors of these tests resolve.
var ids = map[[16]byte]string{{1}: "a", {2}: "b"}

func testInterceptor() *interceptor {
	return newInterceptor(func(id [16]byte) string { return ids[id] }, func(string) {}, nil)
}

func ask(in *interceptor, req kmsg.Request) kafka.Action {
	return in.Before(&kafka.Exchange{Broker: 1, ClientID: "c", Key: req.Key(), Version: req.GetVersion(), Request: req, Received: time.Now()})
}

func produceRequest(acks int16, parts ...target) *kmsg.ProduceRequest {
	req := kmsg.NewPtrProduceRequest()
	req.Version, req.Acks = 9, acks
	for _, p := range parts {
		t := kmsg.NewProduceRequestTopic()
		t.Topic, t.TopicID = p.topic, p.id
		t.Partitions = append(t.Partitions, kmsg.ProduceRequestTopicPartition{Partition: p.partition})
		req.Topics = append(req.Topics, t)
	}
	return req
}

func TestFaultsThatCannotBeMeantAreRefused(t *testing.T) {
	pass := func(*kafka.Exchange) *Effect { return nil }
	for want, fs := range map[error][]Fault{
		errNoEffect:   {{}, {APIs: []kafka.Key{kafka.Fetch}, Times: 3}},
		errTwoEffects: {{Code: 1, Close: true}, {DropReply: true, DropRequest: true}, {Edit: func(kmsg.Request, kmsg.Response) {}, Code: 1}},
		errAfterApply: {{DropRequest: true, AfterApply: true}, {Delay: 1, AfterApply: true}},
		errDecides:    {{Decide: pass, Close: true}, {Decide: pass, Delay: 1}, {Decide: pass, Code: 1, Close: true}, {Decide: pass, AfterApply: true}},
		errNegative:   {{Code: 1, Skip: -1}, {Code: 1, Times: -2}, {Delay: -1}},
		nil:           {{DropReply: true, AfterApply: true}, {Code: 1, Delay: 1, Hold: true, Throttle: 1, AfterApply: true, Times: Always}, {Hold: true}, {Decide: pass, Skip: 1, Times: 2}},
	} {
		for _, f := range fs {
			require.Equal(t, want, f.check(), "%+v", f)
		}
	}
	f := &fakeT{}
	require.Contains(t, f.run(func() { New(f, Config{Pipe: true}).Fault(Fault{}) }), errNoEffect.Error())
}

func TestFaultSelectsByEverythingItNames(t *testing.T) {
	heartbeat := kmsg.NewPtrHeartbeatRequest()
	heartbeat.Group = "g"
	commit := kmsg.NewPtrOffsetCommitRequest()
	commit.Group = "g"
	commit.Topics = []kmsg.OffsetCommitRequestTopic{{Topic: "a", Partitions: []kmsg.OffsetCommitRequestTopicPartition{{Partition: 3}}}}
	produce, byID := produceRequest(-1, target{topic: "a", partition: 3}), produceRequest(-1, target{id: [16]byte{1}, partition: 3})
	everything := kmsg.NewPtrMetadataRequest()
	some := kmsg.NewPtrMetadataRequest()
	some.Topics = []kmsg.MetadataRequestTopic{{Topic: kmsg.StringPtr("b")}}
	init, end, find, inTxn := kmsg.NewPtrInitProducerIDRequest(), kmsg.NewPtrEndTxnRequest(), kmsg.NewPtrFindCoordinatorRequest(), produceRequest(-1, target{topic: "b"})
	find.Version, find.CoordinatorType, find.CoordinatorKeys = 4, 1, []string{"x", "t"}
	init.TransactionalID, inTxn.TransactionID, end.TransactionalID = kmsg.StringPtr("t"), kmsg.StringPtr("t"), "u"
	reqs := map[string]kmsg.Request{"init": init, "end": end, "find": find, "in a transaction": inTxn, "heartbeat": heartbeat, "commit": commit, "produce": produce, "by id": byID, "all": everything, "some": some}
	for _, c := range []struct {
		name  string
		fault Fault
		hits  []string
	}{
		{"nothing", Fault{}, []string{"heartbeat", "commit", "produce", "by id", "all", "some", "init", "end", "find", "in a transaction"}},
		{"APIs", Fault{APIs: []kafka.Key{kafka.Produce, kafka.Heartbeat}}, []string{"heartbeat", "produce", "by id", "in a transaction"}},
		{"transaction", Fault{TransactionalID: "t"}, []string{"init", "find", "in a transaction"}},
		{"another transaction", Fault{TransactionalID: "u"}, []string{"end"}},
		{"transaction and topic", Fault{TransactionalID: "t", Topic: "b"}, []string{"in a transaction"}},
		{"no group of that name", Fault{Group: "t"}, nil},
		{"group", Fault{Group: "g"}, []string{"heartbeat", "commit"}},
		{"another group", Fault{Group: "h"}, nil},
		{"topic", Fault{Topic: "a"}, []string{"commit", "produce", "by id", "all"}},
		{"topic and group", Fault{Topic: "a", Group: "g"}, []string{"commit"}},
		{"partition", Fault{Topic: "a", Partitions: []int32{1, 3}}, []string{"commit", "produce", "by id", "all"}},
		{"another partition", Fault{Partitions: []int32{2}}, []string{"all"}},
		{"broker", Fault{Broker: 2}, nil},
		{"this broker", Fault{Broker: 1, ClientID: "c", Group: "g"}, []string{"heartbeat", "commit"}},
		{"client", Fault{ClientID: "d"}, nil},
		{"predicate", Fault{Match: func(x *kafka.Exchange) bool { return x.Version == 9 }}, []string{"produce", "by id", "in a transaction"}},
	} {
		var hits []string
		for name, req := range reqs {
			in := testInterceptor()
			f := c.fault
			f.Code = kafka.UnknownServerError
			j := in.inject(f)
			ask(in, req)
			if j.Hits() > 0 {
				hits = append(hits, name)
			}
		}
		require.ElementsMatch(t, c.hits, hits, c.name)
	}
}

func TestFaultSkipsThenHitsSoManyTimes(t *testing.T) {
	count := func(f Fault, requests int) (pattern string) {
		in := testInterceptor()
		f.Close = true
		in.inject(f)
		for range requests {
			if ask(in, kmsg.NewPtrHeartbeatRequest()).CloseBefore {
				pattern += "x"
			} else {
				pattern += "."
			}
		}
		return pattern
	}
	require.Equal(t, "x....", count(Fault{}, 5))
	require.Equal(t, "..xx.", count(Fault{Skip: 2, Times: 2}, 5))
	require.Equal(t, ".xxxx", count(Fault{Skip: 1, Times: Always}, 5))
}

func TestFaultsThatAreDueHitTogetherAndTheFirstDecides(t *testing.T) {
	in := testInterceptor()
	late := in.inject(Fault{Skip: 1, Delay: time.Second})
	closes := in.inject(Fault{Times: Always, Close: true})
	held := in.inject(Fault{Hold: true, Delay: time.Minute, Throttle: time.Second})
	fails := in.inject(Fault{Code: kafka.NotCoordinator})
	edits := in.inject(Fault{Edit: func(kmsg.Request, kmsg.Response) {}})
	hits := func() (n []int) {
		for _, j := range []*Injected{late, closes, held, fails, edits} {
			n = append(n, j.Hits())
		}
		return n
	}
	a := ask(in, kmsg.NewPtrHeartbeatRequest())
	require.True(t, a.CloseBefore)
	require.Equal(t, []any{time.Minute, 1, int32(1000)}, []any{a.Delay, len(a.Holds), a.ThrottleMs})
	require.Equal(t, []int{0, 1, 1, 0, 0}, hits(), "what has no effect beside an earlier one stays due")
	require.Equal(t, kafka.Action{CloseBefore: true, Delay: time.Second}, ask(in, kmsg.NewPtrHeartbeatRequest()))
	closes.Remove()
	closes.Remove()
	a = ask(in, kmsg.NewPtrHeartbeatRequest())
	require.NotNil(t, a.Respond)
	require.NotNil(t, a.Edit)
	require.Equal(t, []int{1, 2, 1, 1, 1}, hits())
	require.Equal(t, kafka.Action{}, ask(in, kmsg.NewPtrHeartbeatRequest()))
}

func TestEditsFollowEachOther(t *testing.T) {
	in := testInterceptor()
	for _, code := range []int16{0, 27, 25} {
		in.inject(Fault{Edit: func(_ kmsg.Request, resp kmsg.Response) {
			beat := resp.(*kmsg.HeartbeatResponse)
			beat.ErrorCode, beat.ThrottleMillis = code, 10*beat.ThrottleMillis+int32(code)
		}})
	}
	req, resp := kmsg.NewPtrHeartbeatRequest(), kmsg.NewPtrHeartbeatResponse()
	ask(in, req).Edit(req, resp)
	require.Equal(t, []any{int16(25), int32(295)}, []any{resp.ErrorCode, resp.ThrottleMillis})
}

func TestDecideChoosesForEachRequest(t *testing.T) {
	in := testInterceptor()
	version := func(v int16) kmsg.Request {
		req := kmsg.NewPtrHeartbeatRequest()
		req.Version = v
		return req
	}
	j := in.inject(Fault{APIs: []kafka.Key{kafka.Heartbeat}, Decide: func(x *kafka.Exchange) *Effect {
		switch x.Version {
		case 1:
			return &Effect{Delay: time.Second, DropReply: true}
		case 2:
			return &Effect{Code: kafka.RebalanceInProgress}
		case 3:
			return &Effect{Hold: true}
		case 4:
			return &Effect{Code: 1, Close: true}
		}
		return nil
	}})
	require.Equal(t, kafka.Action{}, ask(in, version(0)))
	require.Equal(t, int16(kafka.RebalanceInProgress), ask(in, version(2)).Respond(version(2)).(*kmsg.HeartbeatResponse).ErrorCode)
	require.Len(t, ask(in, version(3)).Holds, 1)
	require.Equal(t, kafka.Action{}, ask(in, kmsg.NewPtrMetadataRequest()))
	require.Equal(t, kafka.Action{CloseBefore: true}, ask(in, version(4)))
	require.Equal(t, errTwoEffects, in.misuse)
	require.Equal(t, 3, j.Hits())
	require.Equal(t, kafka.Action{Delay: time.Second, DropReply: true}, ask(in, version(1)))
}

func TestHoldEndsWithReleaseAndRemove(t *testing.T) {
	for _, end := range []func(*Injected){(*Injected).Release, (*Injected).Remove} {
		in := testInterceptor()
		j := in.inject(Fault{Hold: true, Times: Always})
		held := ask(in, kmsg.NewPtrHeartbeatRequest()).Holds[0]
		select {
		case <-held:
			t.Fatal("not held")
		default:
		}
		end(j)
		end(j)
		<-held
	}
}

func TestEffectsBecomeActions(t *testing.T) {
	for _, c := range []struct {
		fault Fault
		want  kafka.Action
	}{
		{Fault{DropRequest: true}, kafka.Action{DropRequest: true}},
		{Fault{DropReply: true}, kafka.Action{DropReply: true}},
		{Fault{Close: true}, kafka.Action{CloseBefore: true}},
		{Fault{Close: true, AfterApply: true}, kafka.Action{CloseAfter: true}},
		{Fault{Delay: time.Minute, Throttle: 1500 * time.Microsecond}, kafka.Action{Delay: time.Minute, ThrottleMs: 1}},
	} {
		in := testInterceptor()
		in.inject(c.fault)
		require.Equal(t, c.want, ask(in, kmsg.NewPtrHeartbeatRequest()))
	}
	in := testInterceptor()
	in.inject(Fault{Respond: func(_ kmsg.Request, resp kmsg.Response) { resp.(*kmsg.HeartbeatResponse).ErrorCode = 27 }})
	req := kmsg.NewPtrHeartbeatRequest()
	req.Version = 3
	resp := ask(in, req).Respond(req)
	require.Equal(t, int16(27), resp.(*kmsg.HeartbeatResponse).ErrorCode)
	require.Equal(t, int16(3), resp.GetVersion())
}

func TestCodeFailsWhatIsSelectedAndTheRestIsServed(t *testing.T) {
	in := testInterceptor()
	in.inject(Fault{Topic: "a", Code: kafka.NotLeaderOrFollower})
	req := produceRequest(-1, target{topic: "a", partition: 1}, target{topic: "b", partition: 1})
	a := ask(in, req)
	require.Nil(t, a.Respond)
	require.Equal(t, []target{{topic: "b", partition: 1}}, targets(a.Serve))
	resp := errorResponse(a.Serve, 0, true) // as if served
	a.Edit(a.Serve, resp)
	topics := resp.(*kmsg.ProduceResponse).Topics
	require.Len(t, topics, 2)
	require.Zero(t, topics[0].Partitions[0].ErrorCode)
	require.Equal(t, "a", topics[1].Topic)
	require.Equal(t, int16(kafka.NotLeaderOrFollower), topics[1].Partitions[0].ErrorCode)
	require.Len(t, req.Topics, 2)
}

func TestCodeAfterApplyServesEverything(t *testing.T) {
	for _, topic := range []string{"", "a"} {
		in := testInterceptor()
		in.inject(Fault{Topic: topic, Code: kafka.NotLeaderOrFollower, AfterApply: true})
		req := produceRequest(-1, target{topic: "a", partition: 1}, target{topic: "b", partition: 1})
		a := ask(in, req)
		require.Nil(t, a.Respond)
		require.Nil(t, a.Serve)
		resp := errorResponse(req, 0, true)
		a.Edit(req, resp)
		topics := resp.(*kmsg.ProduceResponse).Topics
		require.Equal(t, int16(kafka.NotLeaderOrFollower), topics[0].Partitions[0].ErrorCode)
		require.Equal(t, topic == "", topics[1].Partitions[0].ErrorCode != 0)
	}
}

func TestCodeCostsUnacknowledgedProducersTheirConnection(t *testing.T) {
	for _, after := range []bool{false, true} {
		in := testInterceptor()
		in.inject(Fault{Code: kafka.NotLeaderOrFollower, AfterApply: after})
		require.Equal(t, kafka.Action{CloseBefore: !after, CloseAfter: after}, ask(in, produceRequest(0, target{topic: "a"})))
	}
}

func TestMetadataIsServedAndThenSpoilt(t *testing.T) {
	in := testInterceptor()
	in.inject(Fault{Topic: "a", Code: kafka.LeaderNotAvailable})
	a := ask(in, kmsg.NewPtrMetadataRequest())
	require.Nil(t, a.Respond)
	resp := kmsg.NewPtrMetadataResponse()
	resp.Brokers = []kmsg.MetadataResponseBroker{{NodeID: 1}}
	resp.Topics = []kmsg.MetadataResponseTopic{{Topic: kmsg.StringPtr("a")}, {Topic: kmsg.StringPtr("b")}}
	a.Edit(nil, resp)
	require.Len(t, resp.Brokers, 1)
	require.Equal(t, int16(kafka.LeaderNotAvailable), resp.Topics[0].ErrorCode)
	require.Zero(t, resp.Topics[1].ErrorCode)

	in.inject(Fault{Code: kafka.RebootstrapRequired})
	req := kmsg.NewPtrMetadataRequest()
	req.Version = 13
	require.Equal(t, int16(kafka.RebootstrapRequired), ask(in, req).Respond(req).(*kmsg.MetadataResponse).ErrorCode)
}

func TestFetchOfASessionIsSelectedByWhatTheSessionReads(t *testing.T) {
	in := testInterceptor()
	full := kmsg.NewPtrFetchRequest()
	full.Version, full.SessionEpoch = 13, 0
	full.Topics = []kmsg.FetchRequestTopic{
		{TopicID: [16]byte{1}, Partitions: []kmsg.FetchRequestTopicPartition{{Partition: 0}, {Partition: 1}}},
		{TopicID: [16]byte{2}, Partitions: []kmsg.FetchRequestTopicPartition{{Partition: 0}}}}
	begun := kmsg.NewPtrFetchResponse()
	begun.SessionID = 77
	x := &kafka.Exchange{Broker: 1, Key: 1, Version: 13, Request: full}
	in.Before(x)
	x.Response = begun
	in.After(x)

	j := in.inject(Fault{Topic: "a", Code: kafka.NotLeaderOrFollower, Times: Always})
	next := kmsg.NewPtrFetchRequest()
	next.Version, next.SessionID, next.SessionEpoch, next.MaxWaitMillis = 13, 77, 1, 500
	a := ask(in, next)
	require.Equal(t, 1, j.Hits())
	require.Zero(t, a.Serve.(*kmsg.FetchRequest).MaxWaitMillis, "an error is answered at once")
	require.Equal(t, int32(500), next.MaxWaitMillis)
	resp := kmsg.NewPtrFetchResponse()
	resp.Version, resp.SessionID = 13, 77
	a.Edit(next, resp)
	require.Equal(t, int32(77), resp.SessionID)
	require.Len(t, resp.Topics, 1)
	require.Equal(t, [16]byte{1}, resp.Topics[0].TopicID)
	require.Len(t, resp.Topics[0].Partitions, 2)
	require.Equal(t, []kafka.Code{kafka.NotLeaderOrFollower}, Codes(resp))

	forget := kmsg.NewPtrFetchRequest()
	forget.Version, forget.SessionID, forget.SessionEpoch = 13, 77, 2
	forget.ForgottenTopics = []kmsg.FetchRequestForgottenTopic{{TopicID: [16]byte{1}, Partitions: []int32{0, 1}}}
	require.Equal(t, kafka.Action{}, ask(in, forget))
	require.Equal(t, 1, j.Hits())

	in.inject(Fault{Code: kafka.FetchSessionIDNotFound})
	last := kmsg.NewPtrFetchRequest()
	last.Version, last.SessionID, last.SessionEpoch = 13, 77, 3
	lost := ask(in, last).Respond(last).(*kmsg.FetchResponse)
	require.Equal(t, int16(kafka.FetchSessionIDNotFound), lost.ErrorCode)
	require.Empty(t, lost.Topics)
}

func TestSessionsFollowedAreBounded(t *testing.T) {
	var s sessions
	for i := range int32(maxSessions + 100) {
		req, resp := kmsg.NewPtrFetchRequest(), kmsg.NewPtrFetchResponse()
		req.SessionEpoch, resp.SessionID = 0, i+1
		s.response(1, req, resp)
	}
	require.LessOrEqual(t, len(s.byID), maxSessions)
	closing := kmsg.NewPtrFetchRequest()
	closing.SessionID, closing.SessionEpoch = maxSessions+100, -1
	s.request(1, closing)
	require.NotContains(t, s.byID, sessionID{1, closing.SessionID})
}
