package consumer_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/consumer"
	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/internal/wired"
	"github.com/stratalog/strata/replication"
	"github.com/stratalog/strata/topic"
)

// following runs Follow on a goroutine. It returns the records as they arrive, and Follow's error
// at the end.
func following(t *testing.T, c *strata.Cluster, cfg consumer.ReadConfig) (records chan string, stop context.CancelFunc, ended chan error) {
	ctx, stop := context.WithCancel(t.Context())
	records, ended = make(chan string, 1000), make(chan error, 1)
	b := over(t, c)
	var done sync.WaitGroup
	done.Go(func() {
		var failed error
		for r, err := range consumer.Follow(ctx, b, cfg) {
			if err != nil {
				failed = errors.Join(failed, err)
				continue
			}
			records <- fmt.Sprintf("%d:%s", r.Partition, r.Value)
		}
		ended <- failed
	})
	t.Cleanup(func() {
		stop()
		done.Wait()
	})
	return records, stop, ended
}

func drain(records chan string) (got []string) {
	synctest.Wait()
	for len(records) > 0 {
		got = append(got, <-records)
	}
	return got
}

func TestFollowGoesOnWithRecordsAndPartitionsToCome(t *testing.T) {
	bubble(t, 1, func(t *testing.T, c *strata.Cluster) {
		fill(t, c, 0, 2)
		records, stop, ended := following(t, c, consumer.ReadConfig{Topic: "t"})
		require.Equal(t, []string{"0:0", "0:1"}, drain(records))
		fill(t, c, 0, 1)
		require.Equal(t, []string{"0:0"}, drain(records), "without time passing")
		require.NoError(t, c.CreateTopic(t.Context(), "another", topic.Config{Partitions: 1}))
		require.NoError(t, c.AddPartitions(t.Context(), "t", 3))
		fill(t, c, 2, 2)
		wired.Settle(t)
		require.Equal(t, []string{"2:0", "2:1"}, drain(records), "from their first record")
		time.Sleep(3 * time.Hour)
		fill(t, c, 1, 1)
		fill(t, c, 0, 1)
		require.ElementsMatch(t, []string{"0:0", "1:0"}, drain(records))
		stop()
		require.NoError(t, <-ended, "a context that ends is no error")
	})
}

func TestFollowOfChosenPartitionsStaysWithThem(t *testing.T) {
	bubble(t, 2, func(t *testing.T, c *strata.Cluster) {
		fill(t, c, 1, 1)
		records, _, _ := following(t, c, consumer.ReadConfig{Topic: "t", Partitions: []int32{0}, From: consumer.Latest()})
		none, stop, ended := following(t, c, consumer.ReadConfig{Topic: "t", Partitions: []int32{}})
		require.Empty(t, drain(records))
		require.NoError(t, c.AddPartitions(t.Context(), "t", 3))
		fill(t, c, 2, 1)
		fill(t, c, 1, 1)
		fill(t, c, 0, 1)
		require.Equal(t, []string{"0:0"}, drain(records))
		require.Empty(t, drain(none))
		stop()
		require.NoError(t, <-ended)
	})
}

func TestFollowEndsWithTheCluster(t *testing.T) {
	wired.InProcess(t, "a cluster that is closed looks unreachable")
	synctest.Test(t, func(t *testing.T) {
		c, err := strata.Open(strata.Config{})
		require.NoError(t, err)
		require.NoError(t, c.CreateTopic(t.Context(), "t", topic.Config{Partitions: 1}))
		_, _, ended := following(t, c, consumer.ReadConfig{Topic: "t"})
		synctest.Wait()
		require.NoError(t, c.Close())
		require.ErrorIs(t, <-ended, replication.ErrClosed)
	})
}
