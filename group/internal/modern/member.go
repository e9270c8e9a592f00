package modern

import (
	"bytes"
	"slices"
	"time"

	"github.com/stratalog/strata/internal/offsets"
)

// A memberState is the reconciliation state of a member. Kafka: MemberState.
type memberState int8

const (
	stable     memberState = 0 // on the last target, or waits for a new one
	unrevoked  memberState = 1 // has to confirm the revocation of its revoking partitions
	unreleased memberState = 2 // waits for partitions that others have to release
)

// Special values of the epoch in a request. Kafka: ConsumerGroupHeartbeatRequest.
const (
	joinEpoch        = 0
	leaveEpoch       = -1 // the member leaves
	leaveStaticEpoch = -2 // a static member leaves, and its instance will return
)

// A member is a member of a group. It is immutable: a Step makes copies, and Apply replaces it.
type member struct {
	id string
	subscription

	epoch, previous int32
	state           memberState
	assigned        []held // sorted
	revoking        []held // sorted; revocations that it has not confirmed yet
}

// A subscription is the state that a member sends about itself.
type subscription offsets.ConsumerMemberValue

func (s *subscription) equal(o *subscription) bool {
	return s.sameTopics(o) && s.InstanceID == o.InstanceID && s.RackID == o.RackID && s.ClientID == o.ClientID && s.ClientHost == o.ClientHost &&
		s.RebalanceTimeoutMs == o.RebalanceTimeoutMs && s.Assignor == o.Assignor && sameClassic(s.Classic, o.Classic)
}

// sameTopics reports whether both have the same topics and regular expression.
func (s *subscription) sameTopics(o *subscription) bool {
	return s.Regex == o.Regex && slices.Equal(s.Topics, o.Topics)
}

// reconciledTo reports whether the member has its whole assignment of a target epoch.
func (m *member) reconciledTo(epoch int32) bool { return m.state == stable && m.epoch == epoch }

// record returns the value of the member's KeyCurrentAssignmentOfMember.
func (m *member) record() *offsets.CurrentAssignmentValue {
	return &offsets.CurrentAssignmentValue{MemberEpoch: m.epoch, PreviousMemberEpoch: m.previous, State: int8(m.state),
		Assigned: heldByTopic(m.assigned), PendingRevocation: heldByTopic(m.revoking)}
}

func sameClassic(a, b *offsets.ClassicMember) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.SessionTimeoutMs == b.SessionTimeoutMs && slices.EqualFunc(a.Protocols, b.Protocols, func(x, y offsets.ClassicProtocol) bool {
		return x.Name == y.Name && bytes.Equal(x.Metadata, y.Metadata)
	})
}

// classicSession returns the session timeout of a member of the classic protocol.
func (m *member) classicSession() time.Duration {
	return time.Duration(m.Classic.SessionTimeoutMs) * time.Millisecond
}
