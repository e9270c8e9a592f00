package systest

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/consumer"
	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/producer"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/replication"
	"github.com/stratalog/strata/topic"
)

// unknowing returns a cluster whose topic "t" is led by broker 2. Its two records were
// acknowledged by the previous leader, but broker 2 does not know the high watermark until broker
// 3 fetches. mend restores the path from broker 3.
func unknowing(t *testing.T) (c *strata.Cluster, mend func()) {
	t.Helper()
	cfg, _ := lossy()
	c, err := strata.Open(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	b := c.Backend()
	require.NoError(t, b.CreateTopic(t.Context(), "t", topic.Config{Assignment: [][]int32{{1, 2, 3}}, MinInSyncReplicas: 2}))
	tp := record.TopicPartition{Topic: "t"}
	send := func(value string) {
		t.Helper()
		done := make(chan partition.ProduceResult, 1)
		var batch record.Builder
		batch.Reset(0)
		batch.AppendKV(time.Now().UnixMilli(), nil, []byte(value), nil)
		p, err := batch.Build(record.None)
		require.NoError(t, err)
		c.Produce(&partition.ProduceRequest{TopicPartition: tp, Batch: p, Acks: record.AcksLeader, Done: func(r partition.ProduceResult) { done <- r }})
		require.NoError(t, (<-done).Err)
	}
	send("a")
	synctest.Wait()
	for _, to := range []int32{1, 2} {
		b.Network().Cut(replication.NetworkPath{From: 3, To: to})
	}
	send("b")
	synctest.Wait()
	require.NoError(t, b.KillBroker(1))
	require.EqualValues(t, 2, b.Leader("t", 0))
	got, err := c.ListOffsets(t.Context(), map[record.TopicPartition]partition.OffsetSpec{tp: partition.Latest}, partition.ReadUncommitted)
	require.NoError(t, err)
	require.ErrorIs(t, got[tp].Err, partition.ErrOffsetNotAvailable)
	return c, func() { b.Network().Mend(replication.NetworkPath{From: 3, To: 2}) }
}

// Readers wait until a new leader has the high watermark, and read all records without an error.
// Kafka: OFFSET_NOT_AVAILABLE, which clients retry.
func TestReadersWaitUntilTheHighWatermarkIsKnown(t *testing.T) {
	read := func(t *testing.T, c *strata.Cluster) (got []string) {
		for r, err := range consumer.Read(t.Context(), c, consumer.ReadConfig{Topic: "t"}) {
			require.NoError(t, err)
			got = append(got, string(r.Value))
		}
		return got
	}
	for name, look := range map[string]func(t *testing.T, c *strata.Cluster){
		"read": func(t *testing.T, c *strata.Cluster) { require.Equal(t, []string{"a", "b"}, read(t, c)) },
		"offsets": func(t *testing.T, c *strata.Cluster) {
			ends, err := c.Offsets(t.Context(), "t", strata.Latest)
			require.NoError(t, err)
			require.Equal(t, record.Offsets{{Topic: "t"}: 2}, ends)
		},
		"consumer at the end": func(t *testing.T, c *strata.Cluster) {
			co, err := consumer.New(c, consumer.Config{Assign: record.Offsets{{Topic: "t"}: consumer.StartLatest}})
			require.NoError(t, err)
			defer func() { require.NoError(t, co.Close()) }()
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
			defer cancel()
			for r, err := range co.Records(ctx) {
				require.ErrorIs(t, err, context.DeadlineExceeded, "%v", r)
			}
			require.EqualValues(t, 2, co.Position(record.TopicPartition{Topic: "t"}))
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, mend := unknowing(t)
				time.AfterFunc(2*time.Second, mend)
				begin := time.Now()
				look(t, c)
				require.GreaterOrEqual(t, time.Since(begin), 2*time.Second)
			})
		})
	}
}

func TestContextEndsTheWaitForTheHighWatermark(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := unknowing(t)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := c.Offsets(ctx, "t", strata.Latest)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		for _, err = range consumer.Read(ctx, c, consumer.ReadConfig{Topic: "t"}) {
		}
		require.ErrorIs(t, err, context.DeadlineExceeded)
	})
}

// A consumer whose position is beyond a new leader's high watermark keeps it. It resets neither to
// the start nor to the end: the next record is there, or will be.
func TestConsumerKeepsItsPlaceWhileALeaderIsBehind(t *testing.T) {
	for name, reset := range map[string]consumer.Reset{"earliest": consumer.Earliest(), "latest": consumer.Latest()} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, mend := unknowing(t)
				tp := record.TopicPartition{Topic: "t"}
				require.EqualValues(t, 1, c.Backend().Status("t", 0).HighWatermark)
				co, err := consumer.New(c, consumer.Config{Assign: record.Offsets{tp: 2}, Reset: reset})
				require.NoError(t, err)
				defer func() { require.NoError(t, co.Close()) }()
				time.AfterFunc(5*time.Second, func() {
					require.EqualValues(t, 2, co.Position(tp))
					mend()
				})
				time.AfterFunc(10*time.Second, func() {
					p, err := producer.New(c, producer.Config{})
					require.NoError(t, err)
					for _, v := range []string{"c", "d"} {
						p.SendAsync(t.Context(), record.String("t", "", v), nil)
					}
					require.NoError(t, p.Close())
				})
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				var got []string
				for r, err := range co.Records(ctx) {
					if err != nil {
						require.ErrorIs(t, err, context.DeadlineExceeded)
						break
					}
					got = append(got, string(r.Value))
				}
				require.Equal(t, []string{"c", "d"}, got)
			})
		})
	}
}
