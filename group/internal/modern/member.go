package modern

import (
	"bytes"
	"slices"
	"time"

	"github.com/stratalog/strata/group/offsets"
)

// A memberState says what a member waits for. Kafka: MemberState.
type memberState int8

const (
	stable     memberState = 0 // for nothing, or for a new target
	unrevoked  memberState = 1 // it has to give up what is in revoking
	unreleased memberState = 2 // others have to give up what it is to get
)

// The member epochs that are none. Kafka: ConsumerGroupHeartbeatRequest.
const (
	joinEpoch        = 0
	leaveEpoch       = -1 // it goes
	leaveStaticEpoch = -2 // a static member goes, and its instance will be back
)

// A member is one member of a group. It is never changed: a Step works on copies, and Apply puts
// others in its place.
type member struct {
	id string
	subscription

	epoch, previous int32
	state           memberState
	assigned        []held // sorted
	revoking        []held // sorted: what it must give up, and did not yet
}

// A subscription is what a member says of itself.
type subscription offsets.ConsumerMemberValue

func (s *subscription) equal(o *subscription) bool {
	return s.sameTopics(o) && s.InstanceID == o.InstanceID && s.RackID == o.RackID && s.ClientID == o.ClientID && s.ClientHost == o.ClientHost &&
		s.RebalanceTimeoutMs == o.RebalanceTimeoutMs && s.Assignor == o.Assignor && sameClassic(s.Classic, o.Classic)
}

// sameTopics reports whether both subscribe to the same topics.
func (s *subscription) sameTopics(o *subscription) bool {
	return s.Regex == o.Regex && slices.Equal(s.Topics, o.Topics)
}

// reconciledTo reports whether the member has what a target assignment gives it.
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

// classicSession is the session timeout that a member of the classic protocol has asked for.
func (m *member) classicSession() time.Duration {
	return time.Duration(m.Classic.SessionTimeoutMs) * time.Millisecond
}
