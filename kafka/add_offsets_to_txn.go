package kafka

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata/transaction"
)

// addOffsetsToTxn serves AddOffsetsToTxn: the group's partition of the offsets topic becomes part
// of the transaction. From version 2 on clients know PRODUCER_FENCED. Clients of
// transaction.version 2 send none: TxnOffsetCommit adds the partition. Key 25, versions 0 to 4.
func (c *call) addOffsetsToTxn(req *kmsg.AddOffsetsToTxnRequest) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.AddOffsetsToTxnResponse)
	err := c.transactions.AddOffsets(c.ctx, transaction.AddRequest{
		ID: req.TransactionalID, Producer: transaction.Producer{ID: req.ProducerID, Epoch: req.ProducerEpoch},
	}, req.Group)
	resp.ErrorCode = c.fencedCode(err, 2)
	return resp
}
