package kafka

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// dropRepeated removes repeated names from a request, so that each is served and answered once.
// The response for a group or a partition can be a hundred kilobytes long, while its name in the
// request takes four bytes. Kafka answers each repetition; no client repeats a name.
//
// Only requests with long responses or much work are treated so. For DeleteRecords, the last
// offset of a partition counts.
func dropRepeated(r kmsg.Request) {
	switch r := r.(type) {
	case *kmsg.DescribeGroupsRequest:
		r.Groups = once(r.Groups, itself)
	case *kmsg.ConsumerGroupDescribeRequest:
		r.Groups = once(r.Groups, itself)
	case *kmsg.ShareGroupDescribeRequest:
		r.GroupIDs = once(r.GroupIDs, itself)
	case *kmsg.StreamsGroupDescribeRequest:
		r.Groups = once(r.Groups, itself)
	case *kmsg.DescribeTransactionsRequest:
		r.TransactionalIDs = once(r.TransactionalIDs, itself)
	case *kmsg.ListTransactionsRequest:
		r.StateFilters = once(r.StateFilters, itself)
	case *kmsg.DescribeProducersRequest:
		seen := seenParts{}
		for i := range r.Topics {
			t := &r.Topics[i]
			t.Partitions = seen.numbers(topicKey{name: t.Topic}, t.Partitions)
		}
	case *kmsg.OffsetFetchRequest:
		seen := seenParts{}
		for i := range r.Topics {
			t := &r.Topics[i]
			t.Partitions = seen.numbers(topicKey{name: t.Topic}, t.Partitions)
		}
		for i := range r.Groups { // offsetFetch bounds the size of the response
			clear(seen)
			for j := range r.Groups[i].Topics {
				t := &r.Groups[i].Topics[j]
				t.Partitions = seen.numbers(topicKey{t.Topic, t.TopicID}, t.Partitions)
			}
		}
	case *kmsg.DescribeShareGroupOffsetsRequest:
		whole := map[string]bool{} // groups of which all topics are requested
		r.Groups = slices.DeleteFunc(r.Groups, func(g kmsg.DescribeShareGroupOffsetsRequestGroup) bool {
			repeated := g.Topics == nil && whole[g.GroupID]
			whole[g.GroupID] = whole[g.GroupID] || g.Topics == nil
			return repeated
		})
		seen := map[string]seenParts{}
		for i := range r.Groups {
			g := &r.Groups[i]
			if seen[g.GroupID] == nil {
				seen[g.GroupID] = seenParts{}
			}
			for j := range g.Topics {
				t := &g.Topics[j]
				t.Partitions = seen[g.GroupID].numbers(topicKey{name: t.Topic}, t.Partitions)
			}
		}
	case *kmsg.DescribeLogDirsRequest:
		seen := seenParts{}
		for i := range r.Topics {
			t := &r.Topics[i]
			t.Partitions = seen.numbers(topicKey{name: t.Topic}, t.Partitions)
		}
	case *kmsg.DeleteRecordsRequest:
		lastOffsets(r)
	}
}

// lastOffsets keeps one element for each partition, with its last offset in the request.
func lastOffsets(r *kmsg.DeleteRecordsRequest) {
	last := map[partKey]int64{}
	for _, t := range r.Topics {
		for _, p := range t.Partitions {
			last[partKey{topicKey{name: t.Topic}, p.Partition}] = p.Offset
		}
	}
	for i := range r.Topics {
		t := &r.Topics[i]
		kept := t.Partitions[:0]
		for _, p := range t.Partitions {
			key := partKey{topicKey{name: t.Topic}, p.Partition}
			if offset, first := last[key]; first {
				delete(last, key)
				p.Offset = offset
				kept = append(kept, p)
			}
		}
		t.Partitions = kept
	}
}

func itself(s string) string { return s }

// once returns the elements of list without those whose key an earlier element has. It reuses the
// memory of list.
func once[T any](list []T, key func(T) string) []T {
	if len(list) < 2 {
		return list
	}
	seen := make(map[string]struct{}, min(len(list), 64))
	kept := list[:0]
	for _, e := range list {
		k := key(e)
		if _, repeated := seen[k]; !repeated {
			seen[k] = struct{}{}
			kept = append(kept, e)
		}
	}
	clear(list[len(kept):])
	return kept
}

// seenParts are the partitions that a request has named so far.
type seenParts map[partKey]struct{}

// numbers returns the partitions of a topic that were not named before. It reuses the memory of
// list.
func (s seenParts) numbers(t topicKey, list []int32) []int32 {
	kept := list[:0]
	for _, n := range list {
		k := partKey{t, n}
		if _, repeated := s[k]; !repeated {
			s[k] = struct{}{}
			kept = append(kept, n)
		}
	}
	return kept
}
