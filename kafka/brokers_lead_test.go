package kafka

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// produceTo returns a request with one record for each partition.
func (b *brokers) produceTo(version int16, partitions ...int32) *kmsg.ProduceRequest {
	req := produceOne(version, "orders", nil)
	req.Topics[0].TopicID, req.Topics[0].Partitions = b.id(), nil
	for _, p := range partitions {
		part := kmsg.NewProduceRequestTopicPartition()
		part.Partition, part.Records = p, batch("k", "v")
		req.Topics[0].Partitions = append(req.Topics[0].Partitions, part)
	}
	return req
}

// A broker serves the partitions that it leads. For the others it answers NOT_LEADER_OR_FOLLOWER,
// and names their leader from version 10 on (KIP-951).
func TestProduceIsServedByTheLeaderOnly(t *testing.T) {
	b := serveBrokers(t, 3, Config{})
	written := int64(0)
	for version := int16(3); version <= 13; version++ {
		written++
		for id, addr := range b.addrs {
			got := ask[*kmsg.ProduceResponse](t, addr, version, b.produceTo(version, 0, 1, 2))
			for i, p := range got.Topics[0].Partitions {
				leader, elsewhere := int32(i+1), int32(i+1) != id
				want := kmsg.NewProduceResponseTopicPartitionCurrentLeader()
				if elsewhere && version >= 10 {
					want.LeaderID, want.LeaderEpoch = leader, 0
				}
				require.Equal(t, want, p.CurrentLeader, "version %d", version)
				if elsewhere {
					require.Equal(t, NotLeaderOrFollower, Code(p.ErrorCode))
					require.EqualValues(t, -1, p.BaseOffset)
				} else {
					require.Zero(t, p.ErrorCode)
					require.Equal(t, written-1, p.BaseOffset)
				}
			}
			if version < 10 {
				require.Empty(t, got.Brokers)
				continue
			}
			require.Len(t, got.Brokers, 2, "each of the others once")
			for _, is := range got.Brokers {
				require.NotEqual(t, id, is.NodeID)
				require.Equal(t, b.addrs[is.NodeID], hostPort(is.Host, is.Port))
				require.Equal(t, fmt.Sprint("r", is.NodeID), *is.Rack)
			}
		}
		require.Equal(t, []int64{written, written, written}, b.ends(), "once, by the leader")
	}
	got := ask[*kmsg.ProduceResponse](t, b.addrs[1], 13, b.produceTo(13, 3))
	require.Equal(t, UnknownTopicOrPartition, Code(got.Topics[0].Partitions[0].ErrorCode))
	require.Empty(t, got.Brokers)
}

// With acks=0 the broker closes the connection if it does not lead the partition.
func TestProduceWithoutAnswerToTheWrongBrokerCostsTheConnection(t *testing.T) {
	b := serveBrokers(t, 2, Config{})
	c := dial(t, b.addrs[1])
	req := b.produceTo(12, 1)
	req.Acks = 0
	c.send(req)
	c.closed()
	require.Equal(t, []int64{0, 0}, b.ends())
}

// A broker without the partition knows no leader epoch: NOT_LEADER_OR_FOLLOWER comes before
// FENCED_LEADER_EPOCH and UNKNOWN_LEADER_EPOCH, as with three brokers of Kafka 4.3.
func TestFetchIsServedByTheLeaderOnly(t *testing.T) {
	b := serveBrokers(t, 3, Config{})
	for id, addr := range b.addrs {
		ask[*kmsg.ProduceResponse](t, addr, 13, b.produceTo(13, id-1))
	}
	for version := int16(4); version <= 18; version++ {
		for _, epoch := range []int32{-1, 0} {
			for id, addr := range b.addrs {
				req := want(version, "orders", 0, 0, 0)
				req.Topics[0].TopicID = b.id()
				for i := range req.Topics[0].Partitions {
					req.Topics[0].Partitions[i].CurrentLeaderEpoch = epoch
					if epoch >= 0 && int32(i+1) != id {
						req.Topics[0].Partitions[i].CurrentLeaderEpoch = 7 // only the leader checks
						req.Topics[0].Partitions[i].LastFetchedEpoch = 7   // the same
					}
				}
				got := ask[*kmsg.FetchResponse](t, addr, version, req)
				require.Zero(t, got.ErrorCode)
				for i, p := range got.Topics[0].Partitions {
					leader := kmsg.NewFetchResponseTopicPartitionCurrentLeader()
					if int32(i+1) == id {
						require.Zero(t, p.ErrorCode, "version %d", version)
						require.NotEmpty(t, p.RecordBatches)
						require.EqualValues(t, 1, p.HighWatermark)
					} else {
						require.Equal(t, NotLeaderOrFollower, Code(p.ErrorCode), "version %d", version)
						require.Empty(t, p.RecordBatches)
						require.EqualValues(t, -1, p.HighWatermark)
						if version >= 16 {
							leader.LeaderID, leader.LeaderEpoch = int32(i+1), 0
						}
					}
					require.Equal(t, leader, p.CurrentLeader, "version %d", version)
				}
				if version < 16 {
					require.Empty(t, got.Brokers)
					continue
				}
				require.Len(t, got.Brokers, 2)
				for _, is := range got.Brokers {
					require.Equal(t, b.addrs[is.NodeID], hostPort(is.Host, is.Port))
					require.Equal(t, fmt.Sprint("r", is.NodeID), *is.Rack)
				}
			}
		}
	}
}

// A fetch that would wait for records is answered at once if a partition is led elsewhere.
func TestFetchFromTheWrongBrokerDoesNotWait(t *testing.T) {
	b := serveBrokers(t, 2, Config{})
	req := want(12, "orders", 0, 0)
	req.MinBytes, req.MaxWaitMillis = 1, 3_600_000
	got := ask[*kmsg.FetchResponse](t, b.addrs[1], 12, req)
	require.Equal(t, NotLeaderOrFollower, Code(got.Topics[0].Partitions[1].ErrorCode))
}

// Each broker has its own fetch sessions. Other brokers neither find them nor have fewer of their
// own.
func TestEachBrokerHasItsOwnFetchSessions(t *testing.T) {
	b := serveBrokers(t, 2, Config{})
	first := want(12, "orders", 0)
	first.SessionEpoch = 0
	got := ask[*kmsg.FetchResponse](t, b.addrs[1], 12, first)
	require.NotZero(t, got.SessionID)
	again := func(addr string, epoch int32) Code {
		req := want(12, "orders")
		req.SessionID, req.SessionEpoch = got.SessionID, epoch
		return Code(ask[*kmsg.FetchResponse](t, addr, 12, req).ErrorCode)
	}
	require.Equal(t, FetchSessionIDNotFound, again(b.addrs[2], 1))
	require.Zero(t, again(b.addrs[1], 1), "on another connection")
	require.Equal(t, FetchSessionIDNotFound, again(b.addrs[2], 2))
	require.Zero(t, again(b.addrs[1], 2))
}

// NOT_LEADER_OR_FOLLOWER comes after UNSUPPORTED_VERSION for an unknown special timestamp, and
// after INVALID_TOPIC_EXCEPTION for records of an internal topic, as with three brokers of Kafka
// 4.3.
func TestOffsetsAndRecordsAreTheBusinessOfTheLeader(t *testing.T) {
	b := serveBrokers(t, 2, Config{})
	for id, addr := range b.addrs {
		ask[*kmsg.ProduceResponse](t, addr, 13, b.produceTo(13, id-1))
		code := func(got int16, p int32) {
			t.Helper()
			if p+1 == id {
				require.Zero(t, got)
			} else {
				require.Equal(t, NotLeaderOrFollower, Code(got))
			}
		}
		for p := range int32(2) {
			for version := int16(1); version <= 11; version++ {
				for _, epoch := range []int32{-1, 0} {
					if p+1 != id && epoch == 0 {
						epoch = 7
					}
					code(listOne(t, addr, version, p, epoch, -1), p)
				}
				require.Equal(t, UnsupportedVersion, Code(listOne(t, addr, version, p, -1, -9)), "is looked at first")
			}
			for version := int16(2); version <= 4; version++ {
				req, rt, rp := kmsg.NewPtrOffsetForLeaderEpochRequest(), kmsg.NewOffsetForLeaderEpochRequestTopic(), kmsg.NewOffsetForLeaderEpochRequestTopicPartition()
				rt.Topic, rp.Partition, rp.CurrentLeaderEpoch = "orders", p, -1
				if p+1 != id {
					rp.CurrentLeaderEpoch = 7
				}
				rt.Partitions, req.Topics = append(rt.Partitions, rp), nil
				req.Topics = append(req.Topics, rt)
				got := ask[*kmsg.OffsetForLeaderEpochResponse](t, addr, version, req).Topics[0].Partitions[0]
				code(got.ErrorCode, p)
				if p+1 != id {
					require.EqualValues(t, -1, got.EndOffset)
				}
			}
			producers := kmsg.NewPtrDescribeProducersRequest()
			producers.Topics = []kmsg.DescribeProducersRequestTopic{{Topic: "orders", Partitions: []int32{p}}}
			code(ask[*kmsg.DescribeProducersResponse](t, addr, 0, producers).Topics[0].Partitions[0].ErrorCode, p)
		}
	}
	cut := func(addr string, name string, p int32) (Code, int64) {
		req, rt, rp := kmsg.NewPtrDeleteRecordsRequest(), kmsg.NewDeleteRecordsRequestTopic(), kmsg.NewDeleteRecordsRequestTopicPartition()
		rt.Topic, rp.Partition, rp.Offset, req.TimeoutMillis = name, p, 1, 10_000
		rt.Partitions = append(rt.Partitions, rp)
		req.Topics = append(req.Topics, rt)
		got := ask[*kmsg.DeleteRecordsResponse](t, addr, 2, req).Topics[0].Partitions[0]
		return Code(got.ErrorCode), got.LowWatermark
	}
	code, low := cut(b.addrs[1], "orders", 1)
	require.Equal(t, NotLeaderOrFollower, code)
	require.EqualValues(t, -1, low)
	require.Zero(t, b.cluster.Status("orders", 1).LogStartOffset, "nothing was deleted")
	code, low = cut(b.addrs[2], "orders", 1)
	require.Zero(t, code)
	require.EqualValues(t, 1, low)
	_, err := b.cluster.OffsetsPartition(t.Context(), "g", true)
	require.NoError(t, err)
	code, _ = cut(b.addrs[1], "__consumer_offsets", 0)
	require.Equal(t, InvalidTopicException, code)
	code, _ = cut(b.addrs[1], "__consumer_offsets", 500)
	require.Equal(t, UnknownTopicOrPartition, code, "that there is no such partition comes first")
}

func listOne(t *testing.T, addr string, version int16, p, epoch int32, at int64) int16 {
	req, rt, rp := kmsg.NewPtrListOffsetsRequest(), kmsg.NewListOffsetsRequestTopic(), kmsg.NewListOffsetsRequestTopicPartition()
	rt.Topic, rp.Partition, rp.CurrentLeaderEpoch, rp.Timestamp = "orders", p, epoch, at
	rt.Partitions = append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	return ask[*kmsg.ListOffsetsResponse](t, addr, version, req).Topics[0].Partitions[0].ErrorCode
}
