package kinds

import (
	"time"

	"github.com/stratalog/strata/group/internal/classic"
	"github.com/stratalog/strata/group/internal/history"
	"github.com/stratalog/strata/group/internal/modern"
	"github.com/stratalog/strata/group/internal/protocol"
	"github.com/stratalog/strata/group/internal/sharing"
	"github.com/stratalog/strata/group/internal/streaming"
	"github.com/stratalog/strata/internal/machine"
	"github.com/stratalog/strata/internal/offsets"
)

// An Event is an input of a group: a classic.Event or an event of another kind. Every kind handles
// the classic events that are not about members.
type Event = any

// A Kind is a group of one kind, as a machine.Machine. Its offsets are in the classic.Committed
// that it was created with.
type Kind interface {
	machine.Machine[Event, offsets.Record]
	machine.Transactional[offsets.Record]
	history.Subject

	Type() protocol.GroupType
	State() protocol.State
	Size() int // members
	View() classic.View

	// Vacant reports whether the group may become one of another kind. A group with members may
	// not.
	Vacant() bool

	// Tombstones returns the records that remove the group but not its offsets.
	Tombstones() []offsets.Record
}

// Config is the configuration of groups, by kind.
type Config struct {
	Wanted  func() bool // reports whether events are read; nil: they are not
	Classic classic.Config
	Modern  modern.Config
	Sharing sharing.Config
	Streams streaming.Config
}

// make returns a new group of a kind; nil if there is no such kind.
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

// typeOf returns the kind of groups that has records of a type; "": every kind has them.
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

// wants returns the kind that an event requires and that a group without members may become for it.
// "" means that the event does not change the kind.
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

// mayBecome reports whether the group from may become one of the kind to, as in Kafka. Only a group
// that does not exist becomes a share group, and a share group keeps its kind. Only a classic group
// becomes a streams group, and a streams group can only become a classic one.
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

// ofKind returns the only kind of groups that handles an event, and the event as a Request. Groups
// of other kinds refuse it. "" means that several kinds handle it.
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
	// Refuse returns the error reply.
	Refuse() machine.Reply
}

// classicKind is a classic.Group as a Kind: it refuses events of other kinds.
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
