package kafkatest

import (
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
	text := h.dump(10, now)
	require.Contains(t, text, "2 requests so far")
	require.Contains(t, text, `1s ago  broker 2 conn 4 "c"          OffsetCommit v8 group "g" topic "a"-3  answered after 500ms REBALANCE_IN_PROGRESS`)
	require.Contains(t, text, "Heartbeat v0  in progress")
	require.NotContains(t, h.dump(1, now), "OffsetCommit")
	require.Contains(t, h.dump(1, now), "the last 1")
}
