package streaming

import (
	"slices"

	"github.com/stratalog/strata/internal/offsets"
)

// A memberState is the reconciliation state of a member. Kafka: streams.MemberState.
type memberState int8

const (
	stable     memberState = 1 // on the last target, or waits for a new one
	unrevoked  memberState = 2 // has to confirm the revocation of its revoking partitions
	unreleased memberState = 3 // waits for tasks that others have to release
)

// The member epochs that are none. Kafka: StreamsGroupHeartbeatRequest.
const (
	joinEpoch  = 0
	leaveEpoch = -1
)

// A member is one member of a group. It is never changed: a Step works on copies, and Apply puts
// others in its place.
type member struct {
	id string
	offsets.StreamsMemberValue

	epoch, previous int32
	state           memberState
	assigned        assignment
	revoking        assignment // revocations that it has not confirmed yet
}

// newMember returns a member without any state of its own.
func newMember(id string) *member {
	return &member{id: id, state: stable, StreamsMemberValue: offsets.StreamsMemberValue{RebalanceTimeoutMs: -1, TopologyEpoch: -1}}
}

// sameSelf reports whether m and o have the same state of their own.
func (m *member) sameSelf(o *member) bool {
	a, b := &m.StreamsMemberValue, &o.StreamsMemberValue
	same := a.InstanceID == b.InstanceID && a.RackID == b.RackID && a.ClientID == b.ClientID && a.ClientHost == b.ClientHost &&
		a.RebalanceTimeoutMs == b.RebalanceTimeoutMs && a.TopologyEpoch == b.TopologyEpoch && a.ProcessID == b.ProcessID
	endpoints := a.Endpoint == b.Endpoint || a.Endpoint != nil && b.Endpoint != nil && *a.Endpoint == *b.Endpoint
	return same && endpoints && slices.Equal(a.ClientTags, b.ClientTags)
}

// sameTasks reports whether m has, and is to give up, the same as o, in the same epoch.
func (m *member) sameTasks(o *member) bool {
	return m.epoch == o.epoch && m.previous == o.previous && m.state == o.state && m.assigned.equal(&o.assigned) && m.revoking.equal(&o.revoking)
}

// reconciledTo reports whether the member has its whole assignment of a target epoch.
func (m *member) reconciledTo(epoch int32) bool { return m.state == stable && m.epoch == epoch }

// record returns the value of the member's KeyStreamsCurrentAssignment.
func (m *member) record() *offsets.StreamsCurrentAssignmentValue {
	return &offsets.StreamsCurrentAssignmentValue{MemberEpoch: m.epoch, PreviousMemberEpoch: m.previous, State: int8(m.state),
		Assigned: m.assigned.record(), PendingRevocation: m.revoking.record()}
}
