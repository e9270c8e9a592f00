package remote

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/record"
)

// requests returns the batches of the requests that a queue sends, by their numbers.
func requests(batches ...*partition.ProduceRequest) (sent [][]byte) {
	q := &sendQueue{w: &writer{}, waiting: batches}
	for len(q.waiting) > 0 {
		var numbers []byte
		for _, b := range q.nextLocked() {
			numbers = append(numbers, b.Batch[0])
		}
		sent = append(sent, numbers)
	}
	return sent
}

func batchFor(p int32, number byte, size int) *partition.ProduceRequest {
	return &partition.ProduceRequest{TopicPartition: record.TopicPartition{Topic: "t", Partition: p}, Batch: append(make([]byte, 0, size), append([]byte{number}, make([]byte, size-1)...)...)}
}

func TestBatchesOfOnePartitionStayInOrder(t *testing.T) {
	require.Equal(t, [][]byte{{1, 3, 5}, {2, 4}}, requests(batchFor(0, 1, 9), batchFor(0, 2, 9), batchFor(1, 3, 9), batchFor(1, 4, 9), batchFor(2, 5, 9)), "one of each partition in a request")

	large, small := batchFor(1, 2, requestBytes), batchFor(1, 3, 9)
	require.Equal(t, [][]byte{{1}, {2}, {3}}, requests(batchFor(0, 1, 9), large, small), "a batch that does not fit is not overtaken")

	other := batchFor(0, 2, 9)
	other.TransactionalID = "id"
	require.Equal(t, [][]byte{{1, 4}, {2}, {3}}, requests(batchFor(0, 1, 9), other, batchFor(0, 3, 9), batchFor(1, 4, 9)), "nor is one of a transaction")
}
