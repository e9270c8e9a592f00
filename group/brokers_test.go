package group

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/group/assignor"
	"github.com/stratalog/strata/record"
)

// requests returns one request of each kind for a group.
func requests(c *Coordinator, group string) map[string]func() error {
	tp := record.TopicPartition{Topic: "t"}
	return map[string]func() error{
		"join": func() error {
			_, err := c.Join(ctx, JoinRequest{Group: group, ProtocolType: "consumer", SessionTimeout: 10 * time.Second, Protocols: []assignor.Protocol{{Name: "range"}}})
			return err
		},
		"sync":      func() error { _, err := c.Sync(ctx, SyncRequest{Group: group, MemberID: "m"}); return err },
		"heartbeat": func() error { return c.Heartbeat(ctx, HeartbeatRequest{Group: group, MemberID: "m"}) },
		"leave": func() error {
			_, err := c.Leave(ctx, LeaveRequest{Group: group, Members: []LeaveMember{{MemberID: "m"}}})
			return err
		},
		"commit":         func() error { _, err := c.CommitOffsets(ctx, commitOf(group, record.Offsets{tp: 1})); return err },
		"fetch":          func() error { _, err := c.FetchOffsets(ctx, group, nil); return err },
		"describe":       func() error { _, err := c.Describe(ctx, group); return err },
		"group":          func() error { _, err := c.Group(ctx, group); return err },
		"reset":          func() error { return c.ResetOffsets(ctx, group, record.Offsets{tp: 1}) },
		"rewind":         func() error { _, err := c.RewindGroup(ctx, group, ToEarliest(), tp); return err },
		"delete":         func() error { return c.DeleteGroup(ctx, group) },
		"delete offsets": func() error { _, err := c.DeleteOffsets(ctx, group, tp); return err },
	}
}

// Group g is in partition 3 of the offsets topic, my-group in 12, console-consumer in 40.
func TestBrokerAnswersForTheGroupsThatItCoordinates(t *testing.T) {
	store := newFakeStore(map[string]int32{"t": 1})
	store.leaders = map[int32]leader{12: {2, 1}, 40: {-1, 1}}
	inBubble(t, store, Config{OffsetsPartitions: 50}, func(t *testing.T, c *Coordinator) {
		tp := record.TopicPartition{Topic: "t"}
		for name, request := range requests(c.On(1), "g") {
			require.ErrorIs(t, request(), ErrNotCoordinator, "%s before there is an offsets topic", name)
		}
		require.Empty(t, store.logs, "only FindCoordinator makes it")
		for group, want := range map[string]int32{"g": 1, "my-group": 2} {
			broker, err := c.On(3).FindCoordinator(ctx, group)
			require.NoError(t, err)
			require.Equal(t, want, broker, group)
			commit(t, c.On(want), commitOf(group, record.Offsets{tp: 7}))
			commit(t, c, commitOf(group, record.Offsets{tp: 8}))
			require.EqualValues(t, 8, committed(t, c.On(want), group, tp))
		}
		_, err := c.FindCoordinator(ctx, "console-consumer")
		require.ErrorIs(t, err, ErrCoordinatorNotAvailable)

		var written []int
		for _, l := range store.logs {
			written = append(written, len(l.data))
		}
		for _, elsewhere := range []struct {
			broker int32
			group  string
		}{{2, "g"}, {3, "g"}, {1, "my-group"}, {1, "console-consumer"}, {2, "console-consumer"}} {
			for name, request := range requests(c.On(elsewhere.broker), elsewhere.group) {
				require.ErrorIs(t, request(), ErrNotCoordinator, "%s of %s at broker %d", name, elsewhere.group, elsewhere.broker)
			}
		}
		for p, l := range store.logs {
			require.Len(t, l.data, written[p], "what is refused changes nothing")
		}
		for broker, want := range map[int32][]string{1: {"g"}, 2: {"my-group"}, 3: nil} {
			var ids, lags []string
			infos, err := c.On(broker).Groups(ctx)
			require.NoError(t, err)
			for _, i := range infos {
				ids = append(ids, i.ID)
			}
			require.Equal(t, want, ids)
			ls, err := c.On(broker).Lags(ctx)
			require.NoError(t, err)
			for _, l := range ls {
				lags = append(lags, l.Group)
			}
			require.Equal(t, want, lags)
		}
	})
}
