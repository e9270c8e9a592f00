package replication

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/stratalog/strata/internal/feed"
	"github.com/stratalog/strata/record"
)

// An EventKind is the kind of an Event.
type EventKind uint8

// Kinds of events. A kind marked "Metadata event" is emitted when the change of the metadata is
// committed, before the brokers act on it. Such events are in the order of the metadata's records.
const (
	// EventsMissed: the reader was too slow, and Missed events were dropped. Status and Metadata
	// return the present state.
	EventsMissed EventKind = iota

	// LeaderElected: Broker leads Partition from LeaderEpoch on. Unclean means that acknowledged
	// records may be lost. The first leader of a new partition has no event. Metadata event.
	LeaderElected
	// LeaderLost: Partition has no leader. Metadata event.
	LeaderLost
	// ISRShrunk and ISRGrown: Brokers have left or joined the ISR. ISR is the set after the whole
	// change, which is the same in both events if some brokers leave and others join at once. If
	// the leader changes too, ISRShrunk comes before that event and ISRGrown after it. Metadata
	// events.
	ISRShrunk
	ISRGrown

	// BrokerStarted: Broker serves; it did not before. Metadata event.
	BrokerStarted
	// BrokerStopping: Broker is shutting down in order; its partitions lose their leader. Metadata
	// event.
	BrokerStopping
	// BrokerFenced: Broker does not serve any more. It was stopped or killed, its disk has failed,
	// or the controller cannot reach it. Metadata event.
	BrokerFenced
	// BrokerRemoved: Broker is no longer a member of the cluster. Metadata event.
	BrokerRemoved
	// BrokerKilled: KillBroker has cut Broker off, and the others are about to fence it.
	BrokerKilled
	// BrokerStopped: nothing is left of the stopped incarnation of Broker.
	BrokerStopped
	// ControllerElected: Broker is the controller.
	ControllerElected

	// LogTruncated: Broker's replica of Partition has removed its records in [To, From), because
	// its leader does not have them. Lost is the number of removed offsets below the high watermark
	// that the replica knew; it is 0 unless there was an unclean election.
	LogTruncated

	// ReassignmentBegun: Partition is being moved to other replicas. Brokers are its replicas
	// meanwhile, the requested ones first. ReassignmentDone: Brokers are the requested replicas.
	// ReassignmentCancelled: Brokers are the earlier replicas. Metadata events.
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

// An Event is something that happened in a cluster. Its Kind determines which fields are set; a
// broker field that is not set is 0. The slices are shared and must not be written to.
type Event struct {
	Number int64 // 1, 2, 3 and so on; only EventsMissed leaves a gap
	Time   time.Time
	Kind   EventKind
	// Version is the version of the metadata that has the event; 0 if it is not a metadata event.
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

// Events returns an iterator over the events of the cluster from this call on, in order. The
// iterator waits for more events, and ends when ctx ends or the cluster is closed. Ranging over it
// again continues after the last event that it returned. It need not be closed. Several goroutines
// may range over one iterator; each event goes to one of them. Several iterators each return all
// events.
//
// Order: metadata events are in the order of the metadata log, and each comes after its change is
// committed. Other events come at their place among these: LogTruncated follows the election that
// caused it, and BrokerKilled precedes BrokerFenced.
//
// Loss: a slow reader delays no other goroutine. The latest 8,192 events are kept. A reader that is
// further behind receives one EventsMissed in place of the dropped events. Changes that this
// process reads from a snapshot when it reopens the copies of the metadata have no events.
func (c *Cluster) Events(ctx context.Context) iter.Seq[Event] {
	return c.events.All(ctx, func(got feed.Reading[Event]) Event {
		e := got.Item
		if got.Missed > 0 {
			e = Event{Kind: EventsMissed, Time: time.Now(), Missed: got.Missed}
		}
		e.Number = got.Number
		return e
	})
}

// tell passes events to readers. It does not block and may be called with any lock.
func (c *Cluster) tell(events ...Event) {
	now := time.Now()
	for i := range events {
		events[i].Time = now
	}
	c.events.Put(events...)
}
