package kafka

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestEveryApiAllowsRequestsOfAtLeastAMegabyte(t *testing.T) {
	for _, a := range apis {
		limit := 256 << 20 / inflation(int16(a.key))
		t.Logf("%v: %d bytes of memory for one of the request, at most %d KiB", a.key, inflation(int16(a.key)), limit>>10)
		least := 1 << 20
		if a.key == StreamsGroupHeartbeat { // a topology has lists of lists of lists; it goes into one batch
			least = 800 << 10
		}
		require.Greater(t, limit, least, a.key)
	}
}

func TestProduceRequestsAreWalkedOverBeforeTheyAreDecoded(t *testing.T) {
	txn := "txn"
	req := kmsg.NewPtrProduceRequest()
	req.TransactionID = &txn
	for range 3 {
		topic := kmsg.NewProduceRequestTopic()
		topic.Topic = "orders"
		for range 2 {
			p := kmsg.NewProduceRequestTopicPartition()
			p.Records = []byte("records")
			topic.Partitions = append(topic.Partitions, p)
		}
		req.Topics = append(req.Topics, topic)
	}
	for version := int16(3); version <= 13; version++ {
		req.SetVersion(version)
		body := req.AppendTo(nil)
		require.NoError(t, checkProduce(body, version), "version %d", version)
		for cut := range len(body) - 1 { // the request's own tags, its last byte, are not checked
			require.ErrorIs(t, checkProduce(body[:cut], version), errMalformed, "version %d cut at %d", version, cut)
		}
	}
	many := kmsg.NewPtrProduceRequest()
	many.Topics = make([]kmsg.ProduceRequestTopic, maxProducePartitions+1)
	many.SetVersion(9)
	require.ErrorIs(t, checkProduce(many.AppendTo(nil), 9), errMalformed)
}
