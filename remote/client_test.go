package remote_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/consumer"
	"github.com/stratalog/strata/group"
	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/kafka"
	"github.com/stratalog/strata/kafkatest"
	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/producer"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/remote"
	"github.com/stratalog/strata/replication"
	"github.com/stratalog/strata/topic"
)

var (
	_ strata.Client   = (*remote.Cluster)(nil)
	_ consumer.Opener = (*remote.Cluster)(nil)
	_ producer.Opener = (*remote.Cluster)(nil)
)

// both runs fn with a cluster in this process, and with the same cluster over the network.
func both(t *testing.T, fn func(t *testing.T, c strata.Client)) {
	t.Run("in process", func(t *testing.T) { bubble(t, 1, 2, func(t *testing.T, w *world) { fn(t, w.local) }) })
	t.Run("over the network", func(t *testing.T) { bubble(t, 1, 2, func(t *testing.T, w *world) { fn(t, w.client) }) })
}

func TestErrorsAreThoseOfAClusterInTheProcess(t *testing.T) {
	unknown := record.TopicPartition{Topic: "unknown"}
	both(t, func(t *testing.T, c strata.Client) {
		ctx := t.Context()
		// Kafka accepts any heartbeat while the coordinator loads its groups.
		require.NoError(t, c.ResetOffsets(ctx, "g", record.Offsets{tp(0): 0}))
		for name, call := range map[string]struct {
			do   func() error
			want error
		}{
			"create a topic that exists":          {func() error { return c.CreateTopic(ctx, "t", topic.Config{}) }, replication.ErrTopicExists},
			"create a topic with an invalid name": {func() error { return c.CreateTopic(ctx, "a b", topic.Config{}) }, topic.ErrInvalidName},
			"create more replicas than brokers":   {func() error { return c.CreateTopic(ctx, "r", topic.Config{ReplicationFactor: 5}) }, replication.ErrInvalidReplicationFactor},
			"shrink a topic":                      {func() error { return c.AddPartitions(ctx, "t", 1) }, replication.ErrInvalidPartitions},
			"add partitions to an unknown topic":  {func() error { return c.AddPartitions(ctx, "unknown", 4) }, replication.ErrUnknownTopic},
			"alter an unknown topic":              {func() error { return c.AlterTopic(ctx, "unknown", map[string]string{"retention.ms": "1"}) }, replication.ErrUnknownTopic},
			"delete an unknown topic":             {func() error { return c.DeleteTopic(ctx, "unknown") }, replication.ErrUnknownTopic},
			"describe an unknown topic":           {func() error { _, err := c.Topic(ctx, "unknown"); return err }, replication.ErrUnknownTopic},
			"offsets of an unknown topic":         {func() error { _, err := c.Offsets(ctx, "unknown", partition.Latest); return err }, replication.ErrUnknownTopic},
			"a topic that differs":                {func() error { return c.EnsureTopic(ctx, "t", topic.Config{Partitions: 9}) }, replication.ErrTopicDiffers},
			"delete records beyond the end": {func() error {
				_, err := c.DeleteRecords(ctx, map[record.TopicPartition]int64{{Topic: "t"}: 99})
				return err
			}, partition.ErrOffsetOutOfRange},
			"describe an unknown group":          {func() error { _, err := c.Group(ctx, "unknown"); return err }, group.ErrGroupNotFound},
			"delete an unknown group":            {func() error { return c.DeleteGroup(ctx, "unknown") }, group.ErrGroupNotFound},
			"delete offsets of an unknown group": {func() error { _, err := c.DeleteOffsets(ctx, "unknown", unknown); return err }, group.ErrGroupNotFound},
			"reset a negative offset":            {func() error { return c.ResetOffsets(ctx, "g", record.Offsets{{Topic: "t"}: -5}) }, group.ErrInvalidOffset},
			"reset offsets of an unknown topic":  {func() error { return c.ResetOffsets(ctx, "g", record.Offsets{unknown: 1}) }, group.ErrUnknownTopicOrPartition},
			"heartbeat of an unknown member": {func() error {
				return c.Heartbeat(ctx, group.HeartbeatRequest{Group: "g", MemberID: "m", Generation: 1})
			}, group.ErrUnknownMember},
			"session timeout below the least": {func() error {
				_, err := c.Join(ctx, group.JoinRequest{Group: "g", ProtocolType: "consumer", SessionTimeout: 1})
				return err
			}, group.ErrInvalidSessionTimeout},
			"read an unknown topic": {func() error { return readAll(ctx, c, consumer.ReadConfig{Topic: "unknown"}) }, replication.ErrUnknownTopic},
			"read beyond the end": {func() error {
				return readAll(ctx, c, consumer.ReadConfig{Topic: "t", Start: record.Offsets{{Topic: "t"}: 7}})
			}, partition.ErrOffsetOutOfRange},
			"subscribe to an unknown topic": {func() error { _, err := consumer.New(c, consumer.Config{Topics: []string{"unknown"}}); return err }, consumer.ErrUnknownTopic},
		} {
			assert.ErrorIs(t, call.do(), call.want, name)
		}
		for name, do := range map[string]func() error{
			"unknown setting": func() error {
				return c.CreateTopic(ctx, "s", topic.Config{Properties: map[string]string{"no.such.setting": "1"}})
			},
			"invalid value": func() error { return c.AlterTopic(ctx, "t", map[string]string{"retention.ms": "x"}) },
		} {
			assert.ErrorAs(t, do(), new(*topic.ConfigError), name)
		}
	})
}

func readAll(ctx context.Context, c strata.Client, cfg consumer.ReadConfig) error {
	for _, err := range consumer.Read(ctx, c, cfg) {
		if err != nil {
			return err
		}
	}
	return nil
}

func TestTopicsAndGroupsAreAdministeredAsInOneProcess(t *testing.T) {
	both(t, func(t *testing.T, c strata.Client) {
		ctx := t.Context()
		require.NoError(t, c.CreateTopic(ctx, "a", topic.Config{Partitions: 3, Properties: map[string]string{"retention.ms": "1000"}}))
		require.NoError(t, c.EnsureTopic(ctx, "a", topic.Config{Partitions: 3}))
		require.NoError(t, c.AddPartitions(ctx, "a", 5))
		require.NoError(t, c.AlterTopicConfig(ctx, "a", replication.ConfigChange{Key: "retention.ms", Op: replication.SetConfig, Value: "2000"},
			replication.ConfigChange{Key: "cleanup.policy", Op: replication.AppendConfig, Value: "compact"}))
		info, err := c.Topic(ctx, "a")
		require.NoError(t, err)
		require.Len(t, info.Partitions, 5)
		require.False(t, info.ID.IsZero())
		retention, _ := info.Settings.Value("retention.ms")
		require.Equal(t, "2000", retention)
		require.True(t, info.Settings.Compacted())
		fill(t, c, 100) // of topic t
		topics, err := c.Topics(ctx)
		require.NoError(t, err)
		require.Equal(t, []string{"a", "t"}, names(topics))

		ends, err := c.Offsets(ctx, "t", partition.Latest)
		require.NoError(t, err)
		require.EqualValues(t, 100, ends[tp(0)]+ends[tp(1)])
		starts, err := c.DeleteRecords(ctx, map[record.TopicPartition]int64{tp(0): -1})
		require.NoError(t, err)
		require.Equal(t, map[record.TopicPartition]int64{tp(0): ends[tp(0)]}, starts)

		require.NoError(t, c.ResetOffsets(ctx, "g", record.Offsets{tp(1): 5}))
		g, err := c.WaitGroup(ctx, "g", func(i group.Info) bool { return i.State == group.Empty })
		require.NoError(t, err)
		require.Equal(t, ends[tp(1)]-5, g.Lag())
		lags, err := c.Lags(ctx)
		require.NoError(t, err)
		require.Len(t, lags, 1)
		require.Equal(t, g.Lag(), lags[0].Lag)
		all, err := c.Groups(ctx)
		require.NoError(t, err)
		require.Equal(t, "g", all[0].ID)
		errs, err := c.DeleteOffsets(ctx, "g", tp(1))
		require.NoError(t, err)
		require.NoError(t, errs[tp(1)])
		if err := c.DeleteGroup(ctx, "g"); !errors.Is(err, group.ErrGroupNotFound) { // it may be gone with its last offset
			require.NoError(t, err)
		}
		require.NoError(t, c.DeleteTopic(ctx, "a"))
		_, err = c.Topic(ctx, "a")
		require.ErrorIs(t, err, replication.ErrUnknownTopic)
		require.NotEmpty(t, c.ClusterID())
	})
}

func tp(p int32) record.TopicPartition { return record.TopicPartition{Topic: "t", Partition: p} }

func names(topics []topic.Info) (all []string) {
	for _, t := range topics {
		if !t.Internal {
			all = append(all, t.Name)
		}
	}
	return all
}

// A member that is described over the network has its topics and partitions.
func TestGroupIsDescribedWithItsMembers(t *testing.T) {
	both(t, func(t *testing.T, c strata.Client) {
		for name, protocol := range map[string]consumer.Protocol{"classic": consumer.ProtocolClassic, "newer": consumer.ProtocolConsumer} {
			m, err := consumer.New(c, consumer.Config{Group: name, Topics: []string{"t"}, Protocol: protocol, ClientID: "me"})
			require.NoError(t, err)
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			for range m.Records(ctx) {
			}
			cancel()
			info, err := c.WaitGroup(t.Context(), name, group.StableWith(1))
			require.NoError(t, err)
			require.Equal(t, []string{"t"}, info.Members[0].Topics)
			require.ElementsMatch(t, []record.TopicPartition{tp(0), tp(1)}, info.Members[0].Assignment)
			require.Equal(t, "me", info.Members[0].ClientID)
			require.ErrorIs(t, c.DeleteGroup(t.Context(), name), group.ErrNonEmptyGroup)
			require.NoError(t, m.Close())
		}
	})
}

func TestManyTopicsAreDescribedWithFewRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		topics := map[string]int{}
		for i := range 600 {
			topics[fmt.Sprint("t", i)] = 1
		}
		s := kafkatest.New(t, kafkatest.Config{Pipe: true, Topics: topics})
		c, err := dial(t.Context(), s)
		require.NoError(t, err)
		require.NoError(t, c.AlterTopic(t.Context(), "t42", map[string]string{"retention.ms": "42"}))
		var requests atomic.Int64
		defer s.Observe(func(*kafka.Exchange) { requests.Add(1) })()
		all, err := c.Topics(t.Context())
		require.NoError(t, err)
		require.Less(t, requests.Load(), int64(20))
		require.Len(t, slices.DeleteFunc(all, func(i topic.Info) bool { return i.Internal }), 600)
		for _, i := range all {
			value, _ := i.Settings.Value("retention.ms")
			require.Equal(t, i.Name == "t42", value == "42", i.Name)
		}
		require.NoError(t, c.Close())
	})
}

func TestStatsCountConnectionsRequestsAndThrottling(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := kafkatest.New(t, kafkatest.Config{Pipe: true, Topics: map[string]int{"t": 1}})
		var fails atomic.Bool
		c, err := remote.Open(t.Context(), remote.Config{Brokers: s.Addrs(), Dial: func(ctx context.Context, network, addr string) (net.Conn, error) {
			if fails.Swap(false) {
				return nil, errors.New("no route")
			}
			return s.Dial(ctx, network, addr)
		}})
		require.NoError(t, err)
		opened := c.Stats()
		require.Equal(t, 1, opened.Sessions)
		require.Positive(t, opened.Connections)
		s.Fault(kafkatest.Fault{APIs: []kafka.Key{kafka.Produce}, Throttle: 3 * time.Second})
		fill(t, c, 100)
		fails.Store(true)
		g, err := consumer.New(c, consumer.Config{Topics: []string{"t"}, Reset: consumer.Earliest()})
		require.NoError(t, err)
		once(t, read(t, g, 100), 100)
		during := c.Stats()
		require.Equal(t, 2, during.Sessions)
		require.Greater(t, during.Connections, opened.Connections)
		require.Greater(t, during.Requests, opened.Requests)
		require.Greater(t, during.BytesSent, int64(100))
		require.Greater(t, during.BytesReceived, int64(100))
		require.Equal(t, 3*time.Second, during.Throttled)
		require.EqualValues(t, 1, during.FailedConnects)
		require.NoError(t, g.Close())
		require.NoError(t, c.Close())
		require.Zero(t, c.Stats().Connections)
		require.Zero(t, c.Stats().Sessions)
	})
}
