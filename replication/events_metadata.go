package replication

import (
	"slices"

	"github.com/stratalog/strata/internal/metarecord"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/replication/internal/image"
)

// A subject is the object of a metadata record, as an image has it.
type subject struct {
	topic     *image.Topic
	partition image.Partition
	member    image.Member
	known     bool // member is one
}

// subjectOf looks up the subject of a record.
func subjectOf(img *image.Image, rec metarecord.Record) (s subject) {
	switch rec := rec.(type) {
	case *metarecord.PartitionChange:
		if s.topic = img.ByID[rec.TopicID]; s.topic != nil {
			s.partition = s.topic.Partitions[rec.Partition] // a copy: its slices are replaced, never written to
		}
	case *metarecord.RegisterBroker:
		s.member, s.known = img.Members[rec.BrokerID]
	case *metarecord.BrokerChange:
		s.member, s.known = img.Members[rec.BrokerID]
	}
	return s
}

// eventsOf returns the changes that a record has made to its subject.
func eventsOf(rec metarecord.Record, before, after subject) []Event {
	switch rec := rec.(type) {
	case *metarecord.PartitionChange:
		return partitionEvents(rec, before, after)
	case *metarecord.RegisterBroker:
		return brokerEvents(rec.BrokerID, before, after)
	case *metarecord.BrokerChange:
		return brokerEvents(rec.BrokerID, before, after)
	case *metarecord.UnregisterBroker:
		return []Event{{Kind: BrokerRemoved, Broker: rec.BrokerID}}
	}
	return nil
}

func brokerEvents(id int32, before, after subject) (events []Event) {
	served, serves := before.known && !before.member.Fenced, after.known && !after.member.Fenced
	if after.member.Leaving && !before.member.Leaving {
		events = append(events, Event{Kind: BrokerStopping, Broker: id})
	}
	switch {
	case serves && !served:
		events = append(events, Event{Kind: BrokerStarted, Broker: id})
	case served && !serves:
		events = append(events, Event{Kind: BrokerFenced, Broker: id})
	}
	return events
}

// partitionEvents returns the events for replicas that leave the ISR, for the leader, and for
// replicas that join, in this order.
func partitionEvents(rec *metarecord.PartitionChange, before, after subject) (events []Event) {
	was, is := before.partition, after.partition
	about := Event{Partition: record.TopicPartition{Topic: after.topic.Name, Partition: rec.Partition}, LeaderEpoch: is.LeaderEpoch, ISR: is.ISR}
	begun, ended := layoutEvents(rec, was, is)
	for _, e := range begun {
		e.Partition = about.Partition
		events = append(events, e)
	}
	if gone := missing(was.ISR, is.ISR); len(gone) > 0 {
		about.Kind, about.Brokers = ISRShrunk, gone
		events = append(events, about)
	}
	if is.LeaderEpoch != was.LeaderEpoch {
		e := about
		e.Kind, e.Broker, e.Brokers, e.ISR = LeaderElected, is.Leader, nil, nil
		if e.Unclean = isUnclean(rec); is.Leader < 0 {
			e.Kind = LeaderLost
		}
		events = append(events, e)
	}
	if joined := missing(is.ISR, was.ISR); len(joined) > 0 {
		about.Kind, about.Brokers = ISRGrown, joined
		events = append(events, about)
	}
	for _, e := range ended {
		e.Partition = about.Partition
		events = append(events, e)
	}
	return events
}

// layoutEvents returns the events of a reassignment. begun comes before the other events of the
// record, and ended after them.
func layoutEvents(rec *metarecord.PartitionChange, was, is image.Partition) (begun, ended []Event) {
	if rec.Replicas == nil && rec.Adding == nil && rec.Removing == nil {
		return nil, nil
	}
	e := Event{Brokers: is.Replicas, LeaderEpoch: is.LeaderEpoch}
	adding, _ := was.Moving()
	switch {
	case is.Moves():
		e.Kind = ReassignmentBegun
		return []Event{e}, nil
	case len(adding) > 0 && len(missing(adding, is.Replicas)) == len(adding):
		e.Kind = ReassignmentCancelled
	default:
		e.Kind = ReassignmentDone
	}
	return nil, []Event{e}
}

// missing returns the brokers of a set that another one lacks.
func missing(set, other []int32) (ids []int32) {
	for _, id := range set {
		if !slices.Contains(other, id) {
			ids = append(ids, id)
		}
	}
	return ids
}

// isUnclean reports whether a record elects a leader that may lack acknowledged records.
func isUnclean(rec *metarecord.PartitionChange) bool { return rec.Recovery > 0 && rec.Leader >= 0 }
