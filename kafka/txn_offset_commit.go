package kafka

import (
	"errors"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata/group"
	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/transaction"
)

// txnOffsetCommit serves TxnOffsetCommit: offsets of a group in a transaction. From version 3 on
// the request has the member that has read (KIP-447). From 4 on clients handle
// TRANSACTION_ABORTABLE. From 5 on the commit adds the group's partition to the transaction
// (KIP-890). An error of the whole request is returned for each partition. Key 28, versions 0 to
// 5.
func (c *call) txnOffsetCommit(req *kmsg.TxnOffsetCommitRequest) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.TxnOffsetCommitResponse)
	r := group.TxnCommitRequest{
		CommitRequest: group.CommitRequest{Group: req.Group, MemberID: req.MemberID, InstanceID: orEmpty(req.InstanceID), Generation: req.Generation,
			Offsets: map[record.TopicPartition]record.Committed{}},
		TransactionalID: req.TransactionalID, ProducerID: req.ProducerID, ProducerEpoch: req.ProducerEpoch,
	}
	if c.version >= 5 {
		r.TxnVersion = 2
	}
	for _, t := range req.Topics {
		for _, p := range t.Partitions {
			r.Offsets[record.TopicPartition{Topic: t.Topic, Partition: p.Partition}] =
				record.Committed{Offset: p.Offset, LeaderEpoch: p.LeaderEpoch, Metadata: orEmpty(p.Metadata)}
		}
	}
	var errs map[record.TopicPartition]error
	var failed error
	switch {
	case req.Group == "":
		failed = group.ErrInvalidGroupID
	case len(r.Offsets) > 0:
		errs, failed = c.groups.CommitTxnOffsets(c.bounded(), r)
	}
	for _, t := range req.Topics {
		if len(t.Partitions) == 0 && c.hasTopic(t.Topic) {
			continue // as in Kafka
		}
		rt := kmsg.NewTxnOffsetCommitResponseTopic()
		rt.Topic = t.Topic
		for _, p := range t.Partitions {
			rp := kmsg.NewTxnOffsetCommitResponseTopicPartition()
			rp.Partition = p.Partition
			if err, told := errs[record.TopicPartition{Topic: t.Topic, Partition: p.Partition}]; told {
				rp.ErrorCode = c.txnOffsetCode(err)
			} else if _, err := c.partitionOf(t.Topic, p.Partition); err != nil && req.Group == "" {
				rp.ErrorCode = c.txnOffsetCode(err) // Kafka first checks that the partition exists
			} else {
				rp.ErrorCode = c.txnOffsetCode(failed)
			}
			rt.Partitions = append(rt.Partitions, rp)
		}
		resp.Topics = append(resp.Topics, rt)
	}
	return resp
}

// txnOffsetCode returns the code of an error for TxnOffsetCommit.
func (c *call) txnOffsetCode(err error) int16 {
	switch code := Code(c.errorCode(err)); {
	case errors.Is(err, group.ErrIllegalGeneration), // also of a group that does not exist
		errors.Is(err, group.ErrStaleMemberEpoch): // clients of a transaction do not know STALE_MEMBER_EPOCH
		return int16(IllegalGeneration)
	case errors.Is(err, transaction.ErrInvalidID):
		return int16(InvalidRequest)
	case errors.Is(err, group.ErrOffsetsFull) && c.version >= 4:
		return int16(TransactionAbortable) // with any other code the producer has to be closed
	case code == TransactionAbortable && c.version < 4:
		return int16(InvalidTxnState)
	case code == ProducerFenced:
		return int16(InvalidProducerEpoch)
	case errors.Is(err, partition.ErrNotEnoughReplicas), errors.Is(err, partition.ErrNotEnoughReplicasAfterAppend):
		return int16(CoordinatorNotAvailable) // clients of every version retry on it
	default:
		return int16(code)
	}
}
