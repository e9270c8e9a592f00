package kafka

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/topic"
	"github.com/stratalog/strata/vfs"
)

// appended is a produce request with a batch for each value, for one partition of a topic.
func appended(name string, p int32, values ...string) *kmsg.ProduceRequest {
	req := produceOne(9, name, nil)
	req.Topics[0].Partitions = nil
	for _, v := range values {
		part := kmsg.NewProduceRequestTopicPartition()
		part.Partition, part.Records = p, batch("k", v)
		req.Topics[0].Partitions = append(req.Topics[0].Partitions, part)
	}
	return req
}

// want is a fetch of partitions 0, 1, ... of a topic from the given offsets, without a session. It
// does not wait.
func want(version int16, name string, offsets ...int64) *kmsg.FetchRequest {
	req := kmsg.NewPtrFetchRequest()
	req.SetVersion(version)
	req.MaxBytes, req.SessionEpoch = 1<<20, -1
	t := kmsg.NewFetchRequestTopic()
	t.Topic = name
	for i, offset := range offsets {
		p := kmsg.NewFetchRequestTopicPartition()
		p.Partition, p.FetchOffset, p.PartitionMaxBytes = int32(i), offset, 1<<20
		t.Partitions = append(t.Partitions, p)
	}
	if len(offsets) > 0 {
		req.Topics = []kmsg.FetchRequestTopic{t}
	}
	return req
}

func (c *client) fetch(req *kmsg.FetchRequest) *kmsg.FetchResponse {
	c.t.Helper()
	return c.ask(req).(*kmsg.FetchResponse)
}

// told lists the partitions of an answer.
func told(resp *kmsg.FetchResponse) (partitions []int32) {
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			partitions = append(partitions, p.Partition)
		}
	}
	return partitions
}

func fetchServer(t *testing.T) (*Server, *client) {
	s, addr := serve(t, Config{NoAutoCreate: true})
	require.NoError(t, s.cluster.CreateTopic(t.Context(), "orders", topic.Config{Partitions: 3}))
	return s, dial(t, addr)
}

func TestFetchTellsPartitionsInTheOrderOfTheRequest(t *testing.T) {
	s, c := fetchServer(t)
	require.NoError(t, s.cluster.CreateTopic(t.Context(), "bills", topic.Config{Partitions: 3}))
	id := map[string][16]byte{}
	for _, name := range []string{"orders", "bills"} {
		known, ok := s.cluster.TopicID(name)
		require.True(t, ok)
		id[name] = known
	}
	asked := []string{"orders-2", "bills-0", "orders-0", "orders-1", "bills-2"}
	for _, session := range []int32{-1, 0} { // without a session, and with a new one
		for _, version := range []int16{12, 13} {
			req := want(version, "orders", 0, 0, 0)
			req.SessionEpoch = session
			parts := req.Topics[0].Partitions
			topics := func(name string, parts ...kmsg.FetchRequestTopicPartition) kmsg.FetchRequestTopic {
				rt := kmsg.NewFetchRequestTopic()
				if version >= 13 {
					rt.TopicID = id[name]
				} else {
					rt.Topic = name
				}
				rt.Partitions = parts
				return rt
			}
			req.Topics = []kmsg.FetchRequestTopic{
				topics("orders", parts[2]), topics("bills", parts[0]), topics("orders", parts[0], parts[1]), topics("bills", parts[2]),
			}
			resp := c.fetch(req)
			var got []string
			for _, rt := range resp.Topics {
				name := rt.Topic
				if version >= 13 {
					name, _ = s.cluster.TopicName(rt.TopicID)
				}
				for _, p := range rt.Partitions {
					require.Zero(t, p.ErrorCode)
					got = append(got, fmt.Sprintf("%s-%d", name, p.Partition))
				}
			}
			require.Equal(t, asked, got, "version %d, session %d", version, session)
			require.Len(t, resp.Topics, 4, "what follows each other is told together")
		}
	}
}

func TestFetchErrorsCarryNoOffsetsAndEmptyRecords(t *testing.T) {
	s, c := fetchServer(t)
	c.ask(appended("orders", 0, "one"))
	id, known := s.cluster.TopicID("orders")
	require.True(t, known)
	for _, tc := range []struct {
		name    string
		version int16
		edit    func(req *kmsg.FetchRequest, p *kmsg.FetchRequestTopicPartition)
		want    Code
	}{
		{"unknown topic", 12, func(req *kmsg.FetchRequest, _ *kmsg.FetchRequestTopicPartition) { req.Topics[0].Topic = "none" }, UnknownTopicOrPartition},
		{"unknown partition", 12, func(_ *kmsg.FetchRequest, p *kmsg.FetchRequestTopicPartition) { p.Partition = 9 }, UnknownTopicOrPartition},
		{"unknown id", 13, func(req *kmsg.FetchRequest, _ *kmsg.FetchRequestTopicPartition) {
			req.Topics[0].TopicID = [16]byte{1, 2}
		}, UnknownTopicID},
		{"zero id", 13, func(req *kmsg.FetchRequest, _ *kmsg.FetchRequestTopicPartition) { req.Topics[0].TopicID = [16]byte{} }, UnknownTopicID},
		{"beyond the end", 13, func(_ *kmsg.FetchRequest, p *kmsg.FetchRequestTopicPartition) { p.FetchOffset = 2 }, OffsetOutOfRange},
		{"before the start", 13, func(_ *kmsg.FetchRequest, p *kmsg.FetchRequestTopicPartition) { p.FetchOffset = -1 }, OffsetOutOfRange},
		{"leader epoch to come", 13, func(_ *kmsg.FetchRequest, p *kmsg.FetchRequestTopicPartition) { p.CurrentLeaderEpoch = 9 }, UnknownLeaderEpoch},
		{"epoch fetched to come", 13, func(_ *kmsg.FetchRequest, p *kmsg.FetchRequestTopicPartition) { p.LastFetchedEpoch = 9 }, OffsetOutOfRange},
	} {
		t.Run(tc.name, func(t *testing.T) {
			req := want(tc.version, "orders", 0)
			if tc.version >= 13 {
				req.Topics[0].TopicID = id
			}
			tc.edit(req, &req.Topics[0].Partitions[0])
			resp := c.fetch(req)
			require.Zero(t, resp.ErrorCode)
			p := resp.Topics[0].Partitions[0]
			require.Equal(t, tc.want, Code(p.ErrorCode))
			require.Equal(t, [3]int64{-1, -1, -1}, [3]int64{p.HighWatermark, p.LastStableOffset, p.LogStartOffset})
			require.NotNil(t, p.RecordBatches)
			require.Empty(t, p.RecordBatches)
		})
	}
}

func TestFetchOfAnUnknownIsolationLevelIsRefusedAsAWhole(t *testing.T) {
	_, c := fetchServer(t)
	for _, v := range []int16{4, 7, 12} {
		req := want(v, "orders", 0)
		req.IsolationLevel = 2
		resp := c.fetch(req)
		require.Equal(t, v >= 7, Code(resp.ErrorCode) == UnknownServerError)
		require.Equal(t, UnknownServerError, Code(resp.Topics[0].Partitions[0].ErrorCode), "before version 7 there is no other place for it")
	}
}

func TestFetchReturnsTheFirstBatchHoweverSmallItsLimits(t *testing.T) {
	_, c := fetchServer(t)
	c.ask(appended("orders", 0, "one"))
	c.ask(appended("orders", 0, "two"))
	for _, limit := range []int32{0, 1} {
		req := want(12, "orders", 0)
		req.MaxBytes, req.Topics[0].Partitions[0].PartitionMaxBytes = limit, limit
		require.Len(t, c.fetch(req).Topics[0].Partitions[0].RecordBatches, len(batch("k", "one")))
	}
}

// Kafka sends ranges of files: records end where the limit is, and clients drop an incomplete
// batch.
func TestFetchEndsWithinABatchIfItIsAskedTo(t *testing.T) {
	for _, partial := range []bool{false, true} {
		s, addr := serve(t, Config{PartialBatches: partial})
		require.NoError(t, s.cluster.CreateTopic(t.Context(), "orders", topic.Config{}))
		c := dial(t, addr)
		whole := []byte{}
		for range 3 {
			c.ask(appended("orders", 0, "value"))
		}
		one := len(batch("k", "value"))
		for limit := range int32(3*one + 2) {
			req := want(12, "orders", 0)
			req.Topics[0].Partitions[0].PartitionMaxBytes = limit
			got := c.fetch(req).Topics[0].Partitions[0].RecordBatches
			switch {
			case !partial:
				require.Len(t, got, min(max(int(limit)/one, 1), 3)*one, limit)
			case int(limit) >= one:
				require.Len(t, got, min(int(limit), 3*one), limit)
			default:
				require.Len(t, got, one, "the first batch is whole")
			}
			require.True(t, bytes.HasPrefix(got, whole), "what is longer goes on")
			whole = bytes.Clone(got)
		}
		for _, offset := range []int64{1, 2} { // the same bytes from the middle
			req := want(12, "orders", 0)
			req.Topics[0].Partitions[0].FetchOffset, req.Topics[0].Partitions[0].PartitionMaxBytes = offset, int32(one+one/2)
			got := c.fetch(req).Topics[0].Partitions[0].RecordBatches
			require.Equal(t, whole[int(offset)*one:][:len(got)], got)
		}
	}
}

// After a power cut the partition has a new leader epoch. A reader of the old epoch receives the
// current leader (KIP-951), and the end of the old epoch.
func TestFetchTellsOfNewLeadersAndDivergingEpochs(t *testing.T) {
	disk := vfs.Mem()
	open := func(disk vfs.FS) *strata.Cluster {
		c, err := strata.Open(strata.Config{Dir: "data", FS: disk})
		require.NoError(t, err)
		return c
	}
	produce := func(cluster *strata.Cluster, value string) {
		s, addr := serveCluster(t, cluster, Config{})
		dial(t, addr).ask(appended("orders", 0, value))
		require.NoError(t, s.Close())
	}
	before := open(disk)
	unsynced := map[string]string{"flush.messages": "9223372036854775807"}
	require.NoError(t, before.CreateTopic(t.Context(), "orders", topic.Config{Properties: unsynced}))
	produce(before, "one")
	require.NoError(t, before.Close())
	before = open(disk)
	produce(before, "lost")
	after := open(disk.CrashWith(vfs.CrashOptions{Data: vfs.CrashLost, Sizes: vfs.CrashLost, Entries: vfs.CrashLost}))
	t.Cleanup(func() { require.NoError(t, after.Close()) })
	require.NoError(t, before.Close())
	_, addr := serveCluster(t, after, Config{})
	c := dial(t, addr)
	c.ask(appended("orders", 0, "two"))
	id, known := after.Backend().TopicID("orders")
	require.True(t, known)

	req := want(16, "orders", 1)
	req.Topics[0].TopicID, req.Topics[0].Partitions[0].CurrentLeaderEpoch = id, 0
	resp := c.fetch(req)
	p := resp.Topics[0].Partitions[0]
	require.Equal(t, FencedLeaderEpoch, Code(p.ErrorCode))
	require.Equal(t, after.Controller(), p.CurrentLeader.LeaderID)
	require.EqualValues(t, 1, p.CurrentLeader.LeaderEpoch)
	require.Len(t, resp.Brokers, 1)
	require.NotZero(t, resp.Brokers[0].Port)

	req.SetVersion(15) // has no field for it
	resp = c.fetch(req)
	require.EqualValues(t, -1, resp.Topics[0].Partitions[0].CurrentLeader.LeaderID)
	require.Empty(t, resp.Brokers)

	req = want(16, "orders", 2) // as after a read of two records in epoch 0, which had only one
	req.Topics[0].TopicID, req.Topics[0].Partitions[0].LastFetchedEpoch = id, 0
	p = c.fetch(req).Topics[0].Partitions[0]
	require.Zero(t, p.ErrorCode)
	require.Equal(t, kmsg.FetchResponseTopicPartitionDivergingEpoch{Epoch: 0, EndOffset: 1}, p.DivergingEpoch)
	require.Empty(t, p.RecordBatches)
	req.Topics[0].Partitions[0].FetchOffset = 1
	p = c.fetch(req).Topics[0].Partitions[0]
	require.EqualValues(t, -1, p.DivergingEpoch.Epoch)
	require.NotEmpty(t, p.RecordBatches)
}
