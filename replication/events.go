package replication

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/stratalog/strata/record"
)

// An EventKind says what happened.
type EventKind uint8

// Kinds of events. Those of the metadata are told when the change is committed, before the brokers
// act on it, one by one in the order of its records.
const (
	// EventsMissed: the reader was too slow, and Missed events are gone. What they came to can be
	// seen with Status and Metadata.
	EventsMissed EventKind = iota

	// LeaderElected: Broker leads Partition from LeaderEpoch on. Of the metadata. Unclean: records
	// that were acknowledged may be lost. First leaders of new partitions are not told.
	LeaderElected
	// LeaderLost: nobody leads Partition. Of the metadata.
	LeaderLost
	// ISRShrunk and ISRGrown: Brokers are in sync no longer, or are in sync now; ISR is the set
	// behind the whole change: if some leave and others join at once it is the same in both. Of the
	// metadata. If the leader changes too, who goes is told before that, and who comes behind it.
	ISRShrunk
	ISRGrown

	// BrokerStarted: Broker serves, which did not before. Of the metadata.
	BrokerStarted
	// BrokerStopping: Broker leaves in order; its partitions lose their leader. Of the metadata.
	BrokerStopping
	// BrokerFenced: Broker serves no longer: it was stopped or killed, its disk has failed, or the
	// controller does not reach it. Of the metadata.
	BrokerFenced
	// BrokerRemoved: Broker is no member of the cluster any more. Of the metadata.
	BrokerRemoved
	// BrokerKilled: KillBroker has cut Broker off, and the others are about to fence it.
	BrokerKilled
	// BrokerStopped: nothing is left of the incarnation of Broker that was stopped.
	BrokerStopped
	// ControllerElected: Broker is controller.
	ControllerElected

	// LogTruncated: Broker's replica of Partition had records in [To, From) that its leader does
	// not have, and has cut them off. Lost of them were below the high watermark that the replica
	// knew: only an unclean election makes that more than none.
	LogTruncated

	// ReassignmentBegun: Partition is on its way to other replicas, and has Brokers meanwhile,
	// those that are wanted first. ReassignmentDone: it has Brokers, as was asked for.
	// ReassignmentCancelled: it has Brokers, as before. Of the metadata.
	ReassignmentBegun
	ReassignmentDone
	ReassignmentCancelled
)

var eventNames = [...]string{
	"events missed", "leader elected", "leader lost", "isr shrunk", "isr grown", "broker started", "broker stopping", "broker fenced",
	"broker removed", "broker killed", "broker stopped", "controller elected", "log truncated",
	"reassignment begun", "reassignment done", "reassignment cancelled",
}

func (k EventKind) String() string {
	if int(k) < len(eventNames) {
		return eventNames[k]
	}
	return fmt.Sprintf("event kind %d", uint8(k))
}

// An Event is something that happened in a cluster. Which fields are set says its Kind; brokers
// that are not set are 0. The slices are shared and must not be written to.
type Event struct {
	Number int64 // 1, 2, 3 and so on, without gaps but for EventsMissed
	Time   time.Time
	Kind   EventKind
	// Version of the metadata that the event is part of; 0: it is none of the metadata.
	Version int64

	Partition    record.TopicPartition
	Broker       int32
	LeaderEpoch  int32
	Unclean      bool
	Brokers, ISR []int32
	From, To     int64
	Lost, Missed int64
}

// String returns the event as a line of text, without time and number.
func (e Event) String() string {
	var s strings.Builder
	if e.Partition.Topic != "" {
		fmt.Fprintf(&s, "%s-%d: ", e.Partition.Topic, e.Partition.Partition)
	}
	switch e.Kind {
	case EventsMissed:
		fmt.Fprintf(&s, "%d events missed", e.Missed)
	case LeaderElected:
		fmt.Fprintf(&s, "broker %d leads in epoch %d", e.Broker, e.LeaderEpoch)
		if e.Unclean {
			s.WriteString(", elected uncleanly")
		}
	case LeaderLost:
		fmt.Fprintf(&s, "no leader in epoch %d", e.LeaderEpoch)
	case ISRShrunk:
		fmt.Fprintf(&s, "%v left the in-sync set, which is %v", e.Brokers, e.ISR)
	case ISRGrown:
		fmt.Fprintf(&s, "%v joined the in-sync set, which is %v", e.Brokers, e.ISR)
	case LogTruncated:
		fmt.Fprintf(&s, "broker %d cut its log from %d to %d", e.Broker, e.From, e.To)
		if e.Lost > 0 {
			fmt.Fprintf(&s, ", %d below its high watermark", e.Lost)
		}
	case ReassignmentBegun, ReassignmentDone, ReassignmentCancelled:
		fmt.Fprintf(&s, "%v, replicas are %v", e.Kind, e.Brokers)
	case ControllerElected:
		fmt.Fprintf(&s, "broker %d is controller", e.Broker)
	default:
		what, did, _ := strings.Cut(e.Kind.String(), " ")
		fmt.Fprintf(&s, "%s %d %s", what, e.Broker, did)
	}
	return s.String()
}

// maxEvents is how many events are kept for readers that are behind.
const maxEvents = 8192

// Events returns what happens in the cluster from this call on, in order. The iterator waits for
// more, and ends when ctx ends or the cluster is closed; ranging over it again goes on behind the
// last event that it gave. It needs no end. Several may range over it, each event goes to one of
// them; several iterators each give every event.
//
// Order: events of the metadata are in the order of its log, and none comes before the change is
// committed. Other events are where they happened among these: a log is truncated behind the
// election that it follows, and a broker is killed before it is fenced.
//
// Loss: a slow reader holds up nobody. The latest 8,192 events are kept; who is further behind gets
// an event of kind EventsMissed in place of those that are gone. Changes that were committed on the
// copies of the metadata and that this process learns of when it opens the copies again, behind a
// snapshot, are not told.
func (c *Cluster) Events(ctx context.Context) iter.Seq[Event] {
	reader := c.events.Reader()
	return func(yield func(Event) bool) {
		for {
			got, ok := reader.Next(ctx)
			if !ok {
				return
			}
			e := got.Item
			if got.Missed > 0 {
				e = Event{Kind: EventsMissed, Time: time.Now(), Missed: got.Missed}
			}
			if e.Number = got.Number; !yield(e) {
				return
			}
		}
	}
}

// tell hands events to whoever reads them. It does not block and may be called with any lock.
func (c *Cluster) tell(events ...Event) {
	now := time.Now()
	for i := range events {
		events[i].Time = now
	}
	c.events.Put(events...)
}
