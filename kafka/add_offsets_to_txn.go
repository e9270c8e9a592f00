package kafka

import (
	"errors"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata/transaction"
)

// addOffsetsToTxn serves AddOffsetsToTxn: the group's partition of the offsets topic becomes part
// of the transaction. From version 2 on clients handle PRODUCER_FENCED. Clients with
// transaction.version 2 do not send this request: TxnOffsetCommit adds the partition. Key 25,
// versions 0 to 4.
func (c *call) addOffsetsToTxn(req *kmsg.AddOffsetsToTxnRequest) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.AddOffsetsToTxnResponse)
	err := c.transactions.AddOffsets(c.bounded(), transaction.AddRequest{
		ID: req.TransactionalID, Producer: transaction.Producer{ID: req.ProducerID, Epoch: req.ProducerEpoch},
	}, req.Group)
	resp.ErrorCode = c.fencedCode(err, 2)
	if errors.Is(err, transaction.ErrFull) && c.version >= 4 {
		// After any other code the client has to close the producer.
		resp.ErrorCode = int16(TransactionAbortable)
	}
	return resp
}
