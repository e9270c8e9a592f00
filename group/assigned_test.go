package group

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/group/offsets"
	"github.com/stratalog/strata/record"
)

// Checklist row N22.
func TestOffsetsOfGroupsThatAreAssignedGoWithWhatReadsThem(t *testing.T) {
	kinds := map[string]func(t *testing.T, c *Coordinator, epoch int32, topics ...string) int32{
		"consumer": func(t *testing.T, c *Coordinator, epoch int32, topics ...string) int32 {
			r := ConsumerHeartbeatRequest{Group: "g", MemberID: "m", MemberEpoch: epoch, RebalanceTimeout: -1}
			if epoch == 0 {
				r.RebalanceTimeout, r.SubscribedTopics, r.Owned = time.Minute, topics, []offsets.TopicIDPartitions{}
			}
			resp, err := c.ConsumerHeartbeat(t.Context(), r)
			require.NoError(t, err)
			return resp.MemberEpoch
		},
		"streams": func(t *testing.T, c *Coordinator, epoch int32, topics ...string) int32 {
			r := streamsBeat("m", epoch, nil)
			if epoch == 0 {
				r = streamsJoin("m", topics...)
			}
			resp, err := c.StreamsHeartbeat(t.Context(), r)
			require.NoError(t, err)
			return resp.MemberEpoch
		},
	}
	cfg := atOnce
	cfg.OffsetsRetention = time.Hour
	read, left := record.TopicPartition{Topic: "t"}, record.TopicPartition{Topic: "u"}
	for kind, beat := range kinds {
		t.Run(kind, func(t *testing.T) {
			inBubble(t, newFakeStore(map[string]int32{"t": 1, "u": 1}), cfg, func(t *testing.T, c *Coordinator) {
				commit(t, c, commitOf("g", record.Offsets{read: 1, left: 2}))
				epoch := beat(t, c, 0, "t")
				live := func(long time.Duration) {
					for end := time.Now().Add(long); time.Now().Before(end); time.Sleep(7 * time.Second) {
						epoch = beat(t, c, epoch)
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

				beat(t, c, 0, "t")
				beat(t, c, -1)
				require.Empty(t, stored())
				require.NoError(t, c.DeleteGroup(t.Context(), "g"))
				require.ErrorIs(t, c.DeleteGroup(t.Context(), "g"), ErrGroupNotFound)
			})
		})
	}
}
