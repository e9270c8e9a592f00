package kafka

import (
	"github.com/twmb/franz-go/pkg/kmsg"
)

// describeTransactions serves DescribeTransactions (KIP-664): the transactional ids that this
// broker coordinates. Each has its own error. Key 65, version 0.
func (c *call) describeTransactions(req *kmsg.DescribeTransactionsRequest) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.DescribeTransactionsResponse)
	for _, id := range each(c, req.TransactionalIDs) {
		s := kmsg.NewDescribeTransactionsResponseTransactionState()
		s.TransactionalID = id
		if d, err := c.transactions.Describe(c.ctx, id); err != nil {
			s.ErrorCode = c.errorCode(err)
		} else {
			s.State, s.TimeoutMillis, s.ProducerID, s.ProducerEpoch = d.State.String(), int32(d.Timeout.Milliseconds()), d.Producer.ID, d.Producer.Epoch
			if s.StartTimestamp = -1; !d.Started.IsZero() {
				s.StartTimestamp = d.Started.UnixMilli()
			}
			for i, tp := range d.Partitions { // by topic
				if i == 0 || d.Partitions[i-1].Topic != tp.Topic {
					t := kmsg.NewDescribeTransactionsResponseTransactionStateTopic()
					t.Topic = tp.Topic
					s.Topics = append(s.Topics, t)
				}
				last := &s.Topics[len(s.Topics)-1]
				last.Partitions = append(last.Partitions, tp.Partition)
			}
		}
		resp.TransactionStates = append(resp.TransactionStates, s)
	}
	return resp
}
