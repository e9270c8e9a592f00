package kafka

import (
	"errors"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/replication"
	"github.com/stratalog/strata/topic"
	"github.com/stratalog/strata/transaction"
)

// addPartitionsToTxn serves AddPartitionsToTxn. Clients send versions 0 to 3, for one transaction;
// from 2 on they handle PRODUCER_FENCED. Brokers send versions 4 and 5, for several transactions,
// to add partitions for their clients or to verify that they were added (KIP-890). Version 5 means
// that these clients have transaction.version 2. Key 24, versions 0 to 5.
func (c *call) addPartitionsToTxn(req *kmsg.AddPartitionsToTxnRequest) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.AddPartitionsToTxnResponse)
	if c.version >= 4 {
		for _, t := range each(c, req.Transactions) {
			answer := kmsg.NewAddPartitionsToTxnResponseTransaction()
			answer.TransactionalID = t.TransactionalID
			c.addToTransaction(&t, func(name string, codes []partitionCode) {
				rt := kmsg.NewAddPartitionsToTxnResponseTransactionTopic()
				rt.Topic = name
				for _, p := range codes {
					rt.Partitions = append(rt.Partitions, kmsg.AddPartitionsToTxnResponseTransactionTopicPartition{Partition: p.partition, ErrorCode: p.code})
				}
				answer.Topics = append(answer.Topics, rt)
			})
			resp.Transactions = append(resp.Transactions, answer)
		}
		return resp
	}
	t := kmsg.AddPartitionsToTxnRequestTransaction{TransactionalID: req.TransactionalID, ProducerID: req.ProducerID, ProducerEpoch: req.ProducerEpoch}
	for _, rt := range req.Topics {
		t.Topics = append(t.Topics, kmsg.AddPartitionsToTxnRequestTransactionTopic{Topic: rt.Topic, Partitions: rt.Partitions})
	}
	c.addToTransaction(&t, func(name string, codes []partitionCode) {
		rt := kmsg.NewAddPartitionsToTxnResponseTopic()
		rt.Topic = name
		for _, p := range codes {
			rt.Partitions = append(rt.Partitions, kmsg.AddPartitionsToTxnResponseTopicPartition{Partition: p.partition, ErrorCode: p.code})
		}
		resp.Topics = append(resp.Topics, rt)
	})
	return resp
}

// A partitionCode is the error code of one partition in the response.
type partitionCode struct {
	partition int32
	code      int16
}

// addToTransaction adds the partitions of one transaction, all or none, or verifies them. It
// passes the codes of each topic to the callback, in the order of the request.
func (c *call) addToTransaction(t *kmsg.AddPartitionsToTxnRequestTransaction, tell func(name string, codes []partitionCode)) {
	r := transaction.AddRequest{ID: t.TransactionalID, Producer: transaction.Producer{ID: t.ProducerID, Epoch: t.ProducerEpoch}}
	if c.version >= 5 {
		r.Version = 2
	}
	var refused []error // of each partition, in the order of the request
	anyRefused := false
	for _, rt := range t.Topics {
		for _, p := range rt.Partitions {
			err := c.mayBeAdded(rt.Topic, p)
			anyRefused = anyRefused || err != nil
			refused = append(refused, err)
			r.Partitions = append(r.Partitions, record.TopicPartition{Topic: rt.Topic, Partition: p})
		}
	}
	switch {
	case anyRefused:
		for i, err := range refused {
			if err == nil {
				refused[i] = errNotAttempted
			}
		}
	case t.VerifyOnly:
		found, err := c.transactions.VerifyPartitions(c.ctx, r)
		for i := range refused {
			if refused[i] = err; err == nil {
				refused[i] = found[i]
			}
		}
	default:
		err := c.transactions.AddPartitions(c.bounded(), r)
		for i := range refused {
			refused[i] = err
		}
	}
	for _, rt := range t.Topics {
		codes := make([]partitionCode, len(rt.Partitions))
		for i, p := range rt.Partitions {
			codes[i] = partitionCode{p, c.fencedCode(refused[i], 2)}
		}
		refused = refused[len(codes):]
		tell(rt.Topic, codes)
	}
}

var (
	errNotAttempted = refuse(OperationNotAttempted, "kafka: another partition of the request was refused")
	errNotWritable  = refuse(TopicAuthorizationFailed, "kafka: internal topics are not written to by clients")
)

// mayBeAdded returns an error if a partition cannot be part of a transaction. Clients, which send
// versions below 4, cannot add internal topics.
func (c *call) mayBeAdded(name string, p int32) error {
	if c.version < 4 && topic.IsInternal(name) {
		return errNotWritable
	}
	_, err := c.partitionOf(name, p)
	if errors.Is(err, topic.ErrInvalidName) {
		return replication.ErrUnknownTopic
	}
	return err
}
