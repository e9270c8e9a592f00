package replication

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/topic"
)

// slow is a rate at which the records of heavy take 20 s.
const slow = "50000"

// full opens four brokers with a megabyte in partition 0 of a topic, led by broker 1.
func full(t *testing.T, replicas ...int32) (*Cluster, disks) {
	t.Helper()
	c, ds := openMany(t, 4)
	heavy(t, c, "orders", replicas...)
	return c, ds
}

// heavy creates a topic with one partition, which has 100 batches of 10,000 bytes.
func heavy(t *testing.T, c *Cluster, name string, replicas ...int32) {
	t.Helper()
	require.NoError(t, c.CreateTopic(t.Context(), name, topic.Config{Assignment: [][]int32{replicas}, ReplicationFactor: len(replicas)}))
	value := strings.Repeat("v", 9_900)
	for range 100 {
		require.NoError(t, all(c, at(name, 0), value).Err)
	}
}

// throttle sets keys of brokers, as "1:leader.replication.throttled.rate=5", and keys of topic
// orders.
func throttle(t *testing.T, c *Cluster, settings ...string) {
	t.Helper()
	for _, s := range settings {
		what, value, _ := strings.Cut(s, "=")
		ch := ConfigChange{Key: what, Value: value}
		if value == "" {
			ch.Op = UnsetConfig
		}
		broker, key, ok := strings.Cut(what, ":")
		if !ok {
			require.NoError(t, c.AlterTopicConfig(t.Context(), "orders", ch))
			continue
		}
		var id int32
		_, err := fmt.Sscan(broker, &id)
		require.NoError(t, err)
		ch.Key = key
		require.NoError(t, c.AlterBrokerConfig(t.Context(), id, ch))
	}
}

const (
	leaderRate, followerRate         = "leader.replication.throttled.rate=", "follower.replication.throttled.rate="
	leaderReplicas, followerReplicas = "leader.replication.throttled.replicas=", "follower.replication.throttled.replicas="
)

func TestNewReplicasAreCopiedAtTheRateOfTheirThrottle(t *testing.T) {
	for name, tc := range map[string]struct {
		settings []string
		want     time.Duration
	}{
		"none":                               {nil, 0},
		"leader":                             {[]string{"1:" + leaderRate + slow, leaderReplicas + "0:1"}, 20 * time.Second},
		"follower":                           {[]string{"4:" + followerRate + slow, followerReplicas + "7:4,0:4"}, 20 * time.Second},
		"all replicas, all brokers":          {[]string{"-1:" + leaderRate + slow, leaderReplicas + "*"}, 20 * time.Second},
		"one broker's counts before all's":   {[]string{"-1:" + leaderRate + "1", "1:" + leaderRate + slow, leaderReplicas + "*"}, 20 * time.Second},
		"both, the leader is slower":         {[]string{"1:" + leaderRate + slow, "4:" + followerRate + "500000", leaderReplicas + "*", followerReplicas + "*"}, 20 * time.Second},
		"both, the follower is slower":       {[]string{"1:" + leaderRate + "500000", "4:" + followerRate + slow, leaderReplicas + "*", followerReplicas + "*"}, 20 * time.Second},
		"rates but no replicas":              {[]string{"-1:" + leaderRate + slow, "-1:" + followerRate + slow}, 0},
		"replicas but no rates":              {[]string{leaderReplicas + "*", followerReplicas + "*"}, 0},
		"replicas of other brokers":          {[]string{"-1:" + leaderRate + slow, "-1:" + followerRate + slow, leaderReplicas + "0:4", followerReplicas + "0:1"}, 0},
		"other partitions":                   {[]string{"-1:" + leaderRate + slow, "-1:" + followerRate + slow, leaderReplicas + "1:1", followerReplicas + "1:4"}, 0},
		"other brokers":                      {[]string{"4:" + leaderRate + slow, "1:" + followerRate + slow, leaderReplicas + "*", followerReplicas + "*"}, 0},
		"a rate that is no bound":            {[]string{"-1:" + leaderRate + "9223372036854775807", leaderReplicas + "*"}, 0},
		"a rate that is more than there is":  {[]string{"-1:" + leaderRate + "2000000", leaderReplicas + "*"}, 0},
		"the rate of one that copies others": {[]string{"3:" + followerRate + slow, followerReplicas + "*"}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, _ := full(t, 1)
				throttle(t, c, tc.settings...)
				begin := time.Now()
				require.NoError(t, reassign(c, at("orders", 0), 1, 4))
				took := time.Since(begin)
				require.GreaterOrEqual(t, took, tc.want-2*time.Second, "a second's worth goes at once")
				require.LessOrEqual(t, took, tc.want+time.Second/2)
				require.Len(t, values(t, c, at("orders", 0)), 100)
			})
		})
	}
}

// All copies of a broker share its rate.
func TestThrottledReplicasShareTheRateOfTheirBroker(t *testing.T) {
	for name, where := range map[string]struct {
		settings []string
		targets  [3]int32
		least    int64 // batches of each copy after half of the time
	}{
		"one leader":          {[]string{"1:" + leaderRate + "300000"}, [3]int32{2, 3, 4}, 5}, // by chance
		"one follower":        {[]string{"4:" + followerRate + "300000"}, [3]int32{4, 4, 4}, 30},
		"a rate for each one": {[]string{"-1:" + followerRate + "100000"}, [3]int32{2, 3, 4}, 45},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, _ := openMany(t, 4)
				var moves []Reassignment
				for i, name := range []string{"a", "b", "c"} {
					heavy(t, c, name, 1)
					require.NoError(t, c.AlterTopic(t.Context(), name, properties(throttledReplicas[leading], "*", throttledReplicas[following], "*")))
					moves = append(moves, Reassignment{Partition: at(name, 0), Replicas: []int32{1, where.targets[i]}})
				}
				throttle(t, c, where.settings...)
				begin := time.Now()
				for _, err := range c.AlterPartitionReassignments(t.Context(), moves...) {
					require.NoError(t, err)
				}
				time.Sleep(5 * time.Second)
				synctest.Wait()
				for i, m := range moves {
					end := c.Status(m.Partition.Topic, 0).Ends[where.targets[i]]
					require.Greater(t, end, where.least, "none is forgotten over the others: %v", m.Partition)
				}
				require.NoError(t, c.WaitReassigned(t.Context()))
				require.InDelta(t, 9.5, time.Since(begin).Seconds(), 0.8)
			})
		})
	}
}

// While another replica is copied slowly, acks=all takes no time.
func TestReplicasInSyncAreNotHeldBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := full(t, 1, 2, 3)
		tp := at("orders", 0)
		throttle(t, c, "-1:"+leaderRate+slow, "-1:"+followerRate+slow, leaderReplicas+"*", followerReplicas+"*")
		require.NoError(t, c.AlterPartitionReassignments(t.Context(), Reassignment{Partition: tp, Replicas: []int32{1, 2, 3, 4}})[0])
		written := 100
		for range 50 {
			time.Sleep(100 * time.Millisecond)
			begin := time.Now()
			require.NoError(t, all(c, tp, "more than a second's worth is not waited for").Err)
			written++
			require.Equal(t, begin, time.Now())
			require.Equal(t, []int32{1, 2, 3}, c.Status("orders", 0).ISR)
			require.EqualValues(t, written, c.Status("orders", 0).HighWatermark)
		}
		require.NoError(t, all(c, tp, strings.Repeat("v", 900_000)).Err, "18 times the rate")
		begin := time.Now()
		require.NoError(t, all(c, tp, "after that, too").Err)
		require.Equal(t, begin, time.Now())
		require.Len(t, c.Status("orders", 0).ISR, 3)
		require.NoError(t, c.WaitReassigned(t.Context(), tp))
		require.Len(t, c.Status("orders", 0).ISR, 4)
		require.Greater(t, time.Since(begin), 10*time.Second)
		require.NoError(t, all(c, tp, "four").Err)
		require.Equal(t, map[int32]int64{1: 153, 2: 153, 3: 153, 4: 153}, c.Status("orders", 0).Ends)
	})
}

// As in Kafka, a rate below the rate of appends starves the other replicas.
func TestWhatReplicasInSyncCopyCounts(t *testing.T) {
	for name, list := range map[string]string{"leader": leaderReplicas, "follower": followerReplicas} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, _ := full(t, 1, 4)
				heavy(t, c, "other", 1)
				require.NoError(t, c.AlterTopic(t.Context(), "other", properties(throttledReplicas[leading], "*", throttledReplicas[following], "*")))
				throttle(t, c, "1:"+leaderRate+slow, "4:"+followerRate+slow, list+"*")
				require.NoError(t, all(c, at("orders", 0), strings.Repeat("v", 450_000)).Err)
				require.NoError(t, c.AlterPartitionReassignments(t.Context(), Reassignment{Partition: at("other", 0), Replicas: []int32{1, 4}})[0])
				time.Sleep(8 * time.Second)
				require.Zero(t, c.Status("other", 0).Ends[4])
				time.Sleep(2 * time.Second)
				require.NotZero(t, c.Status("other", 0).Ends[4])
			})
		})
	}
}

// Topic defaults of the cluster's configuration apply to throttled replicas as well.
func TestThrottledReplicasHaveDefaults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := newDisks(4).config()
		cfg.Defaults.Properties = properties(throttledReplicas[leading], "*")
		c := openWith(t, cfg)
		heavy(t, c, "orders", 1)
		throttle(t, c, "1:"+leaderRate+slow)
		begin := time.Now()
		require.NoError(t, reassign(c, at("orders", 0), 1, 4))
		require.InDelta(t, 19, time.Since(begin).Seconds(), 1)
		throttle(t, c, leaderReplicas+"0:9")
		begin = time.Now()
		require.NoError(t, reassign(c, at("orders", 0), 1, 4, 2))
		require.Equal(t, begin, time.Now(), "the topic's own counts")
	})
}

func TestLiftedThrottleLetsGoAtOnce(t *testing.T) {
	limits := []string{"1:" + leaderRate + "1000", "4:" + followerRate + "1000", leaderReplicas + "*", followerReplicas + "*"}
	for name, lift := range map[string][]string{
		"no rates any more":    {"1:" + leaderRate, "4:" + followerRate},
		"no replicas any more": {leaderReplicas, followerReplicas},
		"of both one":          {"1:" + leaderRate, followerReplicas},
		"higher rates":         {"1:" + leaderRate + "100000000", "4:" + followerRate + "100000000"},
		"other replicas":       {leaderReplicas + "0:2", followerReplicas + "0:2"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, _ := full(t, 1)
				throttle(t, c, limits...)
				tp := at("orders", 0)
				require.NoError(t, c.AlterPartitionReassignments(t.Context(), Reassignment{Partition: tp, Replicas: []int32{4}})[0])
				time.Sleep(23 * time.Second)
				require.LessOrEqual(t, c.Status("orders", 0).Ends[4], int64(4), "a batch each eleven seconds: it is not divided")
				begin := time.Now()
				throttle(t, c, lift...)
				require.NoError(t, c.WaitReassigned(t.Context(), tp))
				require.Equal(t, begin, time.Now())
				require.EqualValues(t, 4, c.Status("orders", 0).Leader)
			})
		})
	}
}

// A copy that has begun without a throttle, or with a looser one, is slowed down.
func TestThrottleTightensWhileReplicasAreCopied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := full(t, 1)
		tp := at("orders", 0)
		throttle(t, c, "1:"+leaderRate+"100000", leaderReplicas+"*")
		begin := time.Now()
		require.NoError(t, c.AlterPartitionReassignments(t.Context(), Reassignment{Partition: tp, Replicas: []int32{4}})[0])
		time.Sleep(4 * time.Second) // 500 KB
		throttle(t, c, "1:"+leaderRate+"25000")
		require.NoError(t, c.WaitReassigned(t.Context(), tp))
		require.InDelta(t, 4+10+19, time.Since(begin).Seconds(), 1, "what went at the former rate counts until it is eleven seconds old")
	})
}

func TestThrottleOutlivesRestarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ds := newDisks(4)
		c, err := Open(ds.config())
		require.NoError(t, err)
		heavy(t, c, "orders", 1)
		throttle(t, c, "1:"+leaderRate+slow, "-1:"+followerRate+slow, leaderReplicas+"0:1", followerReplicas+"0:4")
		tp := at("orders", 0)
		require.NoError(t, c.AlterPartitionReassignments(t.Context(), Reassignment{Partition: tp, Replicas: []int32{1, 4}})[0])
		time.Sleep(5 * time.Second)
		require.NoError(t, c.Close())
		c = openWith(t, ds.config())
		require.Equal(t, map[string]string{"leader.replication.throttled.rate": slow}, c.BrokerConfig(1))
		require.Equal(t, map[string]string{"follower.replication.throttled.rate": slow}, c.BrokerConfig(AllBrokers))
		begin := time.Now()
		require.NoError(t, c.WaitReassigned(t.Context(), tp))
		require.InDelta(t, 14, time.Since(begin).Seconds(), 2)
		require.NoError(t, c.KillBroker(4))
		require.NoError(t, all(c, tp, strings.Repeat("v", 500_000)).Err)
		begin = time.Now()
		require.NoError(t, c.StartBroker(t.Context(), 4))
		require.NoError(t, c.WaitISR(t.Context(), tp))
		require.Less(t, time.Since(begin), time.Second, "a batch is not divided")
		require.NoError(t, c.KillBroker(4))
		time.Sleep(time.Minute) // the high watermark does not wait for broker 4 when it returns
		for range 50 {
			require.NoError(t, all(c, tp, strings.Repeat("v", 9_900)).Err)
		}
		begin = time.Now()
		require.NoError(t, c.StartBroker(t.Context(), 4))
		require.NoError(t, c.WaitISR(t.Context(), tp))
		require.Greater(t, time.Since(begin), 8*time.Second, "a broker that comes back is held back like a new one")
	})
}

// The next leader has its own quota, and the copy continues where it was.
func TestThrottledCopyGoesOnFromTheNextLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := full(t, 1, 2)
		tp := at("orders", 0)
		throttle(t, c, "-1:"+leaderRate+slow, leaderReplicas+"0:1,0:2")
		require.NoError(t, c.AlterPartitionReassignments(t.Context(), Reassignment{Partition: tp, Replicas: []int32{1, 2, 4}})[0])
		time.Sleep(8 * time.Second)
		had := c.Status("orders", 0).Ends[4]
		require.Greater(t, had, int64(30))
		begin := time.Now()
		require.NoError(t, c.KillBroker(1))
		require.NoError(t, c.WaitReassigned(t.Context(), tp))
		require.InDelta(t, float64(100-had)/5-1, time.Since(begin).Seconds(), 1.5)
	})
}

// A throttled replica moves its log start all the same, so that DeleteRecords ends.
func TestRecordsAreDeletedWhileAReplicaIsHeldBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := full(t, 1, 2)
		tp := at("orders", 0)
		throttle(t, c, "-1:"+leaderRate+slow, leaderReplicas+"*")
		require.NoError(t, c.AlterPartitionReassignments(t.Context(), Reassignment{Partition: tp, Replicas: []int32{1, 2, 4}})[0])
		time.Sleep(2 * time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), 12*time.Second)
		defer cancel()
		_, err := c.DeleteRecords(ctx, map[record.TopicPartition]int64{tp: 5})
		require.NoError(t, err)
	})
}

func TestRatesThatAreNoneAreRefused(t *testing.T) {
	c, _ := openMany(t, 2)
	for _, key := range throttledRate {
		for _, ch := range []ConfigChange{
			{Key: key, Value: "-1"}, {Key: key, Value: ""}, {Key: key, Value: "1.5"}, {Key: key, Value: "9223372036854775808"},
			{Key: key, Op: AppendConfig, Value: "1"}, {Key: key, Op: SubtractConfig, Value: "1"},
		} {
			var bad *topic.ConfigError
			require.ErrorAs(t, c.AlterBrokerConfig(t.Context(), 1, ConfigChange{Key: "log.retention.ms", Value: "7"}, ch), &bad)
			require.Equal(t, key, bad.Key)
			require.ErrorAs(t, c.DryRun().AlterBrokerConfig(t.Context(), AllBrokers, ch), &bad)
			require.Empty(t, c.BrokerConfig(1), "all or nothing")
		}
		require.NoError(t, c.AlterBrokerConfig(t.Context(), 1, ConfigChange{Key: key, Op: UnsetConfig}))
		require.NoError(t, c.AlterBrokerConfig(t.Context(), 1, ConfigChange{Key: key, Value: " 0 "}))
		require.NoError(t, c.AlterBrokerConfig(t.Context(), 1, ConfigChange{Key: "log.retention.ms", Value: "7"}))
		require.Equal(t, map[string]string{key: " 0 ", "log.retention.ms": "7"}, c.BrokerConfig(1), "others stay")
		require.NoError(t, c.AlterBrokerConfig(t.Context(), 1, ConfigChange{Key: key, Op: UnsetConfig}, ConfigChange{Key: "log.retention.ms", Op: UnsetConfig}))
		k, ok := LookupBrokerKey(key)
		require.True(t, ok)
		require.Equal(t, topic.TypeLong, k.Type)
		require.NotEmpty(t, k.Doc)
	}
	require.ErrorIs(t, c.AlterBrokerConfig(t.Context(), 9, ConfigChange{Key: throttledRate[leading], Value: "1"}), ErrUnknownBroker)
	_, ok := LookupBrokerKey("node.id")
	require.False(t, ok)
}
