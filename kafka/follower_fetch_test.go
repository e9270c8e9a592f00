package kafka

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/replication"
	"github.com/stratalog/strata/topic"
)

// serveRacks serves three brokers in the racks r1 to r3. Partition orders-0 has replicas on all of
// them, leader 1 and two records.
func serveRacks(t *testing.T, selector replication.ReplicaSelector) *brokers {
	t.Helper()
	specs := map[int32]replication.BrokerSpec{1: {Rack: "r1"}, 2: {Rack: "r2"}, 3: {Rack: "r3"}}
	cluster, err := strata.Open(strata.Config{Brokers: 3, BrokerSpecs: specs, ReplicaSelector: selector})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, cluster.Close()) })
	require.NoError(t, cluster.Backend().CreateTopic(t.Context(), "orders", topic.Config{Assignment: [][]int32{{1, 2, 3}}}))
	b := serveAll(t, cluster, Config{})
	for range 2 {
		got := ask[*kmsg.ProduceResponse](t, b.addrs[1], 13, b.produceTo(13, 0))
		require.Zero(t, got.Topics[0].Partitions[0].ErrorCode)
	}
	for _, broker := range []int32{2, 3} {
		p, err := cluster.Backend().View(broker).Replica(record.TopicPartition{Topic: "orders"})
		require.NoError(t, err)
		require.Eventually(t, func() bool { return p.HighWatermark() == 2 }, 10*time.Second, time.Millisecond)
	}
	return b
}

// fetchIn fetches orders-0 from a broker for a client in a rack, from offset 0 unless alter
// changes it. The fetch may wait for a minute.
func (b *brokers) fetchIn(broker int32, version int16, rack string, alter ...func(*kmsg.FetchRequest)) kmsg.FetchResponseTopicPartition {
	b.t.Helper()
	req := want(version, "orders", 0)
	req.Topics[0].TopicID = b.id()
	req.Rack, req.MinBytes, req.MaxWaitMillis = rack, 1, 60_000
	for _, a := range alter {
		a(req)
	}
	got := ask[*kmsg.FetchResponse](b.t, b.addrs[broker], version, req)
	require.Zero(b.t, got.ErrorCode)
	return got.Topics[0].Partitions[0]
}

func part(alter func(p *kmsg.FetchRequestTopicPartition)) func(*kmsg.FetchRequest) {
	return func(r *kmsg.FetchRequest) { alter(&r.Topics[0].Partitions[0]) }
}

func fromOffset(offset int64) func(*kmsg.FetchRequest) {
	return part(func(p *kmsg.FetchRequestTopicPartition) { p.FetchOffset = offset })
}

func noWait(r *kmsg.FetchRequest) { r.MaxWaitMillis = 0 }

func TestLeaderSendsClientsToTheFollowerInTheirRack(t *testing.T) {
	b := serveRacks(t, replication.RackAwareSelector)
	for version := int16(4); version <= 18; version++ {
		for rack, to := range map[string]int32{"r1": -1, "r2": 2, "r3": 3, "r4": -1, "": -1} {
			if version < 11 {
				to = -1
			}
			got := b.fetchIn(1, version, rack)
			require.Equal(t, to, got.PreferredReadReplica, "version %d, rack %q", version, rack)
			require.Equal(t, to < 0, len(got.RecordBatches) > 0)
			require.Zero(t, got.ErrorCode)
			require.EqualValues(t, 2, got.HighWatermark)
		}
	}
	require.EqualValues(t, 2, b.fetchIn(1, 17, "r2", fromOffset(2)).PreferredReadReplica, "also at the end, and at once")
	beyond := b.fetchIn(1, 17, "r2", fromOffset(3))
	require.Equal(t, OffsetOutOfRange, Code(beyond.ErrorCode))
	require.EqualValues(t, -1, beyond.PreferredReadReplica)
	fenced := b.fetchIn(1, 17, "r2", part(func(p *kmsg.FetchRequestTopicPartition) { p.CurrentLeaderEpoch = 9 }))
	require.Equal(t, UnknownLeaderEpoch, Code(fenced.ErrorCode))
}

func TestLeaderServesEverybodyUnlessReplicasAreSelected(t *testing.T) {
	b := serveRacks(t, replication.LeaderSelector)
	got := b.fetchIn(1, 17, "r2")
	require.EqualValues(t, -1, got.PreferredReadReplica)
	require.NotEmpty(t, got.RecordBatches)
}

// A follower serves clients with every replica selector and from every rack. Clients before
// version 11 get NOT_LEADER_OR_FOLLOWER: they would take a follower's errors for the leader's.
func TestFollowerServesClients(t *testing.T) {
	for _, selector := range []replication.ReplicaSelector{replication.LeaderSelector, replication.RackAwareSelector} {
		b := serveRacks(t, selector)
		for version := int16(4); version <= 18; version++ {
			got := b.fetchIn(2, version, "r3")
			require.EqualValues(t, -1, got.PreferredReadReplica)
			if version < 11 {
				require.Equal(t, NotLeaderOrFollower, Code(got.ErrorCode))
				continue
			}
			require.Zero(t, got.ErrorCode)
			require.NotEmpty(t, got.RecordBatches)
			require.EqualValues(t, 2, got.HighWatermark)
		}
		require.Zero(t, b.fetchIn(2, 17, "", fromOffset(2), noWait).ErrorCode, "the end")
		require.Equal(t, OffsetOutOfRange, Code(b.fetchIn(2, 17, "", fromOffset(3)).ErrorCode))
		epoch := part(func(p *kmsg.FetchRequestTopicPartition) { p.CurrentLeaderEpoch = 9 })
		require.Equal(t, UnknownLeaderEpoch, Code(b.fetchIn(2, 17, "", epoch).ErrorCode))
		// The follower compares LastFetchedEpoch with its log as the leader does. An offset beyond
		// its own end is no divergence.
		last := func(epoch int32, offset int64) func(*kmsg.FetchRequest) {
			return part(func(p *kmsg.FetchRequestTopicPartition) { p.LastFetchedEpoch, p.FetchOffset = epoch, offset })
		}
		require.NotEmpty(t, b.fetchIn(2, 17, "", last(0, 1)).RecordBatches)
		for _, beyond := range []kmsg.FetchResponseTopicPartition{b.fetchIn(2, 17, "", last(0, 3)), b.fetchIn(2, 17, "", last(5, 1))} {
			require.Equal(t, OffsetOutOfRange, Code(beyond.ErrorCode))
			require.EqualValues(t, -1, beyond.DivergingEpoch.Epoch)
		}
		ends := kmsg.NewPtrListOffsetsRequest()
		rt, rp := kmsg.NewListOffsetsRequestTopic(), kmsg.NewListOffsetsRequestTopicPartition()
		rt.Topic, rp.Timestamp, rp.CurrentLeaderEpoch = "orders", -1, -1
		rt.Partitions, ends.ReplicaID = append(rt.Partitions, rp), -1
		ends.Topics = append(ends.Topics, rt)
		is := ask[*kmsg.ListOffsetsResponse](t, b.addrs[2], 7, ends)
		require.Equal(t, NotLeaderOrFollower, Code(is.Topics[0].Partitions[0].ErrorCode), "only the leader knows the end")
	}
}

// Each answer of a session has the preferred replica, even if nothing else in it is new.
func TestFetchSessionsAreToldWhomToAsk(t *testing.T) {
	b := serveRacks(t, replication.RackAwareSelector)
	c := dial(t, b.addrs[1])
	req := want(17, "orders", 0)
	req.Topics[0].TopicID, req.Rack, req.MaxWaitMillis, req.MinBytes = b.id(), "r2", 60_000, 1
	req.SessionEpoch = 0
	first := c.fetch(req)
	require.NotZero(t, first.SessionID)
	require.EqualValues(t, 2, first.Topics[0].Partitions[0].PreferredReadReplica)
	next := kmsg.NewPtrFetchRequest()
	next.Version, next.SessionID, next.SessionEpoch, next.Rack, next.MaxWaitMillis, next.MinBytes, next.MaxBytes = 17, first.SessionID, 1, "r2", 60_000, 1, 1<<20
	again := c.fetch(next)
	require.Len(t, again.Topics, 1)
	require.EqualValues(t, 2, again.Topics[0].Partitions[0].PreferredReadReplica)
}

func TestSelectorOfReplicasIsDescribed(t *testing.T) {
	for selector, want := range map[replication.ReplicaSelector]string{
		replication.LeaderSelector: "", replication.RackAwareSelector: "org.apache.kafka.common.replica.RackAwareReplicaSelector",
	} {
		b := serveRacks(t, selector)
		req, res := kmsg.NewPtrDescribeConfigsRequest(), kmsg.NewDescribeConfigsRequestResource()
		res.ResourceType, res.ResourceName = kmsg.ConfigResourceTypeBroker, "2"
		req.Resources = append(req.Resources, res)
		is := ""
		for _, e := range ask[*kmsg.DescribeConfigsResponse](t, b.addrs[2], 4, req).Resources[0].Configs {
			if e.Name == "replica.selector.class" {
				is = *e.Value
			}
		}
		require.Equal(t, want, is)
	}
}
