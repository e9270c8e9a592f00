package link

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// notCoordinator reports whether a broker rejected a request as a whole because another broker is
// the coordinator.
func notCoordinator(resp kmsg.Response) bool {
	is := func(code int16) bool { return code == kerr.NotCoordinator.Code }
	switch r := resp.(type) {
	case *kmsg.JoinGroupResponse:
		return is(r.ErrorCode)
	case *kmsg.SyncGroupResponse:
		return is(r.ErrorCode)
	case *kmsg.HeartbeatResponse:
		return is(r.ErrorCode)
	case *kmsg.LeaveGroupResponse:
		return is(r.ErrorCode)
	case *kmsg.ConsumerGroupHeartbeatResponse:
		return is(r.ErrorCode)
	case *kmsg.OffsetDeleteResponse:
		return is(r.ErrorCode)
	case *kmsg.InitProducerIDResponse:
		return is(r.ErrorCode)
	case *kmsg.AddOffsetsToTxnResponse:
		return is(r.ErrorCode)
	case *kmsg.EndTxnResponse:
		return is(r.ErrorCode)
	case *kmsg.DescribeGroupsResponse:
		return slices.ContainsFunc(r.Groups, func(g kmsg.DescribeGroupsResponseGroup) bool { return is(g.ErrorCode) })
	case *kmsg.ConsumerGroupDescribeResponse:
		return slices.ContainsFunc(r.Groups, func(g kmsg.ConsumerGroupDescribeResponseGroup) bool { return is(g.ErrorCode) })
	case *kmsg.DeleteGroupsResponse:
		return slices.ContainsFunc(r.Groups, func(g kmsg.DeleteGroupsResponseGroup) bool { return is(g.ErrorCode) })
	case *kmsg.OffsetFetchResponse:
		return is(r.ErrorCode) || slices.ContainsFunc(r.Groups, func(g kmsg.OffsetFetchResponseGroup) bool { return is(g.ErrorCode) })
	case *kmsg.OffsetCommitResponse: // the code is that of each partition
		return len(r.Topics) > 0 && len(r.Topics[0].Partitions) > 0 && is(r.Topics[0].Partitions[0].ErrorCode)
	case *kmsg.TxnOffsetCommitResponse:
		return len(r.Topics) > 0 && len(r.Topics[0].Partitions) > 0 && is(r.Topics[0].Partitions[0].ErrorCode)
	case *kmsg.AddPartitionsToTxnResponse:
		return len(r.Topics) > 0 && len(r.Topics[0].Partitions) > 0 && is(r.Topics[0].Partitions[0].ErrorCode)
	}
	return false
}
