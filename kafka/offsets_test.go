package kafka

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata/group"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/topic"
)

// commitOf commits offset in partitions of topic "t". Version 10 has the topic's id.
func commitOf(version int16, group, memberID string, generation int32, offset int64, partitions ...int32) *kmsg.OffsetCommitRequest {
	r := kmsg.NewPtrOffsetCommitRequest()
	r.Version, r.Group, r.MemberID, r.Generation = version, group, memberID, generation
	t := kmsg.NewOffsetCommitRequestTopic()
	t.Topic = "t"
	for _, p := range partitions {
		rp := kmsg.NewOffsetCommitRequestTopicPartition()
		rp.Partition, rp.Offset, rp.LeaderEpoch, rp.Metadata = p, offset, 3, kmsg.StringPtr("note")
		t.Partitions = append(t.Partitions, rp)
	}
	r.Topics = append(r.Topics, t)
	return r
}

func (c *groupClient) commit(version int16, group, memberID string, generation int32, offset int64, partitions ...int32) []Code {
	return c.commitCodes(commitOf(version, group, memberID, generation, offset, partitions...))
}

func (c *groupClient) commitCodes(r *kmsg.OffsetCommitRequest) (codes []Code) {
	for _, t := range c.ask(r).(*kmsg.OffsetCommitResponse).Topics {
		for _, p := range t.Partitions {
			codes = append(codes, Code(p.ErrorCode))
		}
	}
	return codes
}

// fetchOf requests the offset of one partition of one group.
func fetchOf(version int16, group, topic string, partition int32) *kmsg.OffsetFetchRequest {
	r, g := kmsg.NewPtrOffsetFetchRequest(), kmsg.NewOffsetFetchRequestGroup()
	r.Version, r.Group, g.Group = version, group, group
	r.Topics = []kmsg.OffsetFetchRequestTopic{{Topic: topic, Partitions: []int32{partition}}}
	g.Topics = []kmsg.OffsetFetchRequestGroupTopic{{Topic: topic, Partitions: []int32{partition}}}
	r.Groups = append(r.Groups, g)
	return r
}

// fetch returns offset, metadata and error code.
func (c *groupClient) fetch(version int16, group, topic string, partition int32) []any {
	r := c.ask(fetchOf(version, group, topic, partition)).(*kmsg.OffsetFetchResponse)
	if version < 8 {
		require.Zero(c.t, r.ErrorCode)
		p := r.Topics[0].Partitions[0]
		return []any{p.Offset, *p.Metadata, Code(p.ErrorCode)}
	}
	require.Zero(c.t, r.Groups[0].ErrorCode)
	p := r.Groups[0].Topics[0].Partitions[0]
	return []any{p.Offset, *p.Metadata, Code(p.ErrorCode)}
}

func TestOffsetsAreCommittedAndFetchedInEveryVersion(t *testing.T) {
	withGroups(t, func(t *testing.T, s *groupServer) {
		c := newGroupClient(t, s)
		id, known := s.cluster.TopicID("t")
		require.True(t, known)
		for v := int16(2); v <= 10; v++ {
			r := commitOf(v, "g", "", -1, int64(v), 0, 1, 7)
			if v == 10 {
				r.Topics[0].TopicID = id
			}
			require.Equal(t, []Code{0, 0, UnknownTopicOrPartition}, c.commitCodes(r))
			for f := int16(1); f <= 9; f++ {
				require.Equal(t, []any{int64(v), "note", Code(0)}, c.fetch(f, "g", "t", 1))
				require.Equal(t, []any{int64(-1), "", Code(0)}, c.fetch(f, "g", "t", 7))
				require.Equal(t, []any{int64(-1), "", Code(0)}, c.fetch(f, "g", "nope", 0))
				require.Equal(t, []any{int64(-1), "", Code(0)}, c.fetch(f, "nobody", "t", 0))
			}
			byID := fetchOf(10, "g", "", 0)
			byID.Groups[0].Topics[0].TopicID = id
			rt := c.ask(byID).(*kmsg.OffsetFetchResponse).Groups[0].Topics[0]
			require.Equal(t, []any{id, int64(v), int16(0)}, []any{topic.ID(rt.TopicID), rt.Partitions[0].Offset, rt.Partitions[0].ErrorCode})
			want := int32(-1)
			if v >= 6 {
				want = 3
			}
			require.Equal(t, want, rt.Partitions[0].LeaderEpoch)
		}
	})
}

func TestTopicIDsThatAreUnknownAreToldPerPartition(t *testing.T) {
	withGroups(t, func(t *testing.T, s *groupServer) {
		c := newGroupClient(t, s)
		require.Equal(t, []Code{UnknownTopicID, UnknownTopicID}, c.commit(10, "g", "", -1, 5, 0, 1))
		for _, id := range []topic.ID{{}, {9}} {
			r := fetchOf(10, "g", "", 0)
			r.Groups[0].Topics[0].TopicID = id
			rt := c.ask(r).(*kmsg.OffsetFetchResponse).Groups[0].Topics[0]
			require.Equal(t, []any{id, int64(-1), int32(-1), UnknownTopicID}, []any{topic.ID(rt.TopicID), rt.Partitions[0].Offset, rt.Partitions[0].LeaderEpoch, Code(rt.Partitions[0].ErrorCode)})
		}
	})
}

func TestNullTopicsFetchWhatAGroupHas(t *testing.T) {
	withGroups(t, func(t *testing.T, s *groupServer) {
		c := newGroupClient(t, s)
		c.commit(8, "g", "", -1, 5, 1, 0)
		id, _ := s.cluster.TopicID("t")
		for v := int16(2); v <= 7; v++ {
			all := c.ask(&kmsg.OffsetFetchRequest{Version: v, Group: "g"}).(*kmsg.OffsetFetchResponse)
			require.Len(t, all.Topics, 1)
			require.Len(t, all.Topics[0].Partitions, 2)
			require.Empty(t, c.ask(&kmsg.OffsetFetchRequest{Version: v, Group: "nobody"}).(*kmsg.OffsetFetchResponse).Topics)
			none := &kmsg.OffsetFetchRequest{Version: v, Group: "g", Topics: []kmsg.OffsetFetchRequestTopic{}}
			require.Empty(t, c.ask(none).(*kmsg.OffsetFetchResponse).Topics)
		}
		for v := int16(8); v <= 10; v++ {
			r := kmsg.NewPtrOffsetFetchRequest()
			r.Version = v
			for _, g := range []string{"g", "nobody", "g"} {
				rg := kmsg.NewOffsetFetchRequestGroup()
				rg.Group = g
				r.Groups = append(r.Groups, rg)
			}
			r.Groups[2].Topics = []kmsg.OffsetFetchRequestGroupTopic{}
			got := c.ask(r).(*kmsg.OffsetFetchResponse).Groups
			require.Len(t, got, 3)
			require.Empty(t, got[1].Topics)
			require.Empty(t, got[2].Topics)
			require.Len(t, got[0].Topics, 1)
			rt := got[0].Topics[0]
			require.Equal(t, v < 10, rt.Topic == "t")
			require.Equal(t, v >= 10, topic.ID(rt.TopicID) == id)
			require.Equal(t, []int32{0, 1}, []int32{rt.Partitions[0].Partition, rt.Partitions[1].Partition})
		}
	})
}

// Kafka's request layer checks topics before it calls the coordinator. A partition that does not
// exist is reported as such, even if the commit is rejected as a whole.
func TestCommitsAreCheckedAgainstTheGroup(t *testing.T) {
	withGroups(t, func(t *testing.T, s *groupServer) {
		c := newGroupClient(t, s)
		require.Equal(t, []Code{IllegalGeneration, UnknownTopicOrPartition}, c.commit(8, "nobody", "m", 1, 5, 0, 7))
		require.Equal(t, []Code{GroupIDNotFound, UnknownTopicOrPartition}, c.commit(9, "nobody", "m", 1, 5, 0, 7))
		require.Equal(t, []Code{UnknownTopicOrPartition}, c.commit(9, "nobody", "m", 1, 5, 7), "the group is not asked then")
		require.Empty(t, c.commitCodes(&kmsg.OffsetCommitRequest{Version: 9, Group: "nobody", Generation: 4}))

		id := c.alone("g")
		require.Equal(t, []Code{UnknownMemberID}, c.commit(9, "g", "", -1, 5, 0))
		require.Equal(t, []Code{UnknownMemberID}, c.commit(9, "g", "x", 1, 5, 0))
		require.Equal(t, []Code{IllegalGeneration}, c.commit(9, "g", id, 0, 5, 0))
		require.Equal(t, []Code{IllegalGeneration}, c.commit(9, "g", id, -1, 5, 0))
		require.Equal(t, []Code{0}, c.commit(9, "g", id, 1, -5, 0), "offsets are not looked at")
		require.Equal(t, []any{int64(-5), "note", Code(0)}, c.fetch(9, "g", "t", 0))

		large := commitOf(9, "g", id, 1, 6, 0, 1)
		large.Topics[0].Partitions[1].Metadata = kmsg.StringPtr(strings.Repeat("x", 4097))
		require.Equal(t, []Code{0, OffsetMetadataTooLarge}, c.commitCodes(large))
		null := commitOf(9, "g", id, 1, 7, 0)
		null.Topics[0].Partitions[0].Metadata = nil
		require.Equal(t, []Code{0}, c.commitCodes(null))
		require.Equal(t, []any{int64(7), "", Code(0)}, c.fetch(9, "g", "t", 0))

		c.leave(5, "g", kmsg.LeaveGroupRequestMember{MemberID: id})
		require.Equal(t, []Code{0}, c.commit(9, "g", "whoever", -1, 8, 0), "an empty group takes any")
		require.Equal(t, []Code{0}, c.commit(9, "", "", -1, 9, 0), "the group without a name may have offsets")
		require.Equal(t, []any{int64(9), "note", Code(0)}, c.fetch(9, "", "t", 0))
	})
}

func TestRetentionOfOldCommitsIsKept(t *testing.T) {
	withGroups(t, func(t *testing.T, s *groupServer) {
		c := newGroupClient(t, s)
		for retention, want := range map[int64]bool{-1: true, 0: false, 1000: false, 1 << 62: true} {
			r := commitOf(4, "g", "", -1, 5, 0)
			r.RetentionTimeMillis = retention
			require.Equal(t, []Code{0}, c.commitCodes(r))
			time.Sleep(11 * time.Minute) // expired offsets are removed every 10 minutes
			c = newGroupClient(t, s)     // the server closes idle connections
			require.Equal(t, want, c.fetch(9, "g", "t", 0)[0] == int64(5), "retention %d", retention)
		}
	})
}

func TestOffsetsAreDeletedOfTopicsNobodyReads(t *testing.T) {
	withGroups(t, func(t *testing.T, s *groupServer) {
		c := newGroupClient(t, s)
		id := c.alone("g")
		c.commit(9, "g", id, 1, 5, 0)
		c.commit(9, "offsets only", "", -1, 5, 0)
		del := func(group, topic string, partitions ...int32) (Code, []Code) {
			rt := kmsg.OffsetDeleteRequestTopic{Topic: topic}
			for _, p := range partitions {
				rt.Partitions = append(rt.Partitions, kmsg.OffsetDeleteRequestTopicPartition{Partition: p})
			}
			r := c.ask(&kmsg.OffsetDeleteRequest{Group: group, Topics: []kmsg.OffsetDeleteRequestTopic{rt}}).(*kmsg.OffsetDeleteResponse)
			var codes []Code
			for _, t := range r.Topics {
				for _, p := range t.Partitions {
					codes = append(codes, Code(p.ErrorCode))
				}
			}
			return Code(r.ErrorCode), codes
		}
		top, codes := del("g", "t", 0, 9)
		require.Equal(t, []any{Code(0), []Code{GroupSubscribedToTopic, UnknownTopicOrPartition}}, []any{top, codes})
		top, codes = del("g", "nope", 0)
		require.Equal(t, []any{Code(0), []Code{UnknownTopicOrPartition}}, []any{top, codes})
		for _, topic := range []string{"t", "nope"} {
			top, codes = del("nobody", topic, 0)
			require.Equal(t, GroupIDNotFound, top)
			require.Empty(t, codes)
		}
		top, codes = del("offsets only", "t", 0, 1)
		require.Equal(t, []any{Code(0), []Code{0, 0}}, []any{top, codes})
		require.Equal(t, []any{int64(-1), "", Code(0)}, c.fetch(9, "offsets only", "t", 0))
	})
}

func TestOffsetsCommittedOverTheWireAreThoseOfTheProcess(t *testing.T) {
	withGroups(t, func(t *testing.T, s *groupServer) {
		c := newGroupClient(t, s)
		c.commit(9, "g", "", -1, 5, 0)
		tp := record.TopicPartition{Topic: "t"}
		got, err := s.cluster.FetchOffsets(t.Context(), "g", []record.TopicPartition{tp})
		require.NoError(t, err)
		require.Equal(t, record.Committed{Offset: 5, LeaderEpoch: 3, Metadata: "note"}, got[tp])
		_, err = s.cluster.CommitOffsets(t.Context(), group.CommitRequest{Group: "h", Generation: -1, Offsets: map[record.TopicPartition]record.Committed{tp: {Offset: 6}}})
		require.NoError(t, err)
		require.Equal(t, []any{int64(6), "", Code(0)}, c.fetch(9, "h", "t", 0))
	})
}
