package streaming

import (
	"slices"

	"github.com/stratalog/strata/group/internal/protocol"
	"github.com/stratalog/strata/internal/offsets"
)

// queryable returns the members whose state can be queried, with their partitions, after the sender
// of the heartbeat has become next. Kafka: EndpointToPartitionsManager.
func (b *beat) queryable(next *member) []protocol.StreamsQueryable {
	out := []protocol.StreamsQueryable{}
	members := slices.DeleteFunc(b.g.inOrder(), func(m *member) bool { return m.id == next.id })
	for _, m := range append(members, next) {
		if m.Endpoint != nil {
			out = append(out, protocol.StreamsQueryable{Endpoint: *m.Endpoint,
				Active: b.reads(plain(m.assigned[active])), Standby: b.reads(plain(m.assigned[standby]))})
		}
	}
	return out
}

// reads returns the partitions of source topics that tasks read.
func (b *beat) reads(tasks []task) []protocol.StreamsPartitions {
	return partitionsOf(b.topology, group(tasks), func(topic string) int32 {
		if b.g.topics == nil {
			return 0
		}
		return b.g.topics.ByName[topic].Partitions
	})
}

// partitionsOf returns the partitions of source topics that tasks read. partitions returns a
// topic's number of partitions.
func partitionsOf(t *topology, tasks []offsets.StreamsTasks, partitions func(topic string) int32) (out []protocol.StreamsPartitions) {
	for _, of := range tasks {
		s := t.byID[of.Subtopology]
		if s == nil {
			continue
		}
		names := sources(s)
		slices.Sort(names)
		for _, name := range slices.Compact(names) {
			read := slices.DeleteFunc(slices.Clone(of.Partitions), func(p int32) bool { return p >= partitions(name) })
			out = append(out, protocol.StreamsPartitions{Topic: name, Partitions: read})
		}
	}
	return out
}
