package group

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata/internal/offsets"
	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/record"
)

// byPattern returns the heartbeat of a member that joins a group by an expression.
func byPattern(expr string, describes func(string) bool) ConsumerHeartbeatRequest {
	return ConsumerHeartbeatRequest{Group: "g", MemberID: "m", RebalanceTimeout: time.Minute, SubscribedRegex: &expr, Describes: describes, Owned: []offsets.TopicIDPartitions{}}
}

// The expression of a member takes long, since its check of rights does. Another group has its
// state in the same partition.
func TestMatchingAnExpressionHoldsUpNoOtherGroup(t *testing.T) {
	inBubble(t, newFakeStore(map[string]int32{"t": 1, "u": 1}), Config{OffsetsPartitions: 1}, func(t *testing.T, c *Coordinator) {
		long, joined := make(chan struct{}), make(chan ConsumerHeartbeatResponse, 1)
		go func() {
			resp, err := c.ConsumerHeartbeat(t.Context(), byPattern("t|u", func(name string) bool { <-long; return name == "t" }))
			if err != nil {
				t.Error(err)
			}
			joined <- resp
		}()
		synctest.Wait()
		_, err := c.CommitOffsets(t.Context(), CommitRequest{Group: "other", Generation: -1, Offsets: map[record.TopicPartition]record.Committed{{Topic: "t"}: {Offset: 1}}})
		require.NoError(t, err)
		_, err = c.ConsumerHeartbeat(t.Context(), ConsumerHeartbeatRequest{Group: "g", MemberID: "n", RebalanceTimeout: time.Minute, SubscribedTopics: []string{"u"}, Owned: []offsets.TopicIDPartitions{}})
		require.NoError(t, err, "nor the members of that group")
		require.Empty(t, joined)
		close(long)
		require.Equal(t, "m", (<-joined).MemberID)
	})
}

// The test counts the checks of rights. Every topic is checked, whether or not the expression
// matches, and again only if topics change.
func TestExpressionsAreMatchedOnceWithTheNamesThatMayBeDescribed(t *testing.T) {
	store := newFakeStore(map[string]int32{"t": 1, "u": 1, "v": 1})
	inBubble(t, store, Config{}, func(t *testing.T, c *Coordinator) {
		asked := 0
		r := byPattern("t", func(string) bool { asked++; return true })
		beat := func() {
			resp, err := c.ConsumerHeartbeat(t.Context(), r)
			require.NoError(t, err)
			r.MemberEpoch = resp.MemberEpoch
		}
		beat()
		require.Equal(t, 3, asked)
		r.Owned = nil
		beat()
		require.Equal(t, 3, asked)
		store.set("w", TopicInfo{ID: [16]byte{9}, Partitions: 1})
		synctest.Wait()
		time.Sleep(time.Second) // for the watcher, which pauses between reads
		beat()
		require.Equal(t, 7, asked)
		beat()
		require.Equal(t, 7, asked)
	})
}

func TestMatchingEndsWithItsRequest(t *testing.T) {
	inBubble(t, newFakeStore(map[string]int32{"t": 1, "u": 1, "v": 1}), Config{}, func(t *testing.T, c *Coordinator) {
		ctx, cancel := context.WithCancel(t.Context())
		var asked []string
		_, err := c.ConsumerHeartbeat(ctx, byPattern(".*", func(name string) bool { cancel(); asked = append(asked, name); return true }))
		require.ErrorIs(t, err, context.Canceled)
		require.Equal(t, []string{"t"}, asked)
	})
}

func TestExpressionsAreBounded(t *testing.T) {
	inBubble(t, newFakeStore(map[string]int32{"t": 1}), Config{}, func(t *testing.T, c *Coordinator) {
		for expr, why := range map[string]string{
			strings.Repeat("(a|b)*", 5400) + "c": "expression too large",
			"(abcdefghijklmnop){1000}":           "expression too large",
			strings.Repeat("a", 60_001):          "expression too large",
			"a)(b":                               "unexpected )",
		} {
			_, err := c.ConsumerHeartbeat(t.Context(), byPattern(expr, nil))
			require.ErrorIs(t, err, ErrInvalidRegularExpression)
			require.ErrorContains(t, err, ": SubscribedTopicRegex `"+expr+"` is not a valid regular expression: "+why+".")
		}
		_, err := c.DescribeConsumerGroup(t.Context(), "g")
		require.ErrorIs(t, err, ErrGroupNotFound)
		_, err = c.ConsumerHeartbeat(t.Context(), byPattern(strings.Repeat("a-topic-of-a-team|", 90)+"t", nil))
		require.NoError(t, err)
	})
}
