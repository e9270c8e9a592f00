package kafka

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata/transaction"
)

// endTxn serves EndTxn. From version 2 on clients handle PRODUCER_FENCED. Clients with
// transaction.version 2 send version 5, and continue with the producer id and epoch in the
// response. Key 26, versions 0 to 5.
func (c *call) endTxn(req *kmsg.EndTxnRequest) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.EndTxnResponse)
	r := transaction.EndRequest{ID: req.TransactionalID, Producer: transaction.Producer{ID: req.ProducerID, Epoch: req.ProducerEpoch}, Commit: req.Commit}
	if c.version >= 5 {
		r.Version = 2
	}
	next, err := c.transactions.End(c.ctx, r)
	if err != nil {
		next = transaction.NoProducer
	}
	resp.ErrorCode, resp.ProducerID, resp.ProducerEpoch = c.fencedCode(err, 2), next.ID, next.Epoch
	return resp
}
