package protocol

import (
	"fmt"
	"strings"
	"time"

	"github.com/stratalog/strata/record"
)

// An EventKind is the kind of an Event.
type EventKind uint8

// The kinds of events. Package group describes them.
const (
	EventsMissed EventKind = iota
	Joining
	Joined
	Assigned
	Emptied
	Removed
	CommitRefused
)

var eventNames = [...]string{"events missed", "joining", "joined", "assigned", "emptied", "removed", "commit refused"}

// String returns the name of the kind.
func (k EventKind) String() string {
	if int(k) < len(eventNames) {
		return eventNames[k]
	}
	return fmt.Sprintf("event kind %d", uint8(k))
}

// An Event is something that happened to a group. The slices are shared and must not be written
// to.
type Event struct {
	Number int64 // 1, 2, 3 and so on; only EventsMissed leaves a gap
	Time   time.Time
	Kind   EventKind
	Group  string
	Type   GroupType

	// Generation is the generation of a classic group, else the group epoch. In a Joined and an
	// Assigned event of other types than classic it is the epoch of the target assignment.
	Generation int32
	Assignor   string // chosen assignor; "": none
	Size       int    // number of members

	// Causes are the causes of the rebalance in the order in which they were noticed, at most
	// MaxCauses. MoreCauses is the number of further ones.
	Causes     []Cause
	MoreCauses int

	// Began is the time of the first cause, Joined the time when the members were known, and Ended
	// the time when each had its partitions. A time that is not reached yet is zero.
	Began, Joined, Ended time.Time

	// WaitedFor is the id of the member that others waited for last: it joined last, did not join
	// in time or, in groups of other types than classic, gave up partitions last. "" if there is
	// none.
	WaitedFor string

	// Members are set in an Assigned event: at most MaxEventMembers, with at most
	// MaxEventPartitions partitions in all. Size has the number of all members. Topics and encoded
	// data are not set.
	Members []MemberInfo
	// Moved is the number of partitions that have another owner than before the rebalance, or had
	// none. In a share group it is the number of assignments to a member that did not have the
	// partition. Only in an Assigned event. -1 means that the owners before are not known: the
	// coordinator was loaded, or the first reader came, after the rebalance had begun.
	Moved int

	Member  string // CommitRefused
	Err     error  // CommitRefused
	Refused int    // CommitRefused
	Missed  int64  // EventsMissed
}

// Bounds of an Event.
const (
	MaxCauses          = 16
	MaxEventMembers    = 64
	MaxEventPartitions = 512
	MaxReason          = 255 // bytes of an id or a text of a member
)

// String returns the event as a line of text, without time and number.
func (e Event) String() string {
	var s strings.Builder
	switch e.Kind {
	case EventsMissed:
		return fmt.Sprintf("%d events missed", e.Missed)
	case CommitRefused:
		fmt.Fprintf(&s, "%s: commit refused in generation %d of %q: %v", e.Group, e.Generation, e.Member, e.Err)
		if e.Refused > 1 {
			fmt.Fprintf(&s, ", %d commits since the last event", e.Refused)
		}
		return s.String()
	}
	fmt.Fprintf(&s, "%s: %v, generation %d, %d members", e.Group, e.Kind, e.Generation, e.Size)
	if e.Kind == Assigned {
		if e.Moved >= 0 {
			fmt.Fprintf(&s, ", %d partitions moved", e.Moved)
		}
		fmt.Fprintf(&s, ", took %v", e.Ended.Sub(e.Began))
	}
	if e.WaitedFor != "" {
		fmt.Fprintf(&s, ", waited for %s", e.WaitedFor)
	}
	if len(e.Causes) > 0 {
		fmt.Fprintf(&s, ": %s", e.Cause())
	}
	return s.String()
}

// Cause returns the causes as text.
func (e Event) Cause() string {
	var s strings.Builder
	for i, c := range e.Causes {
		if i > 0 {
			s.WriteString("; ")
		}
		s.WriteString(c.String())
	}
	if e.MoreCauses > 0 {
		fmt.Fprintf(&s, "; %d more", e.MoreCauses)
	}
	return s.String()
}

// MemberInfo describes a member of a group.
type MemberInfo struct {
	ID, InstanceID       string // InstanceID "": dynamic member
	ClientID, ClientHost string
	Topics               []string                // subscribed topics; only in consumer groups
	Assignment           []record.TopicPartition // assigned partitions; only in consumer groups, empty unless the group is Stable

	// The same in the encoding of the protocol, for any protocol type; nil unless the group is
	// Stable. They must not be written to.
	SubscriptionData, AssignmentData []byte
}

// PollTimeoutReason is the reason with which Kafka's consumer leaves a group because its application
// does not poll. It makes the cause of the rebalance CausePollExceeded.
const PollTimeoutReason = "consumer poll timeout has expired."

// adminReason is the reason of Kafka's administration client for the removal of a member.
const adminReason = "member was removed by an admin"

// A CauseKind is the kind of a Cause.
type CauseKind uint8

// The kinds of causes. Package group describes them.
const (
	CauseUnknown CauseKind = iota
	CauseJoined
	CauseLeft
	CauseSessionExpired
	CausePollExceeded
	CauseNotRejoined
	CauseNotSynced
	CauseNotRevoked
	CauseRejoined
	CauseSubscription
	CauseMetadata
	CauseStaticReplaced
	CauseGaveUp
	CauseTopicCreated
	CauseTopicGrew
	CauseTopicDeleted
	CauseTopics
	CauseRemoved
	CauseFull
	CauseCoordinatorLoaded
	CauseConfig
	CauseTopology
	CauseSharesReady
	CauseDeleted
	CauseExpired
)

// A Cause is a reason for a rebalance. Kind determines which fields are set.
type Cause struct {
	Kind       CauseKind
	Time       time.Time // when the coordinator noticed it
	Member     string    // member id
	InstanceID string    // "": dynamic member
	ClientID   string
	Topic      string
	After      time.Duration
	// Reason is the member's text about its join or departure (KIP-800), at most MaxReason bytes;
	// "" if it sent none.
	Reason string
}

var causeFormats = [...]string{
	CauseUnknown: "not known", CauseJoined: "%s joined", CauseLeft: "%s left", CauseSessionExpired: "session of %s ran out",
	CausePollExceeded: "%s exceeded its max poll interval and left", CauseNotRejoined: "%s did not join again", CauseNotSynced: "%s did not sync",
	CauseNotRevoked: "%s did not give up its partitions", CauseRejoined: "%s joined again", CauseSubscription: "%s changed its subscription",
	CauseMetadata: "%s changed its metadata", CauseStaticReplaced: "static member replaced by %s", CauseGaveUp: "%s gave up partitions, which are assigned in a second round",
	CauseTopicCreated: "topic %s was created", CauseTopicGrew: "topic %s has more partitions", CauseTopicDeleted: "topic %s was deleted",
	CauseTopics: "topics changed", CauseRemoved: "an administrator removed %s", CauseFull: "%s was removed: the group is full",
	CauseCoordinatorLoaded: "the coordinator was loaded again", CauseConfig: "the configuration of the group changed",
	CauseTopology: "topics of the topology changed", CauseSharesReady: "new partitions can be read",
	CauseDeleted: "an administrator deleted it", CauseExpired: "it expired",
}

// String returns the cause as text.
func (c Cause) String() string {
	format := causeFormats[CauseUnknown]
	if int(c.Kind) < len(causeFormats) {
		format = causeFormats[c.Kind]
	}
	name := c.Topic
	if name == "" {
		name = c.Member
	}
	if name == "" {
		name = "all members"
	}
	if strings.Contains(format, "%s") {
		format = fmt.Sprintf(format, name)
	}
	if c.Kind == CauseCoordinatorLoaded && c.Member != "" {
		format += ": the process of " + c.Member + " has ended"
	}
	switch {
	case c.Kind == CauseSessionExpired:
		format += fmt.Sprintf(" after being silent for %v", c.After)
	case c.After > 0:
		format += fmt.Sprintf(" within %v", c.After)
	}
	if c.Reason != "" {
		format += " (" + c.Reason + ")"
	}
	return format
}

// LeftBecause returns the cause of a departure with a reason, and the text that it does not cover.
func LeftBecause(reason string) (CauseKind, string) {
	switch reason {
	case PollTimeoutReason:
		return CausePollExceeded, ""
	case adminReason:
		return CauseRemoved, ""
	}
	return CauseLeft, reason
}
