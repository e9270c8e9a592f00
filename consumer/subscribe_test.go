package consumer_test

import (
	"context"
	"regexp"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/consumer"
	"github.com/stratalog/strata/internal/wired"
	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/replication"
	"github.com/stratalog/strata/topic"
)

func TestUnknownTopicFailsAtOnceAndNamesTheNearest(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *strata.Cluster) {
		require.NoError(t, b.CreateTopic(t.Context(), "orders", topic.Config{Partitions: 1}))
		typo := record.TopicPartition{Topic: "ordesr"}
		for name, cfg := range map[string]consumer.Config{
			"topics": {Topics: []string{"t", "ordesr"}}, "group": {Group: "g", Topics: []string{"ordesr"}}, "assigned": {Assign: record.Offsets{typo: 0}},
		} {
			_, err := consumer.New(over(t, b), cfg)
			require.ErrorIs(t, err, consumer.ErrUnknownTopic, name)
			var unknown *replication.UnknownTopicError
			require.ErrorAs(t, err, &unknown)
			if wired.On(t) {
				continue // a broker's response has no names of other topics
			}
			require.Equal(t, "orders", unknown.Nearest)
			require.Contains(t, err.Error(), `"orders"`)
		}
		_, err := consumer.New(over(t, b), consumer.Config{Assign: record.Offsets{tp(7): 0}})
		require.ErrorIs(t, err, consumer.ErrUnknownTopic)
		_, err = consumer.New(over(t, b), consumer.Config{Topics: []string{"no/such/name"}, AllowUnknownTopics: true})
		require.ErrorIs(t, err, topic.ErrInvalidName, "such a topic cannot come later")
		groups, err := b.Groups(t.Context())
		require.NoError(t, err)
		require.Empty(t, groups)
	})
}

// taciturn is a cluster that answers no ListOffsets until tell is closed.
type taciturn struct {
	*strata.Cluster
	tell chan struct{}
}

func (l *taciturn) ListOffsets(ctx context.Context, at map[record.TopicPartition]partition.OffsetSpec, iso partition.Isolation) (map[record.TopicPartition]partition.OffsetResult, error) {
	select {
	case <-l.tell:
		return l.Cluster.ListOffsets(ctx, at, iso)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// The consumer gets its start offset when the topic has records already.
func TestTopicThatMayComeLaterIsReadFromItsFirstRecord(t *testing.T) {
	later := record.TopicPartition{Topic: "later"}
	for name, cfg := range map[string]consumer.Config{
		"topics": {Topics: []string{"t", "later"}}, "group": {Group: "g", Topics: []string{"later"}}, "assigned": {Assign: record.Offsets{later: 0}},
		"latest": {Group: "g", Topics: []string{"later"}, Reset: consumer.Latest()}, "pattern": {TopicPattern: regexp.MustCompile("t|late.?")},
		"pattern of a group": {Group: "g", TopicPattern: regexp.MustCompile("late.?"), Reset: consumer.Latest()},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, 1, func(t *testing.T, b *strata.Cluster) {
				cfg.AllowUnknownTopics = true
				var mu sync.Mutex
				var got []string
				slow := &taciturn{Cluster: b, tell: make(chan struct{})}
				m := poll(t, open(t, slow, cfg), func(r record.Record) {
					mu.Lock()
					defer mu.Unlock()
					got = append(got, r.Topic+string(r.Value))
				})
				time.Sleep(20 * time.Second)
				// the pattern must match the whole name
				for _, name := range []string{"later", "later-still"} {
					require.NoError(t, b.CreateTopic(t.Context(), name, topic.Config{Partitions: 1}))
				}
				sendTo(t, b, "later", "a", "b")
				sendTo(t, b, "later-still", "x")
				close(slow.tell)
				time.Sleep(20 * time.Second)
				mu.Lock()
				require.Equal(t, []string{"latera", "laterb"}, got)
				mu.Unlock()
				m.leave(t)
			})
		})
	}
}

func TestSubscribeChangesTheTopicsOfALiveConsumer(t *testing.T) {
	for _, g := range []string{"", "g"} {
		t.Run(g, func(t *testing.T) {
			bubble(t, 1, func(t *testing.T, b *strata.Cluster) {
				require.NoError(t, b.CreateTopic(t.Context(), "u", topic.Config{Partitions: 1}))
				fill(t, b, 0, 3)
				sendTo(t, b, "u", "x")
				var mu sync.Mutex
				var got []string
				m := poll(t, open(t, b, consumer.Config{Group: g, Topics: []string{"t"}}), func(r record.Record) {
					mu.Lock()
					defer mu.Unlock()
					got = append(got, r.Topic+string(r.Value))
				})
				time.Sleep(20 * time.Second)
				require.NoError(t, m.Subscribe(t.Context(), "t", "u"))
				time.Sleep(20 * time.Second)
				require.Equal(t, []record.TopicPartition{tp(0), {Topic: "u"}}, m.Assignment())
				require.NoError(t, m.Subscribe(t.Context(), "u"))
				time.Sleep(20 * time.Second)
				require.Equal(t, []record.TopicPartition{{Topic: "u"}}, m.Assignment())
				fill(t, b, 0, 1)
				sendTo(t, b, "u", "y")
				time.Sleep(20 * time.Second)
				mu.Lock()
				require.Equal(t, []string{"t0", "t1", "t2", "ux", "uy"}, got, "the topic that stays goes on, the other one is left alone")
				mu.Unlock()
				require.ErrorIs(t, m.Subscribe(t.Context(), "nothing-like-it"), consumer.ErrUnknownTopic)
				require.Equal(t, []record.TopicPartition{{Topic: "u"}}, m.Assignment())
				m.leave(t)
				require.ErrorIs(t, m.Subscribe(t.Context(), "t"), consumer.ErrClosed)
				if g != "" {
					require.Equal(t, int64(3), committed(t, b, g)[tp(0)], "committed before it was given up")
				}
			})
		})
	}
	bubble(t, 1, func(t *testing.T, b *strata.Cluster) {
		c := open(t, b, consumer.Config{Assign: record.Offsets{tp(0): 0}})
		var ce *consumer.ConfigError
		require.ErrorAs(t, c.Subscribe(t.Context(), "t"), &ce)
		require.NoError(t, c.Close())
	})
}

func TestMembersWithOtherTopicsGetOnlyTheirs(t *testing.T) {
	bubble(t, 4, func(t *testing.T, b *strata.Cluster) {
		require.NoError(t, b.CreateTopic(t.Context(), "u", topic.Config{Partitions: 4}))
		m1 := poll(t, open(t, b, consumer.Config{Group: "g", Topics: []string{"t"}}), nil)
		m2 := poll(t, open(t, b, consumer.Config{Group: "g", TopicPattern: regexp.MustCompile("u")}), nil)
		time.Sleep(time.Minute)
		require.Len(t, m1.Assignment(), 4)
		for _, tp := range m2.Assignment() {
			require.Equal(t, "u", tp.Topic)
		}
		require.Len(t, m2.Assignment(), 4)
		m1.leave(t)
		m2.leave(t)
	})
}
