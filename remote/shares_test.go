package remote_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/stratalog/strata"
	"github.com/stratalog/strata/consumer"
	"github.com/stratalog/strata/internal/synctest"
	"github.com/stratalog/strata/kafka"
	"github.com/stratalog/strata/kafkatest"
	"github.com/stratalog/strata/remote"
	"github.com/stratalog/strata/replication"
)

func TestShareGroupDoesEachJobOnce(t *testing.T) {
	both(t, func(t *testing.T, c strata.Client) {
		fill(t, c, 200)
		var mu sync.Mutex
		did, workers := map[string]int{}, map[int]bool{}
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		var all sync.WaitGroup
		for n := range 3 {
			s, err := consumer.NewShare(c, consumer.ShareConfig{Group: "jobs", Topics: []string{"t"}})
			require.NoError(t, err)
			all.Go(func() {
				for r, err := range s.Records(ctx) {
					require.NoError(t, err)
					mu.Lock()
					did[string(r.Value)]++
					workers[n] = true
					if len(did) == 200 {
						stop()
					}
					mu.Unlock()
					time.Sleep(100 * time.Millisecond) // the work
				}
				require.NoError(t, s.Close())
			})
		}
		all.Wait()
		once(t, did, 200)
		require.Len(t, workers, 3)
	})
}

func TestReleasedAndRejectedRecordsOfAShareGroup(t *testing.T) {
	both(t, func(t *testing.T, c strata.Client) {
		fill(t, c, 3)
		s, err := consumer.NewShare(c, consumer.ShareConfig{Group: "jobs", Topics: []string{"t"}, Explicit: true})
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		deliveries := map[string]int{}
		for accepted := 0; accepted < 2; {
			recs, err := s.Poll(ctx)
			require.NoError(t, err)
			for _, r := range recs {
				deliveries[string(r.Value)]++
				require.Equal(t, deliveries[string(r.Value)], r.Deliveries)
				switch {
				case string(r.Value) == "0":
					require.NoError(t, s.Reject(ctx, r))
				case string(r.Value) == "1" && deliveries["1"] == 1:
					require.NoError(t, s.Release(ctx, r))
				default:
					require.NoError(t, s.Accept(ctx, r))
					accepted++
				}
			}
		}
		require.Equal(t, map[string]int{"0": 1, "1": 2, "2": 1}, deliveries)
		ends, stop := context.WithTimeout(t.Context(), 10*time.Second)
		defer stop()
		_, err = s.Poll(ends)
		require.ErrorIs(t, err, context.DeadlineExceeded, "nothing is left")
		require.NoError(t, s.Close())
	})
}

func TestRecordsOfAShareMemberThatLeavesAreDeliveredToAnother(t *testing.T) {
	both(t, func(t *testing.T, c strata.Client) {
		fill(t, c, 10)
		first, err := consumer.NewShare(c, consumer.ShareConfig{Group: "jobs", Topics: []string{"t"}, Explicit: true})
		require.NoError(t, err)
		_, err = first.Poll(t.Context())
		require.NoError(t, err)
		require.NoError(t, first.Close())
		second, err := consumer.NewShare(c, consumer.ShareConfig{Group: "jobs", Topics: []string{"t"}})
		require.NoError(t, err)
		began, got := time.Now(), map[string]int{}
		for r, err := range second.Records(t.Context()) {
			require.NoError(t, err)
			if got[string(r.Value)]++; len(got) == 10 {
				break
			}
		}
		require.Less(t, time.Since(began), 10*time.Second, "without waiting for locks")
		require.NoError(t, second.Close())
	})
}

func TestShareGroupOfAnUnknownTopicIsRefused(t *testing.T) {
	both(t, func(t *testing.T, c strata.Client) {
		_, err := consumer.NewShare(c, consumer.ShareConfig{Group: "jobs", Topics: []string{"unknown"}})
		require.ErrorIs(t, err, replication.ErrUnknownTopic)
	})
}

func TestShareMemberBeginsWhereItsConfigSays(t *testing.T) {
	both(t, func(t *testing.T, c strata.Client) {
		fill(t, c, 5)
		time.Sleep(time.Hour)
		for name, from := range map[string]consumer.Reset{"earliest": consumer.Earliest(), "latest": consumer.Latest(), "time": consumer.At(time.Now().Add(-time.Minute))} {
			s, err := consumer.NewShare(c, consumer.ShareConfig{Group: name, Topics: []string{"t"}, Reset: from})
			require.NoError(t, err)
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			recs, err := s.Poll(ctx)
			cancel()
			if name == "earliest" {
				require.NoError(t, err)
				require.NotEmpty(t, recs)
			} else {
				require.ErrorIs(t, err, context.DeadlineExceeded, fmt.Sprint(name, recs))
			}
			require.NoError(t, s.Close())
		}
	})
}

func TestShareMemberWaitsForACoordinatorThatIsLoading(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := kafkatest.New(t, kafkatest.Config{Pipe: true, Topics: map[string]int{"t": 1}})
		loading := s.Fault(kafkatest.Fault{APIs: []kafka.Key{kafka.ShareGroupHeartbeat}, Code: kafka.CoordinatorNotAvailable, Times: 3})
		c, err := dial(t.Context(), s)
		require.NoError(t, err)
		m, err := consumer.NewShare(c, consumer.ShareConfig{Group: "jobs", Topics: []string{"t"}})
		require.NoError(t, err)
		require.Equal(t, 3, loading.Hits())
		require.NoError(t, m.Close())
		loading = s.Fault(kafkatest.Fault{APIs: []kafka.Key{kafka.ShareGroupHeartbeat}, Code: kafka.GroupAuthorizationFailed, Times: kafkatest.Always})
		_, err = consumer.NewShare(c, consumer.ShareConfig{Group: "others", Topics: []string{"t"}})
		require.ErrorIs(t, err, remote.ErrNotAuthorized)
		require.Equal(t, 1, loading.Hits(), "a final error is not tried again")
		require.NoError(t, c.Close())
	})
}
