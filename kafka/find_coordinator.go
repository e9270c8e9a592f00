package kafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata/internal/sharelog"
)

// Coordinator types. Kafka: FindCoordinatorRequest.CoordinatorType.
const (
	coordinatorGroup int8 = iota
	coordinatorTransaction
	coordinatorShare
)

// findCoordinator serves FindCoordinator: one key up to version 3, any number of keys from 4 on
// (KIP-699). Key 10, versions 0 to 6.
func (c *call) findCoordinator(req *kmsg.FindCoordinatorRequest) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.FindCoordinatorResponse)
	kind := req.CoordinatorType
	if req.Version >= 4 {
		for _, key := range each(c, req.CoordinatorKeys) {
			found := c.coordinator(kind, key)
			if found.ErrorCode == 0 {
				found.ErrorMessage = kmsg.StringPtr("")
			}
			resp.Coordinators = append(resp.Coordinators, found)
		}
		return resp
	}
	if req.Version == 0 {
		kind = coordinatorGroup
	}
	found := c.coordinator(kind, req.CoordinatorKey)
	if found.ErrorCode == 0 {
		found.ErrorMessage = kmsg.StringPtr("NONE")
	}
	resp.ErrorCode, resp.ErrorMessage, resp.NodeID, resp.Host, resp.Port = found.ErrorCode, found.ErrorMessage, found.NodeID, found.Host, found.Port
	return resp
}

// findShareCoordinator finds the coordinator of a share-partition, with the key
// group:topicId:partition.
func (c *call) findShareCoordinator(ctx context.Context, key string) (int32, error) {
	k, err := sharelog.ParseID(key)
	if err != nil || k.ID() != key || k.Group == "" || k.TopicID == [16]byte{} {
		return -1, refuse(InvalidRequest, textInvalidRequest)
	}
	shares, err := c.s.cluster.Shares()
	if err != nil {
		return -1, err
	}
	return shares.FindCoordinator(ctx, k)
}

// coordinator finds one coordinator. If its internal topic does not exist, coordinator creates the
// topic and waits for that; in Kafka the client has to retry.
func (c *call) coordinator(kind int8, key string) kmsg.FindCoordinatorResponseCoordinator {
	r := kmsg.NewFindCoordinatorResponseCoordinator()
	r.Key, r.NodeID, r.Port = key, -1, -1
	refused := func(code Code, message string) kmsg.FindCoordinatorResponseCoordinator {
		r.ErrorCode, r.ErrorMessage = int16(code), &message
		return r
	}
	find := c.groups.FindCoordinator
	switch {
	case kind == coordinatorGroup:
	case kind == coordinatorTransaction:
		find = c.transactions.FindCoordinator
	case kind == coordinatorShare && c.version >= 6: // for brokers only, see mayFind
		if c.s.apis[int16(ShareFetch)] == nil {
			return refused(InvalidRequest, "There is no share coordinator: this server does not serve share groups.")
		}
		find = c.findShareCoordinator
	default:
		return refused(InvalidRequest, textInvalidRequest)
	}
	broker, err := find(c.ctx, key)
	if err != nil {
		return refused(Code(c.errorCode(err)), err.Error())
	}
	host, port, ok := c.address(broker)
	if !ok {
		return refused(CoordinatorNotAvailable, "The coordinator is not available.")
	}
	r.NodeID, r.Host, r.Port = broker, host, port
	return r
}
