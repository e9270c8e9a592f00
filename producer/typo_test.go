package producer_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/internal/wired"
	"github.com/stratalog/strata/producer"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/remote"
	"github.com/stratalog/strata/replication"
	"github.com/stratalog/strata/topic"
)

func TestRecordForAMistypedTopicFailsAtOnceAndNamesTheNearest(t *testing.T) {
	wired.InProcess(t, "a client knows the names only of topics in use, and asks again for a topic that brokers may not have yet")
	inBubble(t, 4, producer.Config{}, func(t *testing.T, c *strata.Cluster, p *producer.Producer) {
		require.NoError(t, c.CreateTopic(t.Context(), "orders", topic.Config{}))
		begun := time.Now()
		check := func(err error) {
			t.Helper()
			var unknown *replication.UnknownTopicError
			require.ErrorAs(t, err, &unknown)
			require.Equal(t, "orders", unknown.Nearest)
			require.ErrorIs(t, err, producer.ErrUnknownTopic)
			require.NotErrorIs(t, err, producer.ErrTimeout)
			require.ErrorContains(t, err, `"ordres" (did you mean "orders"?)`)
		}
		acks, err := p.Send(t.Context(), record.String("a", "k", "v"), record.String("ordres", "k", "v"), record.String("a", "k", "v"))
		check(err)
		check(acks[1].Err)
		require.NoError(t, acks[0].Err, "the others are sent")
		require.NoError(t, acks[2].Err)
		told := false
		p.SendAsync(t.Context(), record.String("ordres", "k", "v"), func(_ record.Record, err error) { told = true; check(err) })
		require.True(t, told)

		_, err = p.Send(t.Context(), record.String("a", "k", "v").To(4))
		require.ErrorIs(t, err, producer.ErrUnknownTopic, "there are 0 to 3")
		require.NotErrorIs(t, err, producer.ErrTimeout)
		require.Equal(t, begun, time.Now())
		require.Equal(t, int64(3), p.Stats().Refused)

		for range 50 { // topics and partitions are visible at once
			require.NoError(t, c.CreateTopic(t.Context(), "ordres", topic.Config{}))
			_, err = p.Send(t.Context(), record.String("ordres", "k", "v"))
			require.NoError(t, err)
			require.NoError(t, c.AddPartitions(t.Context(), "ordres", 2))
			_, err = p.Send(t.Context(), record.String("ordres", "k", "v").To(1))
			require.NoError(t, err)
			require.NoError(t, c.DeleteTopic(t.Context(), "ordres"))
			_, err = p.Send(t.Context(), record.String("ordres", "k", "v"))
			check(err)
		}
		require.Equal(t, begun, time.Now())
	})
}

func TestRecordForATopicThatMayComeLaterIsWrittenWhenItIsThere(t *testing.T) {
	inBubble(t, 1, producer.Config{AllowUnknownTopics: true}, func(t *testing.T, c *strata.Cluster, p *producer.Producer) {
		begun := time.Now()
		time.AfterFunc(time.Second, func() { require.NoError(t, c.CreateTopic(t.Context(), "later", topic.Config{})) })
		_, err := p.Send(t.Context(), record.String("later", "k", "v"))
		require.NoError(t, err)
		time.AfterFunc(time.Second, func() { require.NoError(t, c.AddPartitions(t.Context(), "later", 2)) })
		_, err = p.Send(t.Context(), record.String("later", "k", "v").To(1))
		require.NoError(t, err)
		if wired.On(t) {
			require.LessOrEqual(t, time.Since(begun), 2*(remote.DefaultMetadataMaxAge+time.Second))
		} else {
			require.Equal(t, 2*time.Second, time.Since(begun))
		}
		synctest.Wait()
	})
}
