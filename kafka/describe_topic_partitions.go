package kafka

import (
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata/acl"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/replication"
)

// maxDescribedPartitions bounds the partitions of a page. Kafka: max.request.partition.size.limit.
const maxDescribedPartitions = 2000

// describeTopicPartitions describes topics in pages of partitions, in the order of their names
// (KIP-966). NextCursor in the response is the start of the next page. Key 75, version 0.
func (c *call) describeTopicPartitions(req *kmsg.DescribeTopicPartitionsRequest) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.DescribeTopicPartitionsResponse)
	names := map[string]bool{}
	for _, t := range req.Topics {
		names[t.Topic] = true
	}
	sorted := slices.Sorted(maps.Keys(names))
	all, err := c.s.cluster.Metadata(c.ctx, sorted...)
	if err != nil {
		return c.hangUp()
	}
	everything := len(req.Topics) == 0
	if everything {
		sorted = slices.Sorted(maps.Keys(all.Topics))
	}
	first := int32(0)
	if at := req.Cursor; at != nil {
		from, found := slices.BinarySearch(sorted, at.Topic)
		if at.Partition < 0 || !found && !everything {
			// The response has no error code at the top level. So each topic of the request has
			// the error, and no other topic is in the response.
			return partitionsRefused(resp, slices.Sorted(maps.Keys(names)), InvalidRequest)
		}
		sorted = sorted[from:]
		if found {
			first = at.Partition
		}
	}
	sorted, denied := split(sorted, func(name *string) bool { return c.allows(acl.Describe, acl.Topic, *name) })
	if at := req.Cursor; at != nil && (len(sorted) == 0 || sorted[0] != at.Topic) {
		first = 0
	}
	if everything {
		denied = nil
	}
	defer func() { partitionsRefused(resp, denied, TopicAuthorizationFailed) }()
	who := c.brokersSeen(all)
	who.version = latestMetadata
	left := max(min(int(req.ResponsePartitionLimit), maxDescribedPartitions), 1)
	for _, name := range each(c, sorted) {
		if left == 0 {
			resp.NextCursor = &kmsg.DescribeTopicPartitionsResponseNextCursor{Topic: name}
			break
		}
		from, t := first, all.Topics[name]
		first = 0
		if t.Err != nil {
			failed := kmsg.NewDescribeTopicPartitionsResponseTopic()
			failed.Topic, failed.ErrorCode, failed.AuthorizedOperations = &name, c.errorCode(t.Err), c.operations(acl.Topic, name)
			resp.Topics = append(resp.Topics, failed)
			continue
		}
		page, next := describedTopic(t, who, pageOf{from, left})
		c.describeImpaired(&page)
		page.AuthorizedOperations = c.operations(acl.Topic, name)
		resp.Topics = append(resp.Topics, page)
		left -= len(page.Partitions)
		if next > 0 {
			resp.NextCursor = &kmsg.DescribeTopicPartitionsResponseNextCursor{Topic: name, Partition: next}
			break
		}
	}
	return resp
}

func partitionsRefused(resp *kmsg.DescribeTopicPartitionsResponse, names []string, code Code) kmsg.Response {
	for _, name := range names {
		failed := kmsg.NewDescribeTopicPartitionsResponseTopic()
		failed.Topic, failed.ErrorCode = &name, int16(code)
		resp.Topics = append(resp.Topics, failed)
	}
	return resp
}

// latestMetadata is the version of Metadata whose partitions have the same errors as in
// DescribeTopicPartitions.
const latestMetadata = 13

// pageOf is a range of a topic's partitions.
type pageOf struct {
	first int32
	limit int
}

// describedTopic returns one page of the partitions of t, and the first partition of the next
// page; 0 after the last page.
func describedTopic(t replication.TopicMetadata, who brokersSeen, which pageOf) (page kmsg.DescribeTopicPartitionsResponseTopic, next int32) {
	page = kmsg.NewDescribeTopicPartitionsResponseTopic()
	page.Topic, page.TopicID, page.IsInternal = &t.Name, t.ID, t.Internal
	for i := int(which.first); i < len(t.Partitions); i++ {
		if len(page.Partitions) == which.limit {
			return page, int32(i)
		}
		p := who.partition(int32(i), t.Partitions[i])
		dp := kmsg.NewDescribeTopicPartitionsResponseTopicPartition()
		dp.Partition, dp.LeaderID, dp.LeaderEpoch, dp.Replicas, dp.ISR = int32(i), p.Leader, p.LeaderEpoch, p.Replicas, p.ISR
		// empty, not null: null means unknown
		dp.EligibleLeaderReplicas = append([]int32{}, t.Partitions[i].Eligible...)
		dp.LastKnownELR = append([]int32{}, t.Partitions[i].LastKnown...)
		dp.ErrorCode, dp.OfflineReplicas = p.ErrorCode, p.OfflineReplicas
		page.Partitions = append(page.Partitions, dp)
	}
	return page, 0
}

// describeImpaired sets the error of each partition whose leader has met damage, or does not
// acknowledge or show all records. Kafka has no error for these. Clients that write and read use
// Metadata, which has no error for them here either.
func (c *call) describeImpaired(page *kmsg.DescribeTopicPartitionsResponseTopic) {
	for i := range page.Partitions {
		if p := &page.Partitions[i]; p.ErrorCode == 0 {
			p.ErrorCode = int16(codeOf(c.s.cluster.Impaired(record.TopicPartition{Topic: *page.Topic, Partition: p.Partition})))
		}
	}
}
