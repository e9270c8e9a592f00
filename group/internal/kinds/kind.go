package kinds

import (
	"time"

	"github.com/stratalog/strata/group/internal/classic"
	"github.com/stratalog/strata/group/internal/modern"
	"github.com/stratalog/strata/group/internal/protocol"
	"github.com/stratalog/strata/group/internal/sharing"
	"github.com/stratalog/strata/group/internal/streaming"
	"github.com/stratalog/strata/internal/machine"
	"github.com/stratalog/strata/internal/offsets"
)

// An Event is an input of a group: a classic.Event, which every kind handles unless it is about
// members, or an event of another kind.
type Event = any

// A Kind is a group of one kind, as a machine.Machine. Its offsets are in the classic.Committed
// that it was made on.
type Kind interface {
	machine.Machine[Event, offsets.Record]
	machine.Transactional[offsets.Record]

	Type() protocol.GroupType
	State() protocol.State
	Size() int // members
	View() classic.View

	// Vacant reports whether there are no members: the group may become one of another kind.
	Vacant() bool

	// Tombstones returns the records that remove the group but not its offsets.
	Tombstones() []offsets.Record
}

// Config is the configuration of groups, by kind.
type Config struct {
	Classic classic.Config
	Modern  modern.Config
	Sharing sharing.Config
	Streams streaming.Config
}

// make returns a group of a kind that does not exist yet; nil: there is no such kind.
func (c *Config) make(t protocol.GroupType, on *classic.Committed) Kind {
	switch t {
	case protocol.Classic:
		return classicKind{classic.NewOn(on, &c.Classic)}
	case protocol.Consumer:
		return modern.New(on, &c.Modern)
	case protocol.Share:
		return sharing.New(on, &c.Sharing)
	case protocol.Streams:
		return streaming.New(on, &c.Streams)
	}
	return nil
}

// typeOf returns which kind of groups has records of a type; "": all.
func typeOf(k offsets.KeyType) protocol.GroupType {
	switch k {
	case offsets.KeyGroup:
		return protocol.Classic
	case offsets.KeyConsumerGroup, offsets.KeyPartitionMetadata, offsets.KeyConsumerMember, offsets.KeyTargetAssignment,
		offsets.KeyTargetAssignmentMember, offsets.KeyCurrentAssignmentOfMember, offsets.KeyRegularExpression:
		return protocol.Consumer
	case offsets.KeyShareMember, offsets.KeyShareGroup, offsets.KeyShareTarget, offsets.KeyShareTargetMember, offsets.KeyShareCurrentAssignment, offsets.KeyShareStates:
		return protocol.Share
	case offsets.KeyStreamsGroup, offsets.KeyStreamsMember, offsets.KeyStreamsTarget, offsets.KeyStreamsTargetMember, offsets.KeyStreamsCurrentAssignment, offsets.KeyStreamsTopology:
		return protocol.Streams
	}
	return ""
}

// wants returns which kind of a group an event is for, and makes one that has no members; "": it is
// for any.
func wants(ev Event) protocol.GroupType {
	switch ev := ev.(type) {
	case classic.EventCreate, classic.EventJoin:
		return protocol.Classic
	case modern.EventHeartbeat:
		if ev.MemberEpoch == 0 {
			return protocol.Consumer
		}
	case sharing.EventHeartbeat:
		if ev.MemberEpoch == 0 {
			return protocol.Share
		}
	case sharing.EventInitialized:
		if ev.Create {
			return protocol.Share
		}
	case streaming.EventHeartbeat:
		if ev.MemberEpoch == 0 {
			return protocol.Streams
		}
	}
	return ""
}

// mayBecome reports whether a group of a kind becomes one of another for a member that wants it to.
// Only a group that does not exist becomes a share group, and a share group stays one; a streams
// group becomes a classic one, and a classic one a streams group. As in Kafka.
func mayBecome(from Kind, forgotten bool, to protocol.GroupType) bool {
	if !from.Vacant() {
		return false
	}
	switch {
	case forgotten:
		return true
	case to == protocol.Share:
		return false
	case to == protocol.Streams:
		return from.Type() == protocol.Classic
	case from.Type() == protocol.Streams:
		return to == protocol.Classic
	}
	return true
}

// ofKind returns which kind of groups an event is for, if it is for one only: whatever else a group
// is it refuses.
func ofKind(ev Event) (Request, protocol.GroupType) {
	switch ev := ev.(type) {
	case sharing.EventHeartbeat:
		return ev, protocol.Share
	case sharing.EventInitialized:
		return ev, protocol.Share
	case sharing.EventForget:
		return ev, protocol.Share
	case streaming.EventHeartbeat:
		return ev, protocol.Streams
	}
	return nil, ""
}

// A Request is an event that a group of another kind refuses.
type Request interface {
	// Refuse returns the answer.
	Refuse() machine.Reply
}

// classicKind is a classic.Group that knows of other kinds.
type classicKind struct{ *classic.Group }

// Step implements machine.Machine.
func (k classicKind) Step(now time.Time, ev Event) classic.Effects {
	switch ev := ev.(type) {
	case classic.Event:
		return k.Group.Step(now, ev)
	case Request:
		return classic.Effects{Replies: []machine.Reply{ev.Refuse()}, WakeAt: k.WakeAt()}
	}
	return classic.Effects{WakeAt: k.WakeAt()}
}
