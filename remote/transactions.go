package remote

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata/group"
	"github.com/stratalog/strata/producer"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/remote/internal/link"
	"github.com/stratalog/strata/transaction"
)

// The last versions of requests for transactions that do not use the second version of the protocol
// (KIP-890).
const (
	addPartitionsV1 = 3 // the later ones are for brokers
	endTxnV1        = 4
	txnCommitV1     = 4
)

// transactions are the calls of a transactional producer.
type transactions struct{ s *session }

// TxnCoordinator implements producer.TxnBackend.
func (s *session) TxnCoordinator() producer.TxnCoordinator { return transactions{s} }

// toTransaction sends a request to the coordinator of a transactional id.
func toTransaction[R kmsg.Response](ctx context.Context, s *session, op, id string, req kmsg.Request) (R, error) {
	return do[R](ctx, s, op+" of transactional id "+id, fromTransaction, func(ctx context.Context) (kmsg.Response, error) {
		return s.link.Coordinator(ctx, link.TransactionCoordinator, id, req)
	})
}

func (t transactions) err(id string, code int16) error {
	if movedCode(code) {
		t.s.link.Moved(link.TransactionCoordinator, id)
	}
	return codeError(fromTransaction, code, nil)
}

// InitProducerID implements producer.TxnCoordinator.
func (t transactions) InitProducerID(ctx context.Context, id string, timeout time.Duration, before transaction.Producer) (transaction.Producer, int16, error) {
	version, err := t.s.c.transactionVersion(ctx)
	if err != nil {
		return transaction.NoProducer, 0, err
	}
	req := kmsg.NewPtrInitProducerIDRequest()
	req.TransactionalID, req.TransactionTimeoutMillis, req.ProducerID, req.ProducerEpoch = &id, millis(timeout), before.ID, before.Epoch
	resp, err := toTransaction[*kmsg.InitProducerIDResponse](ctx, t.s, "init producer id", id, req)
	if err == nil {
		err = t.err(id, resp.ErrorCode)
	}
	if err != nil {
		return transaction.NoProducer, 0, err
	}
	return transaction.Producer{ID: resp.ProducerID, Epoch: resp.ProducerEpoch}, version, nil
}

// AddPartitions implements producer.TxnCoordinator.
func (t transactions) AddPartitions(ctx context.Context, r transaction.AddRequest) error {
	req := kmsg.NewPtrAddPartitionsToTxnRequest()
	req.TransactionalID, req.ProducerID, req.ProducerEpoch = r.ID, r.Producer.ID, r.Producer.Epoch
	topics := index[string]{}
	for _, tp := range r.Partitions {
		i, first := topics.of(tp.Topic)
		if first {
			one := kmsg.NewAddPartitionsToTxnRequestTopic()
			one.Topic = tp.Topic
			req.Topics = append(req.Topics, one)
		}
		req.Topics[i].Partitions = append(req.Topics[i].Partitions, tp.Partition)
	}
	resp, err := toTransaction[*kmsg.AddPartitionsToTxnResponse](ctx, t.s, "add partitions", r.ID, link.AtMost(addPartitionsV1, req))
	if err != nil {
		return err
	}
	for _, one := range resp.Topics {
		for _, p := range one.Partitions {
			// OPERATION_NOT_ATTEMPTED: another partition has the cause
			if p.ErrorCode != 0 && p.ErrorCode != kerr.OperationNotAttempted.Code {
				return t.err(r.ID, p.ErrorCode)
			}
		}
	}
	return nil
}

// AddOffsets implements producer.TxnCoordinator.
func (t transactions) AddOffsets(ctx context.Context, r transaction.AddRequest, group string) error {
	req := kmsg.NewPtrAddOffsetsToTxnRequest()
	req.TransactionalID, req.ProducerID, req.ProducerEpoch, req.Group = r.ID, r.Producer.ID, r.Producer.Epoch, group
	resp, err := toTransaction[*kmsg.AddOffsetsToTxnResponse](ctx, t.s, "add offsets", r.ID, req)
	if err != nil {
		return err
	}
	return t.err(r.ID, resp.ErrorCode)
}

// End implements producer.TxnCoordinator.
func (t transactions) End(ctx context.Context, r transaction.EndRequest) (transaction.Producer, error) {
	req := kmsg.NewPtrEndTxnRequest()
	req.TransactionalID, req.ProducerID, req.ProducerEpoch, req.Commit = r.ID, r.Producer.ID, r.Producer.Epoch, r.Commit
	var send kmsg.Request = req
	if r.Version < 2 {
		send = link.AtMost(endTxnV1, req)
	}
	resp, err := toTransaction[*kmsg.EndTxnResponse](ctx, t.s, "end transaction", r.ID, send)
	if err == nil {
		err = t.err(r.ID, resp.ErrorCode)
	}
	switch {
	case err != nil:
		return transaction.NoProducer, err
	case r.Version < 2 || resp.ProducerID < 0:
		return r.Producer, nil
	}
	return transaction.Producer{ID: resp.ProducerID, Epoch: resp.ProducerEpoch}, nil
}

// CommitTxnOffsets implements producer.TxnCoordinator.
func (t transactions) CommitTxnOffsets(ctx context.Context, r group.TxnCommitRequest) (map[record.TopicPartition]error, error) {
	req := kmsg.NewPtrTxnOffsetCommitRequest()
	req.TransactionalID, req.Group, req.ProducerID, req.ProducerEpoch = r.TransactionalID, r.Group, r.ProducerID, r.ProducerEpoch
	req.Generation, req.MemberID, req.InstanceID = r.Generation, r.MemberID, optional(r.InstanceID)
	topics := index[string]{}
	for tp, co := range r.Offsets {
		i, first := topics.of(tp.Topic)
		if first {
			one := kmsg.NewTxnOffsetCommitRequestTopic()
			one.Topic = tp.Topic
			req.Topics = append(req.Topics, one)
		}
		p := kmsg.NewTxnOffsetCommitRequestTopicPartition()
		p.Partition, p.Offset, p.LeaderEpoch, p.Metadata = tp.Partition, co.Offset, co.LeaderEpoch, &co.Metadata
		req.Topics[i].Partitions = append(req.Topics[i].Partitions, p)
	}
	most := int16(txnCommitV1)
	if r.TxnVersion >= 2 {
		most = txnCommitV2
	}
	resp, err := toGroup[*kmsg.TxnOffsetCommitResponse](ctx, t.s, "commit offsets in a transaction of group", r.Group, link.AtMost(most, req))
	if err != nil {
		return nil, err
	}
	codes := map[record.TopicPartition]int16{}
	for _, one := range resp.Topics {
		for _, p := range one.Partitions {
			codes[record.TopicPartition{Topic: one.Topic, Partition: p.Partition}] = p.ErrorCode
		}
	}
	return t.s.commitErrors(r.Group, r.Offsets, codes)
}

// txnCommitV2 is the last version of TxnOffsetCommit that names topics instead of their ids.
const txnCommitV2 = 5
