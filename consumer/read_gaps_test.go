package consumer_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/consumer"
	"github.com/stratalog/strata/internal/wired"
	"github.com/stratalog/strata/partition"
	"github.com/stratalog/strata/producer"
	"github.com/stratalog/strata/record"
	"github.com/stratalog/strata/topic"
)

// Compaction leaves gaps in offsets, at the end of the cleaned range and elsewhere.
func TestReadGoesOverWhatCompactionRemoved(t *testing.T) {
	bubble(t, 1, func(t *testing.T, c *strata.Cluster) {
		require.NoError(t, c.CreateTopic(t.Context(), "latest", topic.Config{Partitions: 1, Properties: map[string]string{
			"cleanup.policy": "compact", "segment.bytes": "1048576", "min.cleanable.dirty.ratio": "0", "segment.ms": "60000",
		}}))
		pr, err := producer.New(c, producer.Config{})
		require.NoError(t, err)
		for i := range 30 {
			_, err := pr.Send(t.Context(), record.String("latest", fmt.Sprint(i%3), fmt.Sprint(i)))
			require.NoError(t, err)
		}
		time.Sleep(2 * time.Minute)
		_, err = pr.Send(t.Context(), record.String("latest", "x", "last")) // rolls the segment
		require.NoError(t, err)
		require.NoError(t, pr.Close())
		_, err = c.Clean(t.Context())
		require.NoError(t, err)
		got := places(t, c, consumer.ReadConfig{Topic: "latest"})
		require.Less(t, len(got), 10, "it was compacted")
		require.Equal(t, []string{"0:27", "0:28", "0:29", "0:last"}, got)
	})
}

// hole is a backend whose log has no records from offset from to its end.
type hole struct {
	*strata.Cluster
	from int64
}

func (h *hole) Fetch(ctx context.Context, req *partition.FetchRequest) (*partition.FetchResponse, error) {
	resp, err := h.Cluster.Fetch(ctx, req)
	for i := range req.Partitions {
		if err == nil && req.Partitions[i].Offset >= h.from {
			resp.Partitions[i].Bytes = nil
		}
	}
	return resp, err
}

func TestReadEndsAtAGapBeforeTheEnd(t *testing.T) {
	bubble(t, 2, func(t *testing.T, c *strata.Cluster) {
		for range 4 {
			fill(t, c, 0, 1) // four batches
		}
		got := places(t, &hole{c, 2}, consumer.ReadConfig{Topic: "t", MaxBytes: 1})
		require.Equal(t, []string{"0:0", "0:0"}, got)
	})
}

func TestReadGoesOnBehindRecordsThatAreDeletedMeanwhile(t *testing.T) {
	bubble(t, 1, func(t *testing.T, c *strata.Cluster) {
		for range 10 {
			fill(t, c, 0, 1)
		}
		var got []int64
		for r, err := range consumer.Read(t.Context(), over(t, c), consumer.ReadConfig{Topic: "t", MaxBytes: 1}) {
			require.NoError(t, err)
			if got = append(got, r.Offset); len(got) == 2 {
				_, err := c.DeleteRecords(t.Context(), map[record.TopicPartition]int64{tp(0): 7})
				require.NoError(t, err)
			}
		}
		if wired.On(t) { // the next batch may have been fetched ahead
			got = slices.DeleteFunc(got, func(offset int64) bool { return offset == 2 })
		}
		require.Equal(t, []int64{0, 1, 7, 8, 9}, got)
		got = nil
		for r, err := range consumer.Read(t.Context(), over(t, c), consumer.ReadConfig{Topic: "t", MaxBytes: 1}) {
			require.NoError(t, err)
			got = append(got, r.Offset)
			// deletes all records
			_, err := c.DeleteRecords(t.Context(), map[record.TopicPartition]int64{tp(0): -1})
			require.NoError(t, err)
			fill(t, c, 0, 1) // not read: the record was added later
		}
		if wired.On(t) {
			got = slices.DeleteFunc(got, func(offset int64) bool { return offset == 8 })
		}
		require.Equal(t, []int64{7}, got)
	})
}

func TestReadAndFollowEndWithATopicThatIsDeleted(t *testing.T) {
	for _, again := range []bool{false, true} {
		for name, read := range map[string]func(context.Context, consumer.LogBackend, consumer.ReadConfig) func(func(record.Record, error) bool){
			"read": func(ctx context.Context, b consumer.LogBackend, cfg consumer.ReadConfig) func(func(record.Record, error) bool) {
				return consumer.Read(ctx, b, cfg)
			},
			"follow": func(ctx context.Context, b consumer.LogBackend, cfg consumer.ReadConfig) func(func(record.Record, error) bool) {
				return consumer.Follow(ctx, b, cfg)
			},
		} {
			t.Run(fmt.Sprintf("%s, again: %t", name, again), func(t *testing.T) {
				bubble(t, 1, func(t *testing.T, c *strata.Cluster) {
					for range 4 {
						fill(t, c, 0, 1)
					}
					var values []string
					var failed error
					for r, err := range read(t.Context(), over(t, c), consumer.ReadConfig{Topic: "t", MaxBytes: 1}) {
						if err != nil {
							require.NoError(t, failed, "it is the last one")
							failed = err
							continue
						}
						if values = append(values, string(r.Value)); len(values) == 2 {
							require.NoError(t, c.DeleteTopic(t.Context(), "t"))
							if again {
								require.NoError(t, c.CreateTopic(t.Context(), "t", topic.Config{Partitions: 1}))
								fill(t, c, 0, 20)
							}
						}
					}
					require.ErrorIs(t, failed, consumer.ErrTopicReplaced)
					want := []string{"0", "0"}
					if wired.On(t) { // records of the former topic may have been fetched ahead
						want, values = want[:1], slices.Compact(values)
					}
					require.Equal(t, want, values, "nothing of the new topic")
				})
			})
		}
	}
}
