package consumer_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/consumer"
	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/record"
)

// leaderless is a cluster whose partition 0 has no leader for a while.
type leaderless struct {
	*strata.Cluster
	until, told time.Time // told: until ListOffsets finds a leader
	fetches     int
}

func (l *leaderless) Fetch(ctx context.Context, req *partition.FetchRequest) (*partition.FetchResponse, error) {
	l.fetches++
	for i := range req.Partitions {
		if req.Partitions[i].Partition == 0 && time.Now().Before(l.until) {
			resp := &partition.FetchResponse{Partitions: make([]partition.FetchedPartition, len(req.Partitions))}
			resp.Partitions[i].Err = partition.ErrNotLeader
			return resp, nil
		}
	}
	return l.Cluster.Fetch(ctx, req)
}

func (l *leaderless) ListOffsets(ctx context.Context, at map[record.TopicPartition]partition.OffsetSpec, iso partition.Isolation) (map[record.TopicPartition]partition.OffsetResult, error) {
	got, err := l.Cluster.ListOffsets(ctx, at, iso)
	if _, asked := at[tp(0)]; asked && time.Now().Before(l.told) {
		got[tp(0)] = partition.OffsetResult{Offset: -1, Err: partition.ErrNotLeader}
	}
	return got, err
}

func TestReadAndFollowWaitForALeader(t *testing.T) {
	bubble(t, 2, func(t *testing.T, c *strata.Cluster) {
		fill(t, c, 0, 2)
		fill(t, c, 1, 2)
		b := &leaderless{Cluster: c, told: time.Now().Add(3 * time.Second), until: time.Now().Add(8 * time.Second)}
		require.ElementsMatch(t, []string{"0:0", "0:1", "1:0", "1:1"}, places(t, b, consumer.ReadConfig{Topic: "t"}))
		require.Less(t, b.fetches, 40, "it does not ask again and again")

		b = &leaderless{Cluster: c, told: time.Now().Add(3 * time.Second), until: time.Now().Add(8 * time.Second)}
		at := map[int32]time.Duration{}
		start, n := time.Now(), 0
		for r, err := range consumer.Follow(t.Context(), b, consumer.ReadConfig{Topic: "t"}) {
			require.NoError(t, err)
			at[r.Partition] = time.Since(start)
			if n++; n == 4 {
				break
			}
		}
		require.Less(t, at[1], 4*time.Second, "only partition 0 waits")
		require.GreaterOrEqual(t, at[0], 8*time.Second)
	})
}

func TestReadEndsWithAnErrorWhenAPartitionStaysWithoutALeader(t *testing.T) {
	bubble(t, 1, func(t *testing.T, c *strata.Cluster) {
		fill(t, c, 0, 2)
		for _, read := range []func(context.Context, consumer.LogBackend, consumer.ReadConfig) func(func(record.Record, error) bool){
			func(ctx context.Context, b consumer.LogBackend, cfg consumer.ReadConfig) func(func(record.Record, error) bool) {
				return consumer.Read(ctx, b, cfg)
			},
			func(ctx context.Context, b consumer.LogBackend, cfg consumer.ReadConfig) func(func(record.Record, error) bool) {
				return consumer.Follow(ctx, b, cfg)
			},
		} {
			// ListOffsets fails, or only Fetch does
			for _, told := range []time.Duration{time.Hour, 0} {
				b, start := &leaderless{Cluster: c, told: time.Now().Add(told), until: time.Now().Add(time.Hour)}, time.Now()
				var got error
				for _, err := range read(t.Context(), b, consumer.ReadConfig{Topic: "t"}) {
					got = err
				}
				require.ErrorIs(t, got, partition.ErrNotLeader)
				require.ErrorAs(t, got, new(*consumer.PartitionError))
				require.InDelta(t, 10.5, time.Since(start).Seconds(), 0.5)
			}
		}
	})
}
