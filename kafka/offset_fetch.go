package kafka

import (
	"cmp"
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata/record"
)

// offsetFetch serves OffsetFetch: of one group up to version 7, of many from 8 on (KIP-709), with
// topic ids from 10 on. Key 9, versions 1 to 10.
//
// With RequireStable (version 7), partitions whose offset is being committed in a transaction have
// UNSTABLE_OFFSET_COMMIT (KIP-447). Member ids and epochs (version 9) are for groups of the newer
// protocol, which reject an unknown member and another epoch. Classic groups ignore them, as in
// Kafka.
func (c *call) offsetFetch(req *kmsg.OffsetFetchRequest) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.OffsetFetchResponse)
	if req.Version < 8 {
		c.fetchOneGroup(req, resp)
		return resp
	}
	for _, g := range each(c, req.Groups) {
		rg := kmsg.NewOffsetFetchResponseGroup()
		rg.Group = g.Group
		err := c.fetchGroup(&g, &rg, req.RequireStable)
		if err == nil {
			err = c.room(fetchedSize(&rg))
		}
		if err != nil {
			rg.Topics, rg.ErrorCode = nil, c.errorCode(err)
		}
		resp.Groups = append(resp.Groups, rg)
	}
	return resp
}

// fetchedSize returns the approximate size of the response for a group, in bytes.
func fetchedSize(rg *kmsg.OffsetFetchResponseGroup) int {
	size := len(rg.Group) + 16
	for i := range rg.Topics {
		t := &rg.Topics[i]
		size += len(t.Topic) + 24
		for j := range t.Partitions {
			size += len(orEmpty(t.Partitions[j].Metadata)) + 24
		}
	}
	return size
}

// fetchOneGroup answers versions 1 to 7: it translates request and response from and to those of
// later versions.
func (c *call) fetchOneGroup(req *kmsg.OffsetFetchRequest, resp *kmsg.OffsetFetchResponse) {
	g, rg := kmsg.NewOffsetFetchRequestGroup(), kmsg.NewOffsetFetchResponseGroup()
	g.Group = req.Group
	if req.Topics != nil {
		g.Topics = make([]kmsg.OffsetFetchRequestGroupTopic, 0, len(req.Topics))
	}
	for _, t := range req.Topics {
		gt := kmsg.NewOffsetFetchRequestGroupTopic()
		gt.Topic, gt.Partitions = t.Topic, t.Partitions
		g.Topics = append(g.Topics, gt)
	}
	err := c.fetchGroup(&g, &rg, req.RequireStable)
	switch {
	case err != nil && req.Version >= 2:
		resp.ErrorCode = c.errorCode(err)
		return
	case err != nil: // the only field for an error is in the partition
		rg.Topics = nil
		for _, t := range g.Topics {
			rg.Topics = append(rg.Topics, noOffsets(t, c.errorCode(err)))
		}
	}
	for _, t := range rg.Topics {
		rt := kmsg.NewOffsetFetchResponseTopic()
		rt.Topic = t.Topic
		for _, p := range t.Partitions {
			rp := kmsg.NewOffsetFetchResponseTopicPartition()
			rp.Partition, rp.Offset, rp.LeaderEpoch, rp.Metadata, rp.ErrorCode = p.Partition, p.Offset, p.LeaderEpoch, p.Metadata, p.ErrorCode
			rt.Partitions = append(rt.Partitions, rp)
		}
		resp.Topics = append(resp.Topics, rt)
	}
}

// fetchGroup fills in the response for one group. If Topics is nil, it has all partitions with an
// offset.
func (c *call) fetchGroup(g *kmsg.OffsetFetchRequestGroup, rg *kmsg.OffsetFetchResponseGroup, stable bool) error {
	if member := orEmpty(g.MemberID); c.version >= 9 && (member != "" || g.MemberEpoch >= 0) {
		if err := c.groups.CheckConsumerMember(c.ctx, g.Group, member, g.MemberEpoch); err != nil {
			return err
		}
	}
	if g.Topics == nil {
		return c.fetchAll(g, rg, stable)
	}
	var tps []record.TopicPartition
	for i := range g.Topics {
		t := &g.Topics[i]
		if c.version >= 10 {
			t.Topic, _ = c.s.cluster.TopicName(t.TopicID)
		}
		for _, p := range t.Partitions {
			tps = append(tps, record.TopicPartition{Topic: t.Topic, Partition: p})
		}
	}
	if tps == nil {
		tps = []record.TopicPartition{} // none, not all
	}
	offsets, unstable, err := c.committedOffsets(g.Group, tps, stable)
	if err != nil {
		return err
	}
	var unknown []kmsg.OffsetFetchResponseGroupTopic // last in the response, as in Kafka
	for _, t := range each(c, g.Topics) {
		if c.version >= 10 && t.Topic == "" {
			unknown = append(unknown, noOffsets(t, int16(UnknownTopicID)))
			continue
		}
		rt := kmsg.NewOffsetFetchResponseGroupTopic()
		rt.Topic, rt.TopicID = t.Topic, t.TopicID
		for _, p := range each(c, t.Partitions) {
			tp := record.TopicPartition{Topic: t.Topic, Partition: p}
			rp := fetchedOffset(p, offsets[tp])
			if err := unstable[tp]; err != nil {
				rp = noOffset(p, c.errorCode(err))
			}
			rt.Partitions = append(rt.Partitions, rp)
		}
		rg.Topics = append(rg.Topics, rt)
	}
	rg.Topics = append(rg.Topics, unknown...)
	return nil
}

// fetchAll fills in all partitions with an offset. With topic ids, deleted topics have no id and
// are left out.
func (c *call) fetchAll(g *kmsg.OffsetFetchRequestGroup, rg *kmsg.OffsetFetchResponseGroup, stable bool) error {
	offsets, unstable, err := c.committedOffsets(g.Group, nil, stable)
	if err != nil {
		return err
	}
	tps := slices.AppendSeq(make([]record.TopicPartition, 0, len(offsets)), maps.Keys(offsets))
	tps = slices.AppendSeq(tps, maps.Keys(unstable))
	slices.SortFunc(tps, func(a, b record.TopicPartition) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
	})
	for i, tp := range each(c, tps) {
		if i == 0 || tps[i-1].Topic != tp.Topic {
			rt := kmsg.NewOffsetFetchResponseGroupTopic()
			rt.Topic = tp.Topic
			rg.Topics = append(rg.Topics, rt)
		}
		last := &rg.Topics[len(rg.Topics)-1]
		rp := fetchedOffset(tp.Partition, offsets[tp])
		if err := unstable[tp]; err != nil {
			rp = noOffset(tp.Partition, c.errorCode(err))
		}
		last.Partitions = append(last.Partitions, rp)
	}
	if c.version < 10 {
		return nil
	}
	rg.Topics = slices.DeleteFunc(rg.Topics, func(t kmsg.OffsetFetchResponseGroupTopic) bool {
		_, known := c.s.cluster.TopicID(t.Topic)
		return !known
	})
	for i := range rg.Topics {
		rg.Topics[i].TopicID, _ = c.s.cluster.TopicID(rg.Topics[i].Topic)
	}
	return nil
}

// committedOffsets returns the offsets of a group and, if stable is true, errors for partitions
// whose offsets are not stable.
func (c *call) committedOffsets(group string, tps []record.TopicPartition, stable bool) (map[record.TopicPartition]record.Committed, map[record.TopicPartition]error, error) {
	if stable && c.version >= 7 {
		return c.groups.FetchStableOffsets(c.ctx, group, tps)
	}
	offsets, err := c.groups.FetchOffsets(c.ctx, group, tps)
	return offsets, nil, err
}

// noOffset returns the response for a partition with an error.
func noOffset(partition int32, code int16) kmsg.OffsetFetchResponseGroupTopicPartition {
	rp := fetchedOffset(partition, record.Committed{Offset: -1, LeaderEpoch: -1})
	rp.ErrorCode = code
	return rp
}

func fetchedOffset(partition int32, o record.Committed) kmsg.OffsetFetchResponseGroupTopicPartition {
	rp := kmsg.NewOffsetFetchResponseGroupTopicPartition()
	rp.Partition, rp.Offset, rp.LeaderEpoch, rp.Metadata = partition, o.Offset, o.LeaderEpoch, &o.Metadata
	return rp
}

// noOffsets returns the response for a topic with the same error for all partitions.
func noOffsets(t kmsg.OffsetFetchRequestGroupTopic, code int16) kmsg.OffsetFetchResponseGroupTopic {
	rt := kmsg.NewOffsetFetchResponseGroupTopic()
	rt.Topic, rt.TopicID = t.Topic, t.TopicID
	for _, p := range t.Partitions {
		rt.Partitions = append(rt.Partitions, noOffset(p, code))
	}
	return rt
}
