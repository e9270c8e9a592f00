package kafka

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata/acl"
	"github.com/stratalog/strata/topic"
)

// guardInitProducerID requires Write on the transactional id. Without an id it requires
// IdempotentWrite on the cluster, or Write on any topic (KIP-679).
func guardInitProducerID(c *call, req *kmsg.InitProducerIDRequest) kmsg.Response {
	code := Code(0)
	switch {
	case req.TransactionalID != nil && !c.allows(acl.Write, acl.TransactionalID, *req.TransactionalID):
		code = TransactionalIDAuthorizationFailed
	case req.TransactionalID == nil && !c.mayCluster(acl.IdempotentWrite) && !c.may.AllowsSome(c.who, acl.Write, acl.Topic):
		code = ClusterAuthorizationFailed
	default:
		return nil
	}
	resp := req.ResponseKind().(*kmsg.InitProducerIDResponse)
	resp.ErrorCode, resp.ProducerID, resp.ProducerEpoch = int16(code), -1, -1
	return resp
}

// guardAddPartitionsToTxn requires ClusterAction on the cluster from version 4 on, which brokers
// send. Earlier versions require Write on the transactional id and on each topic. If one topic is
// denied, no partition is added.
func guardAddPartitionsToTxn(c *call, req *kmsg.AddPartitionsToTxnRequest) kmsg.Response {
	if c.version >= 4 {
		return cluster(acl.ClusterAction)(c, req)
	}
	mayWrite := c.allows(acl.Write, acl.TransactionalID, req.TransactionalID)
	denied := func(name string) bool { return !topic.IsInternal(name) && !c.allows(acl.Write, acl.Topic, name) }
	refused := !mayWrite
	for _, t := range req.Topics {
		refused = refused || denied(t.Topic)
	}
	if !refused {
		return nil
	}
	resp := req.ResponseKind().(*kmsg.AddPartitionsToTxnResponse)
	for _, t := range req.Topics {
		rt := kmsg.NewAddPartitionsToTxnResponseTopic()
		rt.Topic = t.Topic
		for _, p := range t.Partitions {
			code := c.unwritten(t.Topic, p)
			if !mayWrite {
				code = TransactionalIDAuthorizationFailed
			} else if denied(t.Topic) {
				code = TopicAuthorizationFailed
			}
			rt.Partitions = append(rt.Partitions, kmsg.AddPartitionsToTxnResponseTopicPartition{Partition: p, ErrorCode: int16(code)})
		}
		resp.Topics = append(resp.Topics, rt)
	}
	return resp
}

// unwritten returns the code of a partition with permission in a request that is denied for
// another topic.
func (c *call) unwritten(name string, p int32) Code {
	if err := c.mayBeAdded(name, p); err != nil {
		return codeOf(err)
	}
	return OperationNotAttempted
}

func guardAddOffsetsToTxn(c *call, req *kmsg.AddOffsetsToTxnRequest) kmsg.Response {
	switch {
	case !c.allows(acl.Write, acl.TransactionalID, req.TransactionalID):
		return refusedWhole(req, TransactionalIDAuthorizationFailed)
	case !c.allows(acl.Read, acl.Group, req.Group):
		return refusedWhole(req, GroupAuthorizationFailed)
	}
	return nil
}

func guardEndTxn(c *call, req *kmsg.EndTxnRequest) kmsg.Response {
	if c.allows(acl.Write, acl.TransactionalID, req.TransactionalID) {
		return nil
	}
	resp := req.ResponseKind().(*kmsg.EndTxnResponse)
	resp.ErrorCode, resp.ProducerID, resp.ProducerEpoch = int16(TransactionalIDAuthorizationFailed), -1, -1
	return resp
}

func guardWriteTxnMarkers(c *call, req *kmsg.WriteTxnMarkersRequest) kmsg.Response {
	if c.mayCluster(acl.Alter) || c.mayCluster(acl.ClusterAction) {
		return nil
	}
	resp := req.ResponseKind().(*kmsg.WriteTxnMarkersResponse)
	for _, m := range req.Markers {
		rm := kmsg.NewWriteTxnMarkersResponseMarker()
		rm.ProducerID = m.ProducerID
		for _, t := range m.Topics {
			rt := kmsg.NewWriteTxnMarkersResponseMarkerTopic()
			rt.Topic = t.Topic
			for _, p := range t.Partitions {
				rt.Partitions = append(rt.Partitions, kmsg.WriteTxnMarkersResponseMarkerTopicPartition{Partition: p, ErrorCode: int16(ClusterAuthorizationFailed)})
			}
			rm.Topics = append(rm.Topics, rt)
		}
		resp.Markers = append(resp.Markers, rm)
	}
	return resp
}

// guardTxnOffsetCommit requires Write on the transactional id, and Read on the group and on each
// topic.
func guardTxnOffsetCommit(c *call, req *kmsg.TxnOffsetCommitRequest) kmsg.Response {
	code, denied := Code(0), req.Topics
	switch {
	case !c.allows(acl.Write, acl.TransactionalID, req.TransactionalID):
		code = TransactionalIDAuthorizationFailed
	case !c.allows(acl.Read, acl.Group, req.Group):
		code = GroupAuthorizationFailed
	default:
		req.Topics, denied = split(req.Topics, func(t *kmsg.TxnOffsetCommitRequestTopic) bool { return c.allows(acl.Read, acl.Topic, t.Topic) })
		if len(denied) == 0 {
			return nil
		}
	}
	add := func(resp *kmsg.TxnOffsetCommitResponse, code Code) {
		for _, t := range denied {
			rt := kmsg.NewTxnOffsetCommitResponseTopic()
			rt.Topic = t.Topic
			for _, p := range t.Partitions {
				rt.Partitions = append(rt.Partitions, kmsg.TxnOffsetCommitResponseTopicPartition{Partition: p.Partition, ErrorCode: int16(code)})
			}
			resp.Topics = append(resp.Topics, rt)
		}
	}
	resp := req.ResponseKind().(*kmsg.TxnOffsetCommitResponse)
	switch {
	case code != 0:
		add(resp, code)
	case len(req.Topics) == 0:
		add(resp, TopicAuthorizationFailed)
	default:
		return then(c, func(resp *kmsg.TxnOffsetCommitResponse) { add(resp, TopicAuthorizationFailed) })
	}
	return resp
}

// guardDescribeTransactions requires Describe on each transactional id. The response leaves out
// partitions of topics that the client may not describe.
func guardDescribeTransactions(c *call, req *kmsg.DescribeTransactionsRequest) kmsg.Response {
	var denied []string
	req.TransactionalIDs, denied = split(req.TransactionalIDs, func(id *string) bool { return c.allows(acl.Describe, acl.TransactionalID, *id) })
	return then(c, func(resp *kmsg.DescribeTransactionsResponse) {
		for i := range resp.TransactionStates {
			s := &resp.TransactionStates[i]
			s.Topics, _ = split(s.Topics, func(t *kmsg.DescribeTransactionsResponseTransactionStateTopic) bool {
				return c.allows(acl.Describe, acl.Topic, t.Topic)
			})
		}
		for _, id := range denied {
			s := kmsg.NewDescribeTransactionsResponseTransactionState()
			s.TransactionalID, s.ErrorCode = id, int16(TransactionalIDAuthorizationFailed)
			resp.TransactionStates = append(resp.TransactionStates, s)
		}
	})
}

func guardListTransactions(c *call, _ *kmsg.ListTransactionsRequest) kmsg.Response {
	return then(c, func(resp *kmsg.ListTransactionsResponse) {
		resp.TransactionStates, _ = split(resp.TransactionStates, func(s *kmsg.ListTransactionsResponseTransactionState) bool {
			return c.allows(acl.Describe, acl.TransactionalID, s.TransactionalID)
		})
	})
}
