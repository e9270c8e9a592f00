package kafka

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestFetchResponsesAreEncodedAsKmsgEncodesThem(t *testing.T) {
	rack := "r1"
	for version := int16(4); version <= 18; version++ {
		r := kmsg.NewPtrFetchResponse()
		r.Version, r.ThrottleMillis, r.SessionID, r.ErrorCode = version, 7, 99, 3
		for i := range 3 {
			topic := kmsg.NewFetchResponseTopic()
			topic.Topic, topic.TopicID = "orders", [16]byte{1, byte(i)}
			for j, size := range []int{0, 10, sharedRecords, 3 * sharedRecords} {
				p := kmsg.NewFetchResponseTopicPartition()
				p.Partition, p.HighWatermark, p.LastStableOffset, p.LogStartOffset = int32(j), 5, 4, 3
				p.RecordBatches = bytes.Repeat([]byte{byte(j)}, size)
				if j > 0 {
					p.AbortedTransactions = make([]kmsg.FetchResponseTopicPartitionAbortedTransaction, j-1)
				}
				if j == 2 {
					p.DivergingEpoch.Epoch, p.DivergingEpoch.EndOffset = 4, 44
				}
				if j >= 2 {
					p.CurrentLeader.LeaderID, p.CurrentLeader.LeaderEpoch = 1, 2
				}
				topic.Partitions = append(topic.Partitions, p)
			}
			r.Topics = append(r.Topics, topic)
		}
		if version%2 == 0 {
			r.Brokers = []kmsg.FetchResponseBroker{{NodeID: 1, Host: "h", Port: 9092}, {NodeID: 2, Host: "i", Port: 9093, Rack: &rack}}
		}
		got := bytes.Join(appendFetch([]byte("head"), r), nil)
		require.Equal(t, append([]byte("head"), r.AppendTo(nil)...), got, "version %d", version)
	}
}
