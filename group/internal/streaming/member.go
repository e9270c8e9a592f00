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

// Special values of a request's member epoch. Kafka: StreamsGroupHeartbeatRequest.
const (
	joinEpoch  = 0
	leaveEpoch = -1
)

// A member is one member of a group. It is never changed: a Step changes copies, and Apply replaces
// members.
type member struct {
	id string
	offsets.StreamsMemberValue

	epoch, previous int32
	state           memberState
	assigned        assignment
	revoking        assignment // revocations that it has not confirmed yet
}

// newMember returns a member that has sent nothing about itself.
func newMember(id string) *member {
	return &member{id: id, state: stable, StreamsMemberValue: offsets.StreamsMemberValue{RebalanceTimeoutMs: -1, TopologyEpoch: -1}}
}

// sameSelf reports whether m and o have sent the same about themselves.
func (m *member) sameSelf(o *member) bool {
	a, b := &m.StreamsMemberValue, &o.StreamsMemberValue
	same := a.InstanceID == b.InstanceID && a.RackID == b.RackID && a.ClientID == b.ClientID && a.ClientHost == b.ClientHost &&
		a.RebalanceTimeoutMs == b.RebalanceTimeoutMs && a.TopologyEpoch == b.TopologyEpoch && a.ProcessID == b.ProcessID
	endpoints := a.Endpoint == b.Endpoint || a.Endpoint != nil && b.Endpoint != nil && *a.Endpoint == *b.Endpoint
	return same && endpoints && slices.Equal(a.ClientTags, b.ClientTags)
}

// sameTasks reports whether m and o have the same epochs, state, assigned and revoking tasks.
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
