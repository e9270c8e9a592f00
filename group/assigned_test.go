package group

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/group/assignor"
	"github.com/stratalog/strata/group/internal/classic"
	"github.com/stratalog/strata/internal/offsets"
	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/record"
)

// assignedKinds send a heartbeat of a member in an epoch, for each kind of group whose coordinator
// assigns. They return the next epoch; epoch 0 joins with the given topics.
var assignedKinds = map[string]func(t *testing.T, c *Coordinator, member string, epoch int32, topics ...string) int32{
	"consumer": func(t *testing.T, c *Coordinator, member string, epoch int32, topics ...string) int32 {
		r := ConsumerHeartbeatRequest{Group: "g", MemberID: member, MemberEpoch: epoch, RebalanceTimeout: -1}
		if epoch == 0 {
			r.RebalanceTimeout, r.SubscribedTopics, r.Owned = time.Minute, topics, []offsets.TopicIDPartitions{}
		}
		resp, err := c.ConsumerHeartbeat(t.Context(), r)
		require.NoError(t, err)
		return resp.MemberEpoch
	},
	"streams": func(t *testing.T, c *Coordinator, member string, epoch int32, topics ...string) int32 {
		r := streamsBeat(member, epoch, nil)
		if epoch == 0 {
			r = streamsJoin(member, topics...)
		}
		resp, err := c.StreamsHeartbeat(t.Context(), r)
		require.NoError(t, err)
		return resp.MemberEpoch
	},
}

// Checklist row N22.
func TestOffsetsOfGroupsThatAreAssignedGoWithWhatReadsThem(t *testing.T) {
	cfg := atOnce
	cfg.OffsetsRetention = time.Hour
	read, left := record.TopicPartition{Topic: "t"}, record.TopicPartition{Topic: "u"}
	for kind, beat := range assignedKinds {
		t.Run(kind, func(t *testing.T) {
			inBubble(t, newFakeStore(map[string]int32{"t": 1, "u": 1}), cfg, func(t *testing.T, c *Coordinator) {
				commit(t, c, commitOf("g", record.Offsets{read: 1, left: 2}))
				epoch := beat(t, c, "m", 0, "t")
				live := func(long time.Duration) {
					for end := time.Now().Add(long); time.Now().Before(end); time.Sleep(7 * time.Second) {
						epoch = beat(t, c, "m", epoch)
					}
				}
				stored := func() record.Offsets {
					info, err := c.Group(t.Context(), "g")
					require.NoError(t, err)
					out := record.Offsets{}
					for tp, o := range info.Offsets {
						out[tp] = o.Offset
					}
					return out
				}
				live(50 * time.Minute)
				require.Equal(t, record.Offsets{read: 1, left: 2}, stored())
				live(30 * time.Minute)
				require.Equal(t, record.Offsets{read: 1}, stored(), "u is not read any more")

				errs, err := c.DeleteOffsets(t.Context(), "g", read, left)
				require.NoError(t, err)
				require.Equal(t, map[record.TopicPartition]error{read: ErrGroupSubscribedToTopic, left: nil}, errs)
				require.ErrorIs(t, c.DeleteGroup(t.Context(), "g"), ErrNonEmptyGroup)
				require.ErrorIs(t, c.ResetOffsets(t.Context(), "g", record.Offsets{read: 0}), ErrNonEmptyGroup)
				require.Equal(t, record.Offsets{read: 1}, stored())

				moved, err := c.RewindGroup(t.Context(), "g", ToEarliest(), read)
				require.NoError(t, err)
				require.Equal(t, record.Offsets{read: 0}, moved)
				info, err := c.Group(t.Context(), "g")
				require.NoError(t, err)
				require.Empty(t, info.Members)
				require.NoError(t, c.ResetOffsets(t.Context(), "g", record.Offsets{left: 0}))
				require.Equal(t, record.Offsets{read: 0, left: 0}, stored())
				errs, err = c.DeleteOffsets(t.Context(), "g", left)
				require.NoError(t, err)
				require.Equal(t, map[record.TopicPartition]error{left: nil}, errs)
				time.Sleep(50 * time.Minute)
				require.Equal(t, record.Offsets{read: 0}, stored())
				time.Sleep(30 * time.Minute)
				_, err = c.Group(t.Context(), "g")
				require.ErrorIs(t, err, ErrGroupNotFound)

				beat(t, c, "m", 0, "t")
				beat(t, c, "m", -1)
				require.Empty(t, stored())
				require.NoError(t, c.DeleteGroup(t.Context(), "g"))
				require.ErrorIs(t, c.DeleteGroup(t.Context(), "g"), ErrGroupNotFound)
			})
		})
	}
}

// Checklist row N23.
func TestMembersThatAreTooManyForABatchGoAllTheSame(t *testing.T) {
	cfg := atOnce
	cfg.MaxBatchBytes = 10_000
	for kind, beat := range assignedKinds {
		t.Run(kind, func(t *testing.T) {
			inBubble(t, newFakeStore(map[string]int32{"t": 4}), cfg, func(t *testing.T, c *Coordinator) {
				members := func() (n int) {
					info, err := c.Group(t.Context(), "g")
					require.NoError(t, err)
					return len(info.Members)
				}
				for i := range 60 {
					beat(t, c, strings.Repeat("x", 300)+strconv.Itoa(i), 0, "t")
				}
				require.Equal(t, 60, members())
				moved, err := c.RewindGroup(t.Context(), "g", ToEarliest(), record.TopicPartition{Topic: "t"})
				require.NoError(t, err)
				require.Equal(t, record.Offsets{{Topic: "t"}: 0}, moved)
				require.Zero(t, members())
				for i := range 60 {
					beat(t, c, strings.Repeat("x", 300)+strconv.Itoa(i), 0, "t")
				}
				time.Sleep(46 * time.Second) // no heartbeat of them arrives
				require.Zero(t, members())
				require.NoError(t, c.DeleteGroup(t.Context(), "g"))
			})
		})
	}
}

// Checklist row N23.
func TestMembersOfAShareGroupThatAreTooManyForABatchGoAllTheSame(t *testing.T) {
	inBubble(t, newFakeStore(map[string]int32{"t": 4}), Config{MaxBatchBytes: 10_000}, func(t *testing.T, c *Coordinator) {
		for i := range 100 {
			_, err := c.ShareHeartbeat(t.Context(), shareJoin("m"+strconv.Itoa(i), "t"))
			require.NoError(t, err)
		}
		time.Sleep(46 * time.Second)
		info, err := c.Group(t.Context(), "g")
		require.NoError(t, err)
		require.Empty(t, info.Members)
	})
}

// Checklist row N23. The members ran in a process that has ended.
func TestManyMembersOfADeadProcessGo(t *testing.T) {
	cfg := Config{MaxBatchBytes: 10_000}
	store := newFakeStore(map[string]int32{"t": 4})
	inBubble(t, store, cfg, func(t *testing.T, c *Coordinator) {
		for i := range 60 {
			_, err := c.ConsumerHeartbeat(t.Context(), ConsumerHeartbeatRequest{Group: "g", MemberID: strings.Repeat("x", 300) + strconv.Itoa(i), ClientHost: classic.InProcess + "before",
				RebalanceTimeout: time.Minute, SubscribedTopics: []string{"t"}, Owned: []offsets.TopicIDPartitions{}})
			require.NoError(t, err)
		}
		require.NoError(t, c.Close())
		reopened(t, store, cfg, func(next *Coordinator) {
			synctest.Wait()
			info, err := next.Group(t.Context(), "g")
			require.NoError(t, err)
			require.Empty(t, info.Members)
		})
	})
}

// Checklist row N23. The group would become a classic one, if that could be stored.
func TestTheLastMemberOfTheNewerProtocolGoesWhateverTheOthersAre(t *testing.T) {
	inBubble(t, newFakeStore(map[string]int32{"t": 4}), Config{MaxBatchBytes: 10_000}, func(t *testing.T, c *Coordinator) {
		beat := assignedKinds["consumer"]
		beat(t, c, "m", 0, "t")
		for range 20 {
			_, err := c.Join(t.Context(), JoinRequest{Group: "g", ClientID: strings.Repeat("x", 300), ProtocolType: ProtocolTypeConsumer, SessionTimeout: 10 * time.Second, RebalanceTimeout: time.Minute,
				Protocols: []assignor.Protocol{{Name: "range", Metadata: assignor.Subscription{Topics: []string{"t"}}.AppendTo(nil)}}})
			require.NoError(t, err)
		}
		beat(t, c, "m", -1)
		info, err := c.Group(t.Context(), "g")
		require.NoError(t, err)
		require.Len(t, info.Members, 20)
		require.Equal(t, Consumer, info.Type)
		// the other members time out, too, and the last of them form a classic group
		time.Sleep(2 * time.Minute)
		info, err = c.Group(t.Context(), "g")
		require.NoError(t, err)
		require.Empty(t, info.Members)
	})
}
