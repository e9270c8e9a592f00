package kfake

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/stratalog/strata/internal/synctest"
)

// produce writes records to partition 0 of a topic.
func produce(t *testing.T, cl *kgo.Client, topic string, values ...string) {
	t.Helper()
	for _, v := range values {
		require.NoError(t, cl.ProduceSync(t.Context(), &kgo.Record{Topic: topic, Key: []byte("k"), Value: []byte(v)}).FirstErr())
	}
}

// Leaders move to any node, even without a replica there. Nodes are added and removed, and no
// record is lost.
func TestLeadersMoveToAnyNode(t *testing.T) {
	inBubble(t, func(t *testing.T, c *Cluster, network *VirtualNetwork) {
		cl := client(t, c, network, kgo.RecordPartitioner(kgo.ManualPartitioner()))
		require.NoError(t, c.CreateTopic("a", 1, nil))
		produce(t, cl, "a", "1")
		for node := range int32(4) {
			require.NoError(t, c.MoveTopicPartition("a", 0, node))
			require.Equal(t, node, c.LeaderFor("a", 0))
			require.Equal(t, 3, c.TopicInfo("a").NumReplicas)
			produce(t, cl, "a", "2")
		}
		require.Error(t, c.MoveTopicPartition("a", 0, 4))
		require.Error(t, c.MoveTopicPartition("a", 1, 0))
		require.Error(t, c.MoveTopicPartition("b", 0, 0))

		before := c.LeaderFor("a", 0)
		c.ShufflePartitionLeaders()
		require.NotEqual(t, before, c.LeaderFor("a", 0))
		id, port, err := c.AddNode(-1, 0)
		require.NoError(t, err)
		require.Equal(t, int32(4), id)
		require.Positive(t, port)
		_, _, err = c.AddNode(4, 0)
		require.Error(t, err)
		id, port, err = c.AddNode(9, 9999)
		require.NoError(t, err)
		require.Equal(t, []int{9, 9999}, []int{int(id), port})
		require.Len(t, c.ListenAddrs(), 6)
		require.NoError(t, c.MoveTopicPartition("a", 0, 9))
		produce(t, cl, "a", "3")
		require.NoError(t, c.RemoveNode(9))
		require.Error(t, c.RemoveNode(9))
		require.NotEqual(t, int32(9), c.LeaderFor("a", 0))
		produce(t, cl, "a", "4")
		require.Equal(t, int64(7), c.PartitionInfo("a", 0).HighWatermark)
		require.Len(t, c.ListenAddrs(), 5)
	}, NumBrokers(4))
}

func TestTheLastNodeStays(t *testing.T) {
	c := MustCluster(NumBrokers(1))
	defer c.Close()
	require.ErrorContains(t, c.RemoveNode(0), "last node")
}

func TestCoordinatorsMoveAndKeepWhatTheyKnow(t *testing.T) {
	inBubble(t, func(t *testing.T, c *Cluster, network *VirtualNetwork) {
		cl := client(t, c, network, kgo.ConsumeTopics("a"), kgo.ConsumerGroup("g"), kgo.DisableAutoCommit())
		produce(t, cl, "a", "1", "2")
		require.Positive(t, cl.PollFetches(t.Context()).NumRecords())
		require.NoError(t, cl.CommitUncommittedOffsets(t.Context()))
		committed := c.GroupInfo("g").Commits
		before := c.CoordinatorFor("g")
		c.RehashCoordinators()
		require.NotEqual(t, before, c.CoordinatorFor("g"))
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		g, err := c.WaitGroupStable(ctx, "g", 1)
		require.NoError(t, err)
		require.Equal(t, committed, g.Commits)
	}, SeedTopics(1, "a"))
}

func TestGroupsAreDescribed(t *testing.T) {
	for name, opts := range map[string][]kgo.Opt{"classic": nil, "consumer": {kgo.ServerSideBalancer()}} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, c *Cluster, network *VirtualNetwork) {
				require.Nil(t, c.GroupInfo("g"))
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				cl := client(t, c, network, append(opts, kgo.ConsumeTopics("a"), kgo.ConsumerGroup("g"), kgo.ClientID("me"), kgo.DisableAutoCommit())...)
				produce(t, cl, "a", "1")
				require.Equal(t, 1, cl.PollFetches(ctx).NumRecords())
				require.NoError(t, cl.CommitUncommittedOffsets(ctx))
				g, err := c.WaitGroupStable(ctx, "g", 1)
				require.NoError(t, err)
				require.Equal(t, []any{"g", "Stable", 2}, []any{g.Group, g.State, g.NumAssigned()})
				m := g.Members[0]
				require.Equal(t, []any{"me", []string{"a"}, map[string][]int32{"a": {0, 1}}, 2}, []any{m.ClientID, m.SubscribedTopics, m.Assignment, m.NumAssigned()})
				require.Nil(t, m.InstanceID)
				require.Len(t, g.Commits["a"], 1)
				for _, commit := range g.Commits["a"] {
					require.Equal(t, int64(1), commit.Offset)
					require.Equal(t, time.Now().UnixMilli(), commit.At.UnixMilli())
				}
				cl.Close()
				g, err = c.WaitGroupInfo(ctx, "g", func(g *GroupInfo) bool { return g != nil && g.State == "Empty" })
				require.NoError(t, err)
				require.Empty(t, g.Members)
				short, end := context.WithTimeout(ctx, time.Second)
				defer end()
				_, err = c.WaitGroupInfo(short, "g", func(g *GroupInfo) bool { return g == nil })
				require.ErrorIs(t, err, context.DeadlineExceeded)
			}, SeedTopics(2, "a"))
		})
	}
}

func TestTopicsAreDescribedAndChanged(t *testing.T) {
	inBubble(t, func(t *testing.T, c *Cluster, network *VirtualNetwork) {
		cl := client(t, c, network)
		require.Len(t, c.PartitionInfos("seeded"), 2, "the last SeedTopics counts")
		require.Len(t, c.PartitionInfos("default"), 4)
		require.Nil(t, c.TopicInfo("a"))
		require.Nil(t, c.PartitionInfo("a", 0))
		require.NoError(t, c.CreateTopic("a", 0, map[string]string{"retention.ms": "60000"}))
		require.Equal(t, kerr.TopicAlreadyExists, c.CreateTopic("a", 1, nil))
		require.Equal(t, kerr.InvalidConfig, c.CreateTopic("b", 1, map[string]string{"no.such.key": "1"}))
		require.Equal(t, kerr.InvalidTopicException, c.CreateTopic("b/c", 1, nil))
		info := c.TopicInfo("a")
		require.Equal(t, "60000", *info.Configs["retention.ms"])
		require.Equal(t, info, c.TopicIDInfo(info.TopicID))
		require.Nil(t, c.TopicIDInfo([16]byte{1}))
		require.Len(t, c.PartitionInfos("a"), 4)
		require.Nil(t, c.PartitionInfo("a", 4))

		produce(t, cl, "seeded", "1", "2")
		p := c.PartitionInfo("seeded", 0)
		if p.HighWatermark == 0 {
			p = c.PartitionInfo("seeded", 1)
		}
		require.Equal(t, []int64{2, 2, 0, time.Now().UnixMilli()}, []int64{p.HighWatermark, p.LastStableOffset, p.LogStartOffset, p.MaxTimestamp})
		require.Positive(t, p.NumBytes)
		require.Equal(t, kerr.OffsetOutOfRange, c.DeleteRecords("seeded", p.Partition, 3))
		require.NoError(t, c.DeleteRecords("seeded", p.Partition, 1))
		require.Equal(t, int64(1), c.PartitionInfo("seeded", p.Partition).LogStartOffset)
		require.NoError(t, c.DeleteRecords("seeded", p.Partition, -1))
		require.Equal(t, int64(2), c.PartitionInfo("seeded", p.Partition).LogStartOffset)
		require.Equal(t, kerr.UnknownTopicOrPartition, c.DeleteRecords("seeded", 9, -1))

		require.NoError(t, c.DeleteTopic("a"))
		require.Nil(t, c.TopicInfo("a"))
		require.Equal(t, kerr.UnknownTopicOrPartition, c.DeleteTopic("a"))
	}, NumBrokers(1), SeedTopics(5, "seeded"), SeedTopics(2, "seeded"), SeedTopics(-1, "default"), DefaultNumPartitions(4))
}

func TestCompactionAndRetentionHappenWhenAsked(t *testing.T) {
	inBubble(t, func(t *testing.T, c *Cluster, network *VirtualNetwork) {
		cl := client(t, c, network)
		require.NoError(t, c.CreateTopic("compacted", 1, map[string]string{"cleanup.policy": "compact"}))
		require.NoError(t, c.CreateTopic("short", 1, map[string]string{"retention.ms": "60000"}))
		produce(t, cl, "compacted", "1", "2", "3")
		produce(t, cl, "short", "1", "2")
		c.ApplyRetention()
		require.Zero(t, c.PartitionInfo("short", 0).LogStartOffset)
		time.Sleep(2 * time.Minute)
		c.ApplyRetention()
		require.Equal(t, int64(2), c.PartitionInfo("short", 0).LogStartOffset)
		c.Compact()
		reader := client(t, c, network, kgo.ConsumeTopics("compacted"))
		var values []string
		reader.PollFetches(t.Context()).EachRecord(func(r *kgo.Record) { values = append(values, string(r.Value)) })
		require.Equal(t, []string{"3"}, values)
	}, NumBrokers(1))
}

func TestUsersMayDoWhatTheirACLsSay(t *testing.T) {
	inBubble(t, func(t *testing.T, c *Cluster, network *VirtualNetwork) {
		admin := client(t, c, network, kgo.SASL(plain.Auth{User: "root", Pass: "r"}.AsMechanism()))
		produce(t, admin, "a", "1")
		writer := client(t, c, network, kgo.SASL(scram.Auth{User: "writer", Pass: "w"}.AsSha256Mechanism()))
		produce(t, writer, "a", "2")
		require.ErrorIs(t, writer.ProduceSync(t.Context(), &kgo.Record{Topic: "b", Value: []byte("3")}).FirstErr(), kerr.TopicAuthorizationFailed)
		stranger := client(t, c, network, kgo.SASL(plain.Auth{User: "writer", Pass: "wrong"}.AsMechanism()))
		require.Error(t, stranger.Ping(t.Context()))
	}, NumBrokers(1), SeedTopics(1, "a", "b"), EnableSASL(), EnableACLs(), Superuser("PLAIN", "root", "r"), User("SCRAM-SHA-256", "writer", "w",
		ACL{Resource: kmsg.ACLResourceTypeTopic, Name: "a", Pattern: kmsg.ACLResourcePatternTypeLiteral, Operation: kmsg.ACLOperationWrite, Allow: true},
		ACL{Resource: kmsg.ACLResourceTypeCluster, Name: "kafka-cluster", Pattern: kmsg.ACLResourcePatternTypeLiteral, Operation: kmsg.ACLOperationIdempotentWrite, Allow: true}))
}

func TestWithoutUsersThereIsAnAdmin(t *testing.T) {
	inBubble(t, func(t *testing.T, c *Cluster, network *VirtualNetwork) {
		require.NoError(t, client(t, c, network, kgo.SASL(scram.Auth{User: "admin", Pass: "admin"}.AsSha256Mechanism())).Ping(t.Context()))
	}, NumBrokers(1), EnableSASL())
}

func TestDirectoryIsOpenedAgain(t *testing.T) {
	dir := t.TempDir()
	for round := range 2 {
		c := MustCluster(NumBrokers(1), DataDir(dir), SyncWrites(), SeedTopics(1, "a"))
		cl, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...))
		require.NoError(t, err)
		require.Equal(t, int64(round), c.PartitionInfo("a", 0).HighWatermark)
		produce(t, cl, "a", "1")
		if round == 0 {
			require.NoError(t, c.CreateTopic("b", 1, nil))
		} else {
			require.NotNil(t, c.TopicInfo("b"))
		}
		cl.Close()
		c.Close()
	}
}

func TestFetchesAreAnsweredFromOneBatch(t *testing.T) {
	inBubble(t, func(t *testing.T, c *Cluster, network *VirtualNetwork) {
		cl := client(t, c, network, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{"a": {0: kgo.NewOffset().At(1 << 40)}}))
		records := cl.PollFetches(t.Context()).Records()
		require.NotEmpty(t, records)
		for i, r := range records {
			require.Equal(t, int64(1<<40+i), r.Offset)
			require.Len(t, r.Value, 8)
		}
		require.Equal(t, "0 0 0 0 ", string(records[0].Value))
	}, NumBrokers(1), SeedTopics(1, "a"), SyntheticFetch(SyntheticBatch{Records: 10, RecordBytes: 8, Compression: kgo.SnappyCompression()}))
}

func TestRecordsOfABatchAreRead(t *testing.T) {
	inBubble(t, func(t *testing.T, c *Cluster, network *VirtualNetwork) {
		var values []string
		c.ControlKey(int16(kmsg.Produce), func(req kmsg.Request) (kmsg.Response, error, bool) {
			var batch kmsg.RecordBatch
			require.NoError(t, batch.ReadFrom(req.(*kmsg.ProduceRequest).Topics[0].Partitions[0].Records))
			records, err := BatchRecords(batch)
			require.NoError(t, err)
			for _, r := range records {
				values = append(values, string(r.Value))
			}
			batch.Records = batch.Records[:len(batch.Records)/2]
			_, err = BatchRecords(batch)
			require.Error(t, err)
			batch.Magic = 1
			_, err = BatchRecords(batch)
			require.ErrorContains(t, err, "format 1")
			return nil, nil, false
		})
		cl := client(t, c, network, kgo.ProducerBatchCompression(kgo.ZstdCompression()), kgo.ManualFlushing())
		for _, v := range []string{"one", "two", strings.Repeat("three", 100)} {
			cl.Produce(t.Context(), &kgo.Record{Topic: "a", Value: []byte(v)}, nil)
		}
		require.NoError(t, cl.Flush(t.Context()))
		require.Equal(t, []string{"one", "two", strings.Repeat("three", 100)}, values)
	}, NumBrokers(1), SeedTopics(1, "a"))
}

func TestLoggerGetsWhatTheBrokerLogs(t *testing.T) {
	var out bytes.Buffer
	l := BasicLogger(&out, LogLevelWarn)
	l.Logf(LogLevelInfo, "not %d", 1)
	l.Logf(LogLevelError, "but %d", 2)
	require.Contains(t, out.String(), "[ERR] but 2\n")
	require.NotContains(t, out.String(), "not")
	require.Equal(t, []string{"NON", "WRN", "INF", "DBG"}, []string{LogLevelNone.String(), LogLevelWarn.String(), LogLevelInfo.String(), LogLevelDebug.String()})
	out.Reset()
	broker := newLogger(BasicLogger(&out, LogLevelInfo)).With("broker", 1).WithGroup("at")
	broker.Debug("a step")
	broker.Info("leader moved", "partition", 2)
	require.Contains(t, out.String(), "[INF] leader moved broker=1 at.partition=2\n")
	require.NotContains(t, out.String(), "a step")
	require.Nil(t, newLogger(nil))
}

func TestFollowersServeFetches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var network VirtualNetwork
		c := MustCluster(NumBrokers(3), ListenFn(network.Listen), SeedTopics(1, "a"))
		defer c.Close()
		follower := (c.LeaderFor("a", 0) + 1) % 3
		c.SetFollowers("a", 0, []int32{follower})
		require.Equal(t, 2, c.TopicInfo("a").NumReplicas)
		c.ControlKey(int16(kmsg.Fetch), func(req kmsg.Request) (kmsg.Response, error, bool) {
			c.KeepControl()
			if c.CurrentNode() == follower {
				return nil, nil, false
			}
			fetch := req.(*kmsg.FetchRequest)
			resp := fetch.ResponseKind().(*kmsg.FetchResponse)
			for _, t := range fetch.Topics {
				p := kmsg.NewFetchResponseTopicPartition()
				p.PreferredReadReplica = follower
				resp.Topics = append(resp.Topics, kmsg.FetchResponseTopic{Topic: t.Topic, TopicID: t.TopicID, Partitions: []kmsg.FetchResponseTopicPartition{p}})
			}
			return resp, nil, true
		})
		cl := client(t, c, &network, kgo.ConsumeTopics("a"), kgo.Rack("r"))
		produce(t, cl, "a", "1")
		require.Equal(t, 1, cl.PollFetches(t.Context()).NumRecords())
	})
}

func TestWhatGoesIntoABlackHoleIsGone(t *testing.T) {
	inBubble(t, func(t *testing.T, c *Cluster, network *VirtualNetwork) {
		cl := client(t, c, network, kgo.ConsumeTopics("a"))
		produce(t, cl, "a", "1", strings.Repeat("2", 1<<10), "3")
		p := c.PartitionInfo("a", 0)
		require.Equal(t, []int64{3, 3, 0}, []int64{p.HighWatermark, p.LastStableOffset, p.LogStartOffset})
		require.Less(t, p.NumBytes, int64(1<<10))
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute+time.Second)
		defer cancel()
		require.Empty(t, cl.PollFetches(ctx).Records())
	}, NumBrokers(1), SeedTopics(1, "a"), BlackholeProduce())
}
