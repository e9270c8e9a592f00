package group

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/group/assignor"
	"github.com/stratalog/strata/internal/offsets"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/replication"
	"github.com/stratalog/strata/topic"
	"github.com/stratalog/strata/vfs"
)

func streamsJoin(member string, topics ...string) StreamsHeartbeatRequest {
	process := "p-" + member
	t := &offsets.StreamsTopologyValue{Epoch: 1}
	for _, name := range topics {
		t.Subtopologies = append(t.Subtopologies, offsets.StreamsSubtopology{ID: name, SourceTopics: []string{name}})
	}
	return StreamsHeartbeatRequest{Group: "g", MemberID: member, ClientHost: "/h", RebalanceTimeout: time.Minute, ProcessID: &process, Topology: t, Owned: &offsets.StreamsTaskRoles{}}
}

// streamsBeat returns the heartbeat of a member that has joined, in an epoch and with its tasks.
func streamsBeat(member string, epoch int32, owned *offsets.StreamsTaskRoles) StreamsHeartbeatRequest {
	return StreamsHeartbeatRequest{Group: "g", MemberID: member, MemberEpoch: epoch, ClientHost: "/h", RebalanceTimeout: -1, Owned: owned}
}

func activeTasks(r StreamsHeartbeatResponse) (n int) {
	if r.Assignment != nil {
		for _, t := range r.Assignment.Active {
			n += len(t.Partitions)
		}
	}
	return n
}

var atOnce = Config{Streams: StreamsConfig{InitialRebalanceDelay: Unlimited}}

// Checklist row S28.
func TestStreamsGroupsSurviveRestartsAndMoves(t *testing.T) {
	store := newFakeStore(map[string]int32{"t": 4})
	inBubble(t, store, atOnce, func(t *testing.T, c *Coordinator) {
		one, err := c.StreamsHeartbeat(t.Context(), streamsJoin("m1", "t"))
		require.NoError(t, err)
		require.Equal(t, 4, activeTasks(one))
		commit(t, c, CommitRequest{Group: "g", MemberID: "m1", Generation: one.MemberEpoch, Offsets: map[record.TopicPartition]record.Committed{{Topic: "t"}: {Offset: 7}}})
		before, err := c.DescribeStreamsGroup(t.Context(), "g")
		require.NoError(t, err)
		require.Equal(t, Stable, before.State)
		store.lead(0, 2, 1<<30) // another broker becomes the coordinator
		same := func(c *Coordinator) {
			d, err := c.DescribeStreamsGroup(t.Context(), "g")
			require.NoError(t, err)
			require.Equal(t, before, d)
			again, err := c.StreamsHeartbeat(t.Context(), streamsBeat("m1", one.MemberEpoch, nil))
			require.NoError(t, err)
			require.Equal(t, one.MemberEpoch, again.MemberEpoch)
			require.Nil(t, again.Assignment, "it has what it had")
			require.Equal(t, int64(7), committed(t, c, "g", record.TopicPartition{Topic: "t"}))
		}
		same(c)
		require.NoError(t, c.Close())
		reopened(t, store, atOnce, func(next *Coordinator) {
			same(next)
		})
		reopened(t, store, atOnce, func(next *Coordinator) {
			d, err := next.DescribeStreamsGroup(t.Context(), "g")
			require.NoError(t, err)
			require.Equal(t, before, d)
			time.Sleep(46 * time.Second)
			d, err = next.DescribeStreamsGroup(t.Context(), "g")
			require.NoError(t, err)
			require.Equal(t, Empty, d.State, "who is loaded has a session")
		})
	})
}

// Checklist row S28.
func TestStreamsGroupsAreReadFromFiles(t *testing.T) {
	fs := vfs.Mem()
	var epoch int32
	withCluster(t, fs, func(t *testing.T, brokers *replication.Cluster, c *Coordinator) {
		require.NoError(t, brokers.CreateTopic(ctx, "in", topic.Config{Partitions: 3}))
		_, err := c.StreamsHeartbeat(t.Context(), streamsJoin("m1", "in"))
		require.NoError(t, err)
		// the initial rebalance delay, during which more members may join
		time.Sleep(4 * time.Second)
		resp, err := c.StreamsHeartbeat(t.Context(), streamsBeat("m1", 1, nil))
		require.NoError(t, err)
		require.Equal(t, 3, activeTasks(resp))
		epoch = resp.MemberEpoch
	})
	withCluster(t, fs, func(t *testing.T, _ *replication.Cluster, c *Coordinator) {
		resp, err := c.StreamsHeartbeat(t.Context(), streamsBeat("m1", epoch, nil))
		require.NoError(t, err)
		require.Equal(t, epoch, resp.MemberEpoch)
		infos, err := c.Groups(t.Context())
		require.NoError(t, err)
		require.Equal(t, []any{Streams, "streams", Stable, "sticky"}, []any{infos[0].Type, infos[0].ProtocolType, infos[0].State, infos[0].Protocol})
		require.Len(t, infos[0].Members[0].Assignment, 3)
	})
}

// Checklist row S30.
func TestStreamsGroupsBecomeClassicOnesAndNothingElse(t *testing.T) {
	store := newFakeStore(map[string]int32{"t": 4})
	inBubble(t, store, atOnce, func(t *testing.T, c *Coordinator) {
		// a classic group, without members
		commit(t, c, commitOf("g", record.Offsets{{Topic: "t"}: 7}))
		resp, err := c.StreamsHeartbeat(t.Context(), streamsJoin("m1", "t"))
		require.NoError(t, err)
		require.Equal(t, int64(7), committed(t, c, "g", record.TopicPartition{Topic: "t"}), "its offsets stay")
		others := func() {
			_, err := c.ConsumerHeartbeat(t.Context(), ConsumerHeartbeatRequest{Group: "g", MemberID: "c", RebalanceTimeout: time.Minute, SubscribedTopics: []string{"t"}, Owned: []offsets.TopicIDPartitions{}})
			require.ErrorIs(t, err, ErrGroupNotFound)
			_, err = c.ShareHeartbeat(t.Context(), shareJoin("s", "t"))
			require.ErrorIs(t, err, ErrGroupNotFound)
		}
		join := JoinRequest{Group: "g", ProtocolType: "consumer", SessionTimeout: 10 * time.Second, ClientHost: "/h", Protocols: []assignor.Protocol{{Name: "range"}}}
		others()
		_, err = c.Join(t.Context(), join)
		require.ErrorIs(t, err, ErrInconsistentProtocol)
		_, err = c.StreamsHeartbeat(t.Context(), streamsBeat("m1", -1, nil))
		require.NoError(t, err)
		others() // without members, too
		d, err := c.DescribeStreamsGroup(t.Context(), "g")
		require.NoError(t, err)
		require.Equal(t, Empty, d.State)
		require.Greater(t, d.GroupEpoch, resp.MemberEpoch)
		_, err = c.Join(t.Context(), join)
		require.NoError(t, err)
		_, err = c.DescribeStreamsGroup(t.Context(), "g")
		require.ErrorIs(t, err, ErrGroupNotFound)
		require.Equal(t, int64(7), committed(t, c, "g", record.TopicPartition{Topic: "t"}))
		_, err = c.StreamsHeartbeat(t.Context(), streamsJoin("m1", "t"))
		require.ErrorIs(t, err, ErrGroupNotFound, "the group has a member of another kind")
		require.ErrorIs(t, c.DeleteGroup(t.Context(), "g"), ErrNonEmptyGroup)
	})
}

// Checklist row S27.
func TestStreamsGroupsGoByTheirOwnConfiguration(t *testing.T) {
	withCluster(t, vfs.Mem(), func(t *testing.T, brokers *replication.Cluster, c *Coordinator) {
		require.NoError(t, brokers.CreateTopic(ctx, "in", topic.Config{Partitions: 2}))
		set := func(key, value string) error {
			return c.AlterGroupConfig(t.Context(), ConfigAlteration{Group: "g", Changes: []replication.ConfigChange{{Key: key, Value: value, Op: replication.SetConfig}}})
		}
		for key, bad := range map[string]string{"streams.session.timeout.ms": "44999", "streams.heartbeat.interval.ms": "15001", "streams.num.standby.replicas": "3",
			"streams.assignment.interval.ms": "15001", "streams.initial.rebalance.delay.ms": "-1"} {
			var refused *topic.ConfigError
			require.ErrorAs(t, set(key, bad), &refused)
			require.Equal(t, key, refused.Key)
		}
		require.ErrorContains(t, set("streams.num.standby.replicas", "3"), "group.streams.max.standby.replicas")
		require.NoError(t, set("streams.initial.rebalance.delay.ms", "0"))
		require.NoError(t, set("streams.heartbeat.interval.ms", "7000"))
		require.NoError(t, set("streams.num.standby.replicas", "1"))
		join := func(member string) StreamsHeartbeatRequest {
			r := streamsJoin(member, "in")
			r.Topology.Subtopologies[0].Changelogs = []offsets.StreamsTopic{{Name: "log"}}
			return r
		}
		require.NoError(t, brokers.CreateTopic(ctx, "log", topic.Config{Partitions: 2}))
		one, err := c.StreamsHeartbeat(t.Context(), join("m1"))
		require.NoError(t, err)
		require.Equal(t, 2, activeTasks(one), "there is no delay")
		require.Equal(t, 7*time.Second, one.HeartbeatInterval)
		time.Sleep(time.Second)
		two, err := c.StreamsHeartbeat(t.Context(), join("m2"))
		require.NoError(t, err)
		require.Len(t, two.Assignment.Standby, 1, "a copy of what the other one keeps")
		epoch := two.MemberEpoch
		require.NoError(t, set("streams.num.standby.replicas", "0"))
		time.Sleep(time.Second)
		two, err = c.StreamsHeartbeat(t.Context(), streamsBeat("m2", epoch, nil))
		require.NoError(t, err)
		d, err := c.DescribeStreamsGroup(t.Context(), "g")
		require.NoError(t, err)
		require.Greater(t, d.GroupEpoch, epoch, "other settings share the tasks out anew")
		require.Empty(t, d.Members[1].Target.Standby)
	})
}

func TestStreamsHeartbeatsThatMakeNoSenseAreRefused(t *testing.T) {
	store := newFakeStore(map[string]int32{"t": 1})
	inBubble(t, store, Config{}, func(t *testing.T, c *Coordinator) {
		for name, edit := range map[string]func(*StreamsHeartbeatRequest){
			"no group":              func(r *StreamsHeartbeatRequest) { r.Group = "" },
			"no member":             func(r *StreamsHeartbeatRequest) { r.MemberID = "" },
			"no topology":           func(r *StreamsHeartbeatRequest) { r.Topology = nil },
			"no timeout":            func(r *StreamsHeartbeatRequest) { r.RebalanceTimeout = -1 },
			"no such epoch":         func(r *StreamsHeartbeatRequest) { r.MemberEpoch = -2 },
			"a topology afterwards": func(r *StreamsHeartbeatRequest) { r.MemberEpoch = 1 },
			"tasks": func(r *StreamsHeartbeatRequest) {
				r.Owned = &offsets.StreamsTaskRoles{Active: []offsets.StreamsTasks{{}}}
			},
		} {
			r := streamsJoin("m", "t")
			edit(&r)
			_, err := c.StreamsHeartbeat(t.Context(), r)
			require.ErrorIs(t, err, ErrInvalidRequest, name)
		}
		_, err := c.StreamsHeartbeat(t.Context(), streamsBeat("m", 1, nil))
		require.ErrorIs(t, err, ErrGroupNotFound)
	})
}

func TestStreamsConfigurationsThatMakeNoSenseAreRefused(t *testing.T) {
	for field, c := range map[string]StreamsConfig{
		"Streams.SessionTimeout":     {SessionTimeout: -1},
		"Streams.HeartbeatInterval":  {HeartbeatInterval: time.Minute},
		"Streams.StandbyReplicas":    {StandbyReplicas: 3, MaxStandbyReplicas: 2},
		"Streams.MaxSize":            {MaxSize: -2},
		"Streams.MaxSessionTimeout":  {MaxSessionTimeout: time.Second},
		"Streams.MinSessionTimeout":  {MinSessionTimeout: time.Minute},
		"Streams.AssignmentInterval": {AssignmentInterval: -2},
	} {
		var refused *topic.ConfigError
		require.ErrorAs(t, Config{Streams: c}.Validate(), &refused, field)
		require.Equal(t, field, refused.Key)
	}
}
