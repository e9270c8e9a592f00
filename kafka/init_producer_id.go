package kafka

import "github.com/twmb/franz-go/pkg/kmsg"

// initProducerID gives an idempotent producer its id. Each call gives a new one with epoch 0, also
// to a producer that names the id it had, as in Kafka. Transactions are not served: a transactional
// id is UNSUPPORTED_VERSION, which no client retries.
func (c *call) initProducerID(req *kmsg.InitProducerIDRequest) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.InitProducerIDResponse)
	id, epoch, err := c.newProducerID(req)
	if err != nil {
		id, epoch = -1, -1
	}
	resp.ErrorCode, resp.ProducerID, resp.ProducerEpoch = c.errorCode(err), id, epoch
	return resp
}

func (c *call) newProducerID(req *kmsg.InitProducerIDRequest) (id int64, epoch int16, err error) {
	switch {
	case c.version >= 3 && (req.ProducerID == -1) != (req.ProducerEpoch == -1):
		return -1, -1, refuse(InvalidRequest, "a producer id without an epoch, or the reverse")
	case req.TransactionalID != nil && *req.TransactionalID == "":
		return -1, -1, refuse(InvalidRequest, "the transactional id is empty")
	case req.TransactionalID != nil:
		return -1, -1, refuse(UnsupportedVersion, "transactions are not served")
	}
	return c.s.cluster.InitProducerID(c.ctx)
}
