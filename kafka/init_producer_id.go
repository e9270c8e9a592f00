package kafka

import "github.com/twmb/franz-go/pkg/kmsg"

var errNoTransactions = refuse(TransactionalIDAuthorizationFailed, "kafka: transactions are not served")

// initProducerID gives an idempotent producer its id. One that comes with an id (KIP-360) gets a new one: its sequences begin again.
func (c *call) initProducerID(req *kmsg.InitProducerIDRequest) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.InitProducerIDResponse)
	resp.ProducerID, resp.ProducerEpoch = -1, -1
	if req.TransactionalID != nil {
		resp.ErrorCode = c.errorCode(errNoTransactions)
		return resp
	}
	id, epoch, err := c.s.cluster.InitProducerID(c.ctx)
	if err != nil {
		resp.ErrorCode = c.errorCode(err)
		return resp
	}
	resp.ProducerID, resp.ProducerEpoch = id, epoch
	return resp
}
