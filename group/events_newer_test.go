package group

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/offsets"
	"github.com/stratalog/strata/record"
)

// A scene is a group of one of the newer types, whose members are named by the test.
type scene struct {
	*testing.T
	*Coordinator
	store *fakeStore
	take  func() []Event
}

// runScenes runs each scene from a group with the member m1, and compares the events since then.
func runScenes(t *testing.T, cfg Config, begin func(s *scene), scenes map[string]sceneCase) {
	for name, c := range scenes {
		t.Run(name, func(t *testing.T) {
			store := newFakeStore(map[string]int32{"t": 4})
			inBubble(t, store, cfg, func(t *testing.T, co *Coordinator) {
				s := &scene{T: t, Coordinator: co, store: store, take: recordEvents(co)}
				begin(s)
				s.take()
				c.run(s)
				require.Equal(t, strings.TrimSpace(c.want), strings.Join(eventLines(s.take()), "\n"))
			})
		})
	}
}

type sceneCase struct {
	run  func(s *scene)
	want string
}

// grow makes topics have these numbers of partitions; 0 deletes the topic.
func (s *scene) grow(topics map[string]int32) {
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	for name, n := range topics {
		info, ok := s.store.topics.Topics[name]
		if info.Partitions = n; !ok {
			info.ID = [16]byte{9, name[0]}
		}
		if n == 0 {
			delete(s.store.topics.Topics, name)
		} else {
			s.store.topics.Topics[name] = info
		}
	}
	s.store.topics.Version++
	s.store.changedLocked()
}

// join joins a member of the consumer protocol with these topics.
func (s *scene) join(id string, topics []string, change ...func(r *ConsumerHeartbeatRequest)) ConsumerHeartbeatResponse {
	r := ConsumerHeartbeatRequest{Group: "g", MemberID: id, ClientHost: "/h", RebalanceTimeout: 10 * time.Second, SubscribedTopics: topics, Owned: []offsets.TopicIDPartitions{}}
	for _, f := range change {
		f(&r)
	}
	resp, err := s.ConsumerHeartbeat(ctx, r)
	require.NoError(s, err)
	return resp
}

// beat sends heartbeats of members that own their assignment, until each has the group's last one.
func (s *scene) beat(ids ...string) {
	for range 3 {
		for _, id := range ids {
			s.beatOnce(id)
		}
		time.Sleep(time.Second)
	}
}

func (s *scene) beatOnce(id string) {
	d, err := s.DescribeConsumerGroup(ctx, "g")
	require.NoError(s, err)
	for _, m := range d.Members {
		if m.ID == id {
			_, err := s.ConsumerHeartbeat(ctx, ConsumerHeartbeatRequest{Group: "g", MemberID: id, MemberEpoch: m.Epoch, ClientHost: "/h", RebalanceTimeout: -1, Owned: m.Assigned})
			require.NoError(s, err)
		}
	}
}

// Each cause of a rebalance of a consumer group (KIP-848) is in the events.
func TestEventsTellWhyAConsumerGroupRebalanced(t *testing.T) {
	static := func(r *ConsumerHeartbeatRequest) { r.InstanceID = "i" }
	begin := func(s *scene) {
		s.join("m1", []string{"t"})
		require.Equal(s, []string{"joining 2, 1 members: m1 joined", "joined 2, 1 members: m1 joined", "assigned 2, 1 members, 4 moved, took 0s: m1 joined"}, eventLines(s.take()))
		time.Sleep(time.Second)
	}
	runScenes(t, Config{}, begin, map[string]sceneCase{
		"join": {func(s *scene) {
			s.join("m2", []string{"t"})
			s.beat("m1", "m2")
		}, `
joining 3, 2 members: m2 joined
joined 3, 2 members: m2 joined
assigned 3, 2 members, 2 moved, took 1s, waited for m1: m2 joined`},
		"join within the assignment interval": {func(s *scene) {
			s.join("m2", []string{"t"})
			s.join("m3", []string{"t"})
			s.beat("m1", "m2", "m3")
		}, `
joining 3, 2 members: m2 joined
joined 3, 2 members: m2 joined
joining 4, 3 members: m2 joined; m3 joined
joined 4, 3 members, waited for m1: m2 joined; m3 joined
assigned 4, 3 members, 2 moved, took 1s, waited for m1: m2 joined; m3 joined`},
		"leave": {func(s *scene) {
			s.join("m2", []string{"t"})
			s.beat("m1", "m2")
			s.take()
			_, err := s.ConsumerHeartbeat(ctx, ConsumerHeartbeatRequest{Group: "g", MemberID: "m2", MemberEpoch: -1, RebalanceTimeout: -1, Reason: PollTimeoutReason})
			require.NoError(s, err)
			s.beat("m1")
		}, `
joining 4, 1 members: m2 exceeded its max poll interval and left
joined 4, 1 members: m2 exceeded its max poll interval and left
assigned 4, 1 members, 2 moved, took 0s: m2 exceeded its max poll interval and left`},
		"last leave and delete": {func(s *scene) {
			_, err := s.ConsumerHeartbeat(ctx, ConsumerHeartbeatRequest{Group: "g", MemberID: "m1", MemberEpoch: -1, RebalanceTimeout: -1, Reason: "done"})
			require.NoError(s, err)
			require.NoError(s, s.DeleteGroup(ctx, "g"))
		}, `
emptied 3, 0 members: m1 left (done)
removed 3, 0 members: an administrator deleted it`},
		"session and expiry": {func(s *scene) {
			time.Sleep(11 * time.Minute)
		}, `
emptied 3, 0 members: session of m1 ran out after being silent for 45s
removed 3, 0 members: it expired`},
		"did not give up": {func(s *scene) {
			s.join("m2", []string{"t"})
			for range 14 { // m1 stays with all its partitions
				_, _ = s.ConsumerHeartbeat(ctx, ConsumerHeartbeatRequest{Group: "g", MemberID: "m1", MemberEpoch: 2, ClientHost: "/h", RebalanceTimeout: -1})
				s.beatOnce("m2")
				time.Sleep(900 * time.Millisecond) // never when its time ends
			}
		}, `
joining 3, 2 members: m2 joined
joined 3, 2 members: m2 joined
joining 4, 1 members: m2 joined; m1 did not give up its partitions within 10s
joined 4, 1 members, waited for m1: m2 joined; m1 did not give up its partitions within 10s
assigned 4, 1 members, 4 moved, took 10.8s, waited for m1: m2 joined; m1 did not give up its partitions within 10s`},
		"subscription": {func(s *scene) {
			d, err := s.DescribeConsumerGroup(ctx, "g")
			require.NoError(s, err)
			_, err = s.ConsumerHeartbeat(ctx, ConsumerHeartbeatRequest{Group: "g", MemberID: "m1", MemberEpoch: d.GroupEpoch, ClientHost: "/h", RebalanceTimeout: -1, SubscribedTopics: []string{"t", "u"}})
			require.NoError(s, err)
			s.beat("m1")
		}, `
joining 3, 1 members: m1 changed its subscription
joined 3, 1 members: m1 changed its subscription
assigned 3, 1 members, 0 moved, took 0s: m1 changed its subscription`},
		"topics": {func(s *scene) {
			d, err := s.DescribeConsumerGroup(ctx, "g")
			require.NoError(s, err)
			_, err = s.ConsumerHeartbeat(ctx, ConsumerHeartbeatRequest{Group: "g", MemberID: "m1", MemberEpoch: d.GroupEpoch, ClientHost: "/h", RebalanceTimeout: -1, SubscribedTopics: []string{"t", "u"}})
			require.NoError(s, err)
			s.beat("m1")
			s.take()
			for _, topics := range []map[string]int32{{"t": 5}, {"u": 2}, {"t": 0, "u": 3}} {
				s.grow(topics)
				time.Sleep(time.Minute / 2)
				s.beat("m1")
			}
		}, `
joining 4, 1 members: topic t has more partitions
joined 4, 1 members: topic t has more partitions
assigned 4, 1 members, 1 moved, took 0s: topic t has more partitions
joining 5, 1 members: topic u was created
joined 5, 1 members: topic u was created
assigned 5, 1 members, 2 moved, took 0s: topic u was created
joining 6, 1 members: topic t was deleted; topic u has more partitions
joined 6, 1 members: topic t was deleted; topic u has more partitions
assigned 6, 1 members, 1 moved, took 1s, waited for m1: topic t was deleted; topic u has more partitions`},
		"static member": {func(s *scene) {
			s.join("m2", []string{"t"}, static)
			s.beat("m1", "m2")
			_, err := s.ConsumerHeartbeat(ctx, ConsumerHeartbeatRequest{Group: "g", MemberID: "m2", MemberEpoch: -2, InstanceID: "i", RebalanceTimeout: -1})
			require.NoError(s, err)
			s.take()
			s.join("m3", []string{"t"}, static) // the same subscription: no rebalance
			require.Empty(s, eventLines(s.take()))
			_, err = s.ConsumerHeartbeat(ctx, ConsumerHeartbeatRequest{Group: "g", MemberID: "m3", MemberEpoch: -2, InstanceID: "i", RebalanceTimeout: -1})
			require.NoError(s, err)
			s.join("m4", []string{"t", "u"}, static)
			s.beat("m1", "m4")
		}, `
joining 4, 2 members: static member replaced by m4
joined 4, 2 members: static member replaced by m4
assigned 4, 2 members, 0 moved, took 0s: static member replaced by m4`},
		"administrator": {func(s *scene) {
			s.join("m2", []string{"t"}, static)
			s.beat("m1", "m2")
			s.take()
			_, err := s.Leave(ctx, LeaveRequest{Group: "g", Members: []LeaveMember{{InstanceID: "i"}}})
			require.NoError(s, err)
			s.beat("m1")
		}, `
joining 4, 1 members: an administrator removed m2
joined 4, 1 members: an administrator removed m2
assigned 4, 1 members, 2 moved, took 0s: an administrator removed m2`},
		"rewind": {func(s *scene) {
			_, err := s.RewindGroup(ctx, "g", ToEarliest())
			require.NoError(s, err)
		}, `
emptied 3, 0 members: an administrator removed all members`},
		"refused commit": {func(s *scene) {
			_, err := s.CommitOffsets(ctx, CommitRequest{Group: "g", MemberID: "m1", Generation: 9, Offsets: map[record.TopicPartition]record.Committed{{Topic: "t"}: {Offset: 1}}})
			require.ErrorIs(s, err, ErrStaleMemberEpoch)
		}, `
commit refused 9 of m1, 1: group: the member's epoch is stale: it must send a heartbeat and retry`},
		"load": {func(s *scene) {
			s.join("m2", []string{"t"})
			s.store.lead(offsets.PartitionFor("g", 50), 2, 1<<30) // another broker becomes the coordinator
			time.Sleep(time.Second)
			s.beat("m1", "m2")
		}, `
joining 3, 2 members: m2 joined
joined 3, 2 members: m2 joined
assigned 3, 2 members, -1 moved, took 2s, waited for m1: the coordinator was loaded again`},
	})
}

// streamsBeats sends heartbeats of members of the streams group that have their tasks.
func (s *scene) streamsBeats(ids ...string) {
	for range 3 {
		for _, id := range ids {
			d, err := s.DescribeStreamsGroup(ctx, "g")
			require.NoError(s, err)
			for _, m := range d.Members {
				if m.ID == id {
					_, err := s.StreamsHeartbeat(ctx, streamsBeat(id, m.Epoch, &m.Assigned))
					require.NoError(s, err)
				}
			}
		}
		time.Sleep(3 * time.Second)
	}
}

// Each cause of a rebalance of a streams group is in the events.
func TestEventsTellWhyAStreamsGroupRebalanced(t *testing.T) {
	join := func(s *scene, id string) {
		_, err := s.StreamsHeartbeat(ctx, streamsJoin(id, "t"))
		require.NoError(s, err)
	}
	begin := func(s *scene) {
		join(s, "m1")
		s.streamsBeats("m1")
		require.Equal(s, []string{"joining 2, 1 members: m1 joined", "joined 2, 1 members: m1 joined", "assigned 2, 1 members, 4 moved, took 0s: m1 joined"}, eventLines(s.take()))
	}
	runScenes(t, atOnce, begin, map[string]sceneCase{
		"join": {func(s *scene) {
			join(s, "m2")
			s.streamsBeats("m1", "m2")
		}, `
joining 3, 2 members: m2 joined
joined 3, 2 members: m2 joined
assigned 3, 2 members, 2 moved, took 3s, waited for m1: m2 joined`},
		"leave": {func(s *scene) {
			join(s, "m2")
			s.streamsBeats("m1", "m2")
			s.take()
			_, err := s.StreamsHeartbeat(ctx, streamsBeat("m2", -1, nil))
			require.NoError(s, err)
			s.streamsBeats("m1")
		}, `
joining 4, 1 members: m2 left
joined 4, 1 members: m2 left
assigned 4, 1 members, 2 moved, took 0s: m2 left`},
		"session": {func(s *scene) {
			time.Sleep(time.Minute)
			require.NoError(s, s.DeleteGroup(ctx, "g"))
		}, `
emptied 3, 0 members: session of m1 ran out after being silent for 45s
removed 3, 0 members: an administrator deleted it`},
		"did not give up": {func(s *scene) {
			join(s, "m2")
			for range 40 { // m1 keeps its tasks
				_, _ = s.StreamsHeartbeat(ctx, streamsBeat("m1", 2, nil))
				_, _ = s.StreamsHeartbeat(ctx, streamsBeat("m2", 3, nil))
				time.Sleep(1900 * time.Millisecond)
			}
			s.streamsBeats("m2")
		}, `
joining 3, 2 members: m2 joined
joined 3, 2 members: m2 joined
joining 4, 1 members: m2 joined; m1 did not give up its partitions within 1m0s
joined 4, 1 members, waited for m1: m2 joined; m1 did not give up its partitions within 1m0s
assigned 4, 1 members, 4 moved, took 1m0.8s, waited for m1: m2 joined; m1 did not give up its partitions within 1m0s`},
		"refused join": {func(s *scene) {
			join(s, "m2")
			r := streamsJoin("m3", "t")
			r.Topology.Epoch = -1
			_, err := s.StreamsHeartbeat(ctx, r)
			require.ErrorIs(s, err, ErrInvalidTopology)
			s.streamsBeats("m1", "m2")
		}, `
joining 3, 2 members: m2 joined
joined 3, 2 members: m2 joined
assigned 3, 2 members, 2 moved, took 3s, waited for m1: m2 joined`},
		"metadata": {func(s *scene) {
			r := streamsBeat("m1", 2, nil)
			r.RackID = "r"
			_, err := s.StreamsHeartbeat(ctx, r)
			require.NoError(s, err)
			s.streamsBeats("m1")
		}, `
joining 3, 1 members: m1 changed its metadata
joined 3, 1 members: m1 changed its metadata
assigned 3, 1 members, 0 moved, took 0s: m1 changed its metadata`},
		"topics": {func(s *scene) {
			s.grow(map[string]int32{"t": 5})
			s.streamsBeats("m1")
			s.grow(map[string]int32{"t": 0})
			s.streamsBeats("m1")
			s.grow(map[string]int32{"t": 1})
			s.streamsBeats("m1")
		}, `
joining 3, 1 members: topic t has more partitions
joined 3, 1 members: topic t has more partitions
assigned 3, 1 members, 1 moved, took 0s: topic t has more partitions
joining 4, 1 members: topic t was deleted
joined 4, 1 members: topic t was deleted
assigned 4, 1 members, 0 moved, took 3s, waited for m1: topic t was deleted
joining 5, 1 members: topic t was created
joined 5, 1 members: topic t was created
assigned 5, 1 members, 1 moved, took 0s: topic t was created`},
		"rewind": {func(s *scene) {
			_, err := s.RewindGroup(ctx, "g", ToEarliest())
			require.NoError(s, err)
		}, `
emptied 3, 0 members: an administrator removed all members`},
	})
}

// shareBeats sends heartbeats of members of the share group.
func (s *scene) shareBeats(ids ...string) {
	for range 3 {
		for _, id := range ids {
			d, err := s.DescribeShareGroup(ctx, "g")
			require.NoError(s, err)
			for _, m := range d.Members {
				if m.ID == id {
					_, err := s.ShareHeartbeat(ctx, ShareHeartbeatRequest{Group: "g", MemberID: id, MemberEpoch: m.Epoch, ClientHost: "/h"})
					require.NoError(s, err)
				}
			}
		}
		time.Sleep(time.Second)
	}
}

// Each cause of a new assignment of a share group is in the events.
func TestEventsTellWhyAShareGroupRebalanced(t *testing.T) {
	states := &fakeStates{}
	begin := func(s *scene) {
		states.fail(nil)
		states.there = map[string]int64{}
		_, err := s.ShareHeartbeat(ctx, shareJoin("m1", "t"))
		require.NoError(s, err)
		require.Equal(s, []string{"joining 2, 1 members: m1 joined", "joined 2, 1 members: m1 joined", "assigned 2, 1 members, 4 moved, took 0s: m1 joined"}, eventLines(s.take()))
		time.Sleep(time.Second)
	}
	runScenes(t, Config{ShareStates: states}, begin, map[string]sceneCase{
		"join": {func(s *scene) {
			_, err := s.ShareHeartbeat(ctx, shareJoin("m2", "t"))
			require.NoError(s, err)
			s.shareBeats("m1", "m2")
		}, `
joining 3, 2 members: m2 joined
joined 3, 2 members: m2 joined
assigned 3, 2 members, 2 moved, took 0s: m2 joined`},
		"leave": {func(s *scene) {
			_, err := s.ShareHeartbeat(ctx, ShareHeartbeatRequest{Group: "g", MemberID: "m1", MemberEpoch: -1, ClientHost: "/h"})
			require.NoError(s, err)
			require.NoError(s, s.DeleteGroup(ctx, "g"))
		}, `
emptied 3, 0 members: m1 left
removed 3, 0 members: an administrator deleted it`},
		"session": {func(s *scene) {
			time.Sleep(time.Minute)
		}, `
emptied 3, 0 members: session of m1 ran out after being silent for 45s`},
		"subscription": {func(s *scene) {
			r := shareJoin("m1", "t", "u")
			r.MemberEpoch = 2
			_, err := s.ShareHeartbeat(ctx, r)
			require.NoError(s, err)
			s.shareBeats("m1")
		}, `
joining 3, 1 members: m1 changed its subscription
joined 3, 1 members: m1 changed its subscription
assigned 3, 1 members, 0 moved, took 0s: m1 changed its subscription`},
		"topics": {func(s *scene) {
			s.grow(map[string]int32{"t": 6})
			time.Sleep(time.Minute / 2)
			s.shareBeats("m1")
			s.grow(map[string]int32{"t": 0})
			time.Sleep(time.Minute / 2)
			s.shareBeats("m1")
		}, `
joining 3, 1 members: topic t has more partitions
joined 3, 1 members: topic t has more partitions
assigned 3, 1 members, 0 moved, took 0s: topic t has more partitions
joining 4, 1 members: new partitions can be read
joined 4, 1 members: new partitions can be read
assigned 4, 1 members, 2 moved, took 0s: new partitions can be read
joining 5, 1 members: topic t was deleted
joined 5, 1 members: topic t was deleted
assigned 5, 1 members, 0 moved, took 0s: topic t was deleted`},
		"partitions without a state": {func(s *scene) {
			states.fail(errors.New("no leader"))
			r := shareJoin("m1", "t", "u")
			r.MemberEpoch = 2
			s.grow(map[string]int32{"u": 1})
			time.Sleep(time.Minute / 2)
			_, err := s.ShareHeartbeat(ctx, r)
			require.NoError(s, err)
			s.shareBeats("m1")
			states.fail(nil)
			s.shareBeats("m1")
		}, `
joining 3, 1 members: m1 changed its subscription
joined 3, 1 members: m1 changed its subscription
assigned 3, 1 members, 0 moved, took 0s: m1 changed its subscription
joining 4, 1 members: new partitions can be read
joined 4, 1 members: new partitions can be read
assigned 4, 1 members, 1 moved, took 0s: new partitions can be read`},
	})
}
