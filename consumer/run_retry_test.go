package consumer_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/consumer"
	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/producer"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/topic"
)

// retrying runs handlers over "t" and two retry topics.
func retrying(p *producer.Producer, more consumer.RunConfig) consumer.RunConfig {
	more.RetryTopics = &consumer.RetryTopics{Producer: p, Stages: []consumer.RetryStage{{"t-10s", 10 * time.Second}, {"t-5m", 5 * time.Minute}}}
	return more
}

func retryTopics(t *testing.T, b *strata.Cluster) *producer.Producer {
	t.Helper()
	p := deadTopic(t, b)
	require.NoError(t, b.CreateTopic(t.Context(), "t-10s", topic.Config{Partitions: 2}))
	require.NoError(t, b.CreateTopic(t.Context(), "t-5m", topic.Config{Partitions: 1}))
	return p
}

// One record of a key fails. The records behind it are processed at once, also those of its key.
// The failed record is read again when due, and finally goes to the dead letter topic with its
// history.
func TestARecordWaitsInRetryTopicsWhileThoseBehindItGoOn(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *strata.Cluster) {
		p := retryTopics(t, b)
		sent := time.Now().Add(-24 * time.Hour)
		r := record.Record{Topic: "t", Key: []byte("k"), Value: []byte("bad"), Timestamp: sent, Headers: []record.Header{{Key: "own", Value: []byte("1")}}}
		_, err := p.Send(t.Context(), r, record.String("t", "k", "good"))
		require.NoError(t, err)
		cfg := config(consumer.CommitProcessed)
		cfg.Topics = []string{"t", "t-10s", "t-5m"}
		c := open(t, b, cfg)
		start := time.Now()
		var calls []string
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		err = c.Run(ctx, func(ctx context.Context, r record.Record) error {
			calls = append(calls, fmt.Sprintf("%s %s #%d %s", r.Value, r.Topic, consumer.Attempt(ctx), time.Since(start).Truncate(time.Second)))
			require.Equal(t, "k", string(r.Key))
			if string(r.Value) == "bad" {
				require.Equal(t, "1", header(t, r, "own"))
				require.Equal(t, sent.UnixMilli(), r.Timestamp.UnixMilli())
				from, offset, _ := consumer.Origin(r)
				require.Equal(t, tp(0), from)
				require.Zero(t, offset)
				return errors.New("no luck")
			}
			return nil
		}, retrying(p, consumer.RunConfig{Retries: 1, MinBackoff: time.Second, MaxBackoff: time.Second, DeadLetter: consumer.DeadLetterTopic(p, "dead")}))
		require.NoError(t, err)
		require.Len(t, calls, 7)
		require.Equal(t, "bad t #1 0s", calls[0])
		require.Regexp(t, `^bad t #2 [01]s$`, calls[1])
		require.Regexp(t, `^good t #1 [01]s$`, calls[2])
		require.Regexp(t, `^bad t-10s #3 1[01]s$`, calls[3])
		require.Regexp(t, `^bad t-5m #5 5m1[0-3]s$`, calls[5])
		require.NoError(t, c.Close())
		require.Equal(t, int64(2), committed(t, b, "g")[tp(0)])

		d := read(t, open(t, b, consumer.Config{Topics: []string{"dead"}}), 1)[0]
		from, offset, ok := consumer.Origin(d)
		require.True(t, ok)
		require.Equal(t, tp(0), from)
		require.Zero(t, offset)
		require.Equal(t, "6", header(t, d, consumer.HeaderAttempts))
		require.Equal(t, "1", header(t, d, "own"))
		for _, h := range d.Headers {
			require.False(t, strings.HasPrefix(h.Key, "retry."), h.Key)
		}
	})
}

// A restart of the process loses neither the due time nor the number of attempts.
func TestARecordInARetryTopicSurvivesARestart(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *strata.Cluster) {
		p := retryTopics(t, b)
		keyed(t, b, "bad")
		cfg := config(consumer.CommitProcessed)
		cfg.Topics = []string{"t", "t-10s", "t-5m"}
		start := time.Now()
		var tries atomic.Int32
		var at []string
		for range 40 { // each process runs for 2 s
			c := open(t, b, cfg)
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			require.NoError(t, c.Run(ctx, func(ctx context.Context, r record.Record) error {
				tries.Add(1)
				at = append(at, strconv.Itoa(consumer.Attempt(ctx))+r.Topic)
				if tries.Load() == 2 {
					require.GreaterOrEqual(t, time.Since(start), 10*time.Second)
					require.Less(t, time.Since(start), 20*time.Second)
					return nil
				}
				return errors.New("no luck")
			}, retrying(p, consumer.RunConfig{})))
			cancel()
			require.NoError(t, c.Close())
		}
		require.Equal(t, []string{"1t", "2t-10s"}, at)
		o := committed(t, b, "g")
		require.Equal(t, int64(1), o[record.TopicPartition{Topic: "t-10s", Partition: 0}]+o[record.TopicPartition{Topic: "t-10s", Partition: 1}])
	})
}

// A long delay stands before a short one. Each record is handed out when due, and the prefix is
// committed only when the first is done.
func TestRecordsOfOneRetryTopicAreHandedOutWhenDueNotInOrder(t *testing.T) {
	bubble(t, 1, func(t *testing.T, b *strata.Cluster) {
		p := deadTopic(t, b)
		require.NoError(t, b.CreateTopic(t.Context(), "later", topic.Config{Partitions: 1}))
		due := func(v string, d time.Duration) record.Record {
			r := record.String("later", "", v)
			r.Headers = []record.Header{{Key: consumer.HeaderRetryDue, Value: strconv.AppendInt(nil, time.Now().Add(d).UnixMilli(), 10)}}
			return r
		}
		garbage := record.String("later", "", "garbage")
		garbage.Headers = []record.Header{{Key: consumer.HeaderRetryDue, Value: []byte("soon")}, {Key: consumer.HeaderRetryAttempts, Value: []byte("-7")}}
		_, err := p.Send(t.Context(), due("far", 1000*time.Hour), due("hour", time.Hour), due("minute", time.Minute), garbage, due("past", -time.Hour))
		require.NoError(t, err)
		cfg := config(consumer.CommitProcessed)
		cfg.Topics = []string{"later"}
		c := open(t, b, cfg)
		var mu sync.Mutex
		got := map[string]time.Duration{}
		start := time.Now()
		ctx, cancel := context.WithCancel(t.Context())
		ended := background(func() error {
			return c.Run(ctx, func(ctx context.Context, r record.Record) error {
				mu.Lock()
				defer mu.Unlock()
				got[string(r.Value)] = time.Since(start).Round(time.Second)
				require.Equal(t, 1, consumer.Attempt(ctx))
				return nil
			}, consumer.RunConfig{Workers: 1, RetryTopics: &consumer.RetryTopics{Producer: p, Stages: []consumer.RetryStage{{"later", 2 * time.Hour}}}})
		})
		time.Sleep(90 * time.Minute)
		synctest.Wait()
		require.Equal(t, map[string]time.Duration{"garbage": 0, "past": 0, "minute": time.Minute, "hour": time.Hour}, got)
		require.Empty(t, committed(t, b, "g"))
		time.Sleep(time.Hour)
		synctest.Wait()
		require.Equal(t, 2*time.Hour, got["far"], "no longer than the longest delay")
		cancel()
		require.NoError(t, <-ended)
		require.NoError(t, c.Close())
		require.Equal(t, int64(5), committed(t, b, "g")[record.TopicPartition{Topic: "later"}])
	})
}
