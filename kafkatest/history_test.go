package kafkatest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata/kafka"
)

func TestHistoryKeepsTheLastExchangesInOrder(t *testing.T) {
	var h history
	for i := range int32(HistorySize + 10) {
		x := &kafka.Exchange{Key: int16(kafka.Heartbeat), Correlation: i, Request: kmsg.NewPtrHeartbeatRequest()}
		h.begin(x)
		if i%2 == 0 {
			x.Response = kmsg.NewPtrHeartbeatResponse()
			h.end(x)
		}
	}
	all := h.all()
	require.Len(t, all, HistorySize)
	for i, x := range all {
		require.Equal(t, int32(i+10), x.Correlation)
		require.Equal(t, i%2 == 0, x.Response != nil)
	}
	require.Len(t, h.open, HistorySize/2, "those forgotten without an answer")
	require.Len(t, h.byPos, HistorySize/2)
	require.Equal(t, HistorySize+10, h.total)
}

func TestHistoryHoldsNoRecords(t *testing.T) {
	var h history
	produce := produceRequest(-1, target{topic: "a"})
	produce.Topics[0].Partitions[0].Records = []byte("records")
	h.begin(&kafka.Exchange{Request: produce})
	require.Nil(t, h.all()[0].Request.(*kmsg.ProduceRequest).Topics[0].Partitions[0].Records)
	require.NotNil(t, produce.Topics[0].Partitions[0].Records)

	resp := kmsg.NewPtrFetchResponse()
	resp.Topics = []kmsg.FetchResponseTopic{{Topic: "a", Partitions: []kmsg.FetchResponseTopicPartition{{RecordBatches: []byte("records")}}}}
	x := &kafka.Exchange{Request: kmsg.NewPtrFetchRequest()}
	h.begin(x)
	x.Response = resp
	h.end(x)
	require.Nil(t, h.all()[1].Response.(*kmsg.FetchResponse).Topics[0].Partitions[0].RecordBatches)
	require.NotNil(t, resp.Topics[0].Partitions[0].RecordBatches)
}

func TestDumpNamesWhatWasAskedAndAnswered(t *testing.T) {
	var h history
	now := time.Now()
	commit := kmsg.NewPtrOffsetCommitRequest()
	commit.Group = "g"
	commit.Topics = []kmsg.OffsetCommitRequestTopic{{Topic: "a", Partitions: []kmsg.OffsetCommitRequestTopicPartition{{Partition: 3}}}}
	x := &kafka.Exchange{Broker: 2, Conn: 4, ClientID: "c", Key: int16(kafka.OffsetCommit), Version: 8, Request: commit, Received: now.Add(-time.Second)}
	h.begin(x)
	x.Response, x.Answered = errorResponse(commit, kafka.RebalanceInProgress, false), now.Add(-500*time.Millisecond)
	h.end(x)
	h.begin(&kafka.Exchange{Key: int16(kafka.Heartbeat), Request: kmsg.NewPtrHeartbeatRequest(), Received: now})
	text := h.dump(10, now, noNames)
	require.Contains(t, text, "2 requests so far")
	require.Contains(t, text, `1s ago  broker 2 conn 4 "c"          OffsetCommit v8 group "g" topic "a"-3  answered after 500ms REBALANCE_IN_PROGRESS`)
	require.Contains(t, text, "Heartbeat v0  in progress")
}

// A refused commit explains why a group has no offset. Twenty-six long polls came after it.
func TestDumpShowsFailuresAndFaultsBehindManyPolls(t *testing.T) {
	var h history
	now := time.Now()
	exchange := func(age time.Duration, req kmsg.Request, code kafka.Code, disturbed bool) {
		x := &kafka.Exchange{Broker: 1, ClientID: "c", Key: req.Key(), Request: req, Received: now.Add(-age)}
		h.begin(x)
		if disturbed {
			h.disturb(x, nil)
		}
		x.Response, x.Answered = errorResponse(req, code, false), x.Received.Add(time.Millisecond)
		h.end(x)
	}
	commit := func(group string) kmsg.Request {
		r := kmsg.NewPtrOffsetCommitRequest()
		r.Group, r.Topics = group, []kmsg.OffsetCommitRequestTopic{{Topic: "a", Partitions: []kmsg.OffsetCommitRequestTopicPartition{{}}}}
		return r
	}
	exchange(time.Hour, commit("early"), 0, false)
	exchange(50*time.Minute, commit("refused"), kafka.IllegalGeneration, false)
	exchange(49*time.Minute, commit("refused"), kafka.IllegalGeneration, false)
	exchange(48*time.Minute, kmsg.NewPtrListGroupsRequest(), 0, true)
	for i := range 2 * dumped {
		exchange(time.Duration(2*dumped-i)*time.Second, kmsg.NewPtrFetchRequest(), 0, false)
		exchange(time.Duration(2*dumped-i)*time.Second, kmsg.NewPtrHeartbeatRequest(), 0, false)
	}
	text := h.dump(2, now, noNames)
	require.Equal(t, 5, strings.Count(text, "\n"), text)
	require.Contains(t, text, "124 requests so far, 1 kinds of earlier ones left out:\n")
	require.Contains(t, text, `49m0s ago  broker 1 conn 0 "c"          OffsetCommit v0 group "refused" topic "a"-0  answered after 1ms ILLEGAL_GENERATION, and 1 alike since 50m0s ago`)
	require.Contains(t, text, "ListGroups v0  answered after 1ms (hit by a fault)\n")
	require.Contains(t, text, "Fetch v0  answered after 1ms, and 59 alike since 1m0s ago\n")
	require.Contains(t, h.dump(dumped, now, noNames), `group "early"`)
	for i := range 2 * mostNoteworthy {
		exchange(0, commit(fmt.Sprint("g", i)), kafka.IllegalGeneration, false)
	}
	require.Equal(t, mostNoteworthy+3, strings.Count(h.dump(2, now, noNames), "\n"), "it is bounded")
}

func noNames([16]byte) string { return "" }
