package kafka

import (
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata/transaction"
)

// tryInitProducerID serves InitProducerId without a transactional id, which does not have to wait.
// Each call returns a new producer id with epoch 0, also for a request with the producer's former
// id, as in Kafka.
func tryInitProducerID(c *call, r kmsg.Request) (kmsg.Response, bool) {
	req := r.(*kmsg.InitProducerIDRequest)
	if req.TransactionalID != nil {
		return nil, false
	}
	return c.initProducerID(req), true
}

// initProducerID serves InitProducerId. From version 3 on a producer that continues after an error
// sends its producer id and epoch (KIP-360). From 4 on clients handle PRODUCER_FENCED. Key 22,
// versions 0 to 5.
func (c *call) initProducerID(req *kmsg.InitProducerIDRequest) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.InitProducerIDResponse)
	got, err := c.newProducer(req)
	if err != nil {
		got = transaction.NoProducer
	}
	resp.ErrorCode, resp.ProducerID, resp.ProducerEpoch = c.fencedCode(err, 4), got.ID, got.Epoch
	return resp
}

func (c *call) newProducer(req *kmsg.InitProducerIDRequest) (got transaction.Producer, err error) {
	switch {
	case c.version >= 3 && (req.ProducerID == -1) != (req.ProducerEpoch == -1):
		return got, refuse(InvalidRequest, "a producer id without an epoch, or the reverse")
	case req.TransactionalID != nil:
		timeout := time.Duration(req.TransactionTimeoutMillis) * time.Millisecond
		before := transaction.Producer{ID: req.ProducerID, Epoch: req.ProducerEpoch}
		return c.transactions.InitProducerID(c.bounded(), *req.TransactionalID, timeout, before)
	}
	got.ID, got.Epoch, err = c.s.cluster.InitProducerID(c.ctx)
	return got, err
}

// fencedCode is errorCode for a request whose clients handle PRODUCER_FENCED from version known
// on. Earlier versions get INVALID_PRODUCER_EPOCH instead (KIP-588).
func (c *call) fencedCode(err error, known int16) int16 {
	code := c.errorCode(err)
	if Code(code) == ProducerFenced && c.version < known {
		return int16(InvalidProducerEpoch)
	}
	return code
}
